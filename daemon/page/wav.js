/* Sound as a file: pieces of 16-bit mono samples, kept in the tab until somebody wants them. */

const MOST_SECONDS = 3600  // beyond, the oldest goes: an hour is some 115 MB

export class Tape {
  #pieces = []
  #samples = 0

  /** Samples a second; those of another rate begin anew. */
  rate = 0

  get empty() { return !this.#samples }

  /** Keep a piece, an Int16Array. */
  add(piece, rate) {
    if (rate !== this.rate) this.clear()
    this.rate = rate
    this.#pieces.push(piece)
    this.#samples += piece.length
    while (this.#samples > MOST_SECONDS * rate) this.#samples -= this.#pieces.shift().length
  }

  clear() {
    this.#pieces = []
    this.#samples = 0
  }

  /** A WAV file. */
  wav() {
    const header = new DataView(new ArrayBuffer(44))
    const bytes = this.#samples * 2
    const word = (place, letters) => [...letters].forEach((letter, i) => header.setUint8(place + i, letter.charCodeAt()))
    word(0, "RIFF")
    header.setUint32(4, 36 + bytes, true)
    word(8, "WAVEfmt ")
    header.setUint32(16, 16, true)
    header.setUint16(20, 1, true)
    header.setUint16(22, 1, true)
    header.setUint32(24, this.rate, true)
    header.setUint32(28, this.rate * 2, true)
    header.setUint16(32, 2, true)
    header.setUint16(34, 16, true)
    word(36, "data")
    header.setUint32(40, bytes, true)
    return new Blob([header, ...this.#pieces], {type: "audio/wav"})
  }
}
