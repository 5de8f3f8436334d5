/* The loudspeaker: 16-bit pieces played in order without a gap, and silenced at once. */

const RATE = 24000
const AHEAD = 0.03  // seconds between a first piece's arrival and its sound
const FADE = 0.008

export class Playback {
  #context = null
  #gain = null
  #sources = new Set()
  #next = 0
  #idle

  /** idle(silenced): called when everything has been played, or was silenced. */
  constructor(idle) { this.#idle = idle }

  /** Samples a second of what `play` takes. */
  get rate() { return RATE }

  /** Get ready; browsers want this in a key press or a click. */
  wake() {
    if (!this.#context) {
      this.#context = new AudioContext({sampleRate: RATE})
      this.#fresh()
    }
    if (this.#context.state === "suspended") this.#context.resume()
  }

  /** Seconds that are still to be played. */
  get buffered() { return this.#context ? Math.max(0, this.#next - this.#context.currentTime) : 0 }

  /** Play an ArrayBuffer of 16-bit samples after all others; [start, end] on the clock of `now`. */
  play(data) {
    this.wake()
    const pcm = new Int16Array(data)
    const buffer = this.#context.createBuffer(1, pcm.length, RATE)
    const samples = buffer.getChannelData(0)
    for (let i = 0; i < pcm.length; i++) samples[i] = pcm[i] / 32768
    const source = new AudioBufferSourceNode(this.#context, {buffer})
    source.connect(this.#gain)
    const start = Math.max(this.#context.currentTime + AHEAD, this.#next)
    this.#next = start + buffer.duration
    this.#sources.add(source)
    source.onended = () => {
      this.#sources.delete(source)
      if (!this.#sources.size) this.#idle(false)
    }
    source.start(start)
    return [start, this.#next]
  }

  /** Seconds on the loudspeaker's clock. */
  get now() { return this.#context?.currentTime ?? 0 }

  /** Silence, now. */
  clear() {
    if (!this.#context) return
    this.#gain.gain.setTargetAtTime(0, this.#context.currentTime, FADE)
    for (const source of this.#sources) {
      source.onended = null
      source.stop(this.#context.currentTime + 5 * FADE)
    }
    this.#sources.clear()
    this.#next = 0
    this.#fresh()
    this.#idle(true)
  }

  /** A gain of its own for what comes after a silence. */
  #fresh() {
    this.#gain = new GainNode(this.#context)
    this.#gain.connect(this.#context.destination)
  }
}
