/* In the audio thread: the microphone's samples as 16-bit pieces of some 40 ms, each with its peak. */

const PIECE = Math.round(sampleRate * 0.04)

class Capture extends AudioWorkletProcessor {
  #piece = new Int16Array(PIECE)
  #filled = 0
  #peak = 0

  process([[samples]]) {
    for (const sample of samples ?? []) {
      const value = Math.max(-1, Math.min(1, sample))
      this.#peak = Math.max(this.#peak, Math.abs(value))
      this.#piece[this.#filled++] = Math.round(value * (value < 0 ? 32768 : 32767))
      if (this.#filled === PIECE) this.#send()
    }
    return true
  }

  #send() {
    const piece = this.#piece
    this.port.postMessage({piece, peak: this.#peak}, [piece.buffer])
    this.#piece = new Int16Array(PIECE)  // the other one belongs to the page now
    this.#filled = this.#peak = 0
  }
}

registerProcessor("capture", Capture)
