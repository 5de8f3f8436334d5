/*
 * One recording being heard, over as many connections as it takes. The audio since the last final is kept, at most a
 * minute of it; when a connection is lost, the next one gets it again, and nothing said meanwhile is lost.
 */

import {openSocket, whyRefused} from "./daemon.js"

const MOST_KEPT_SECONDS = 60
const FIRST_WAIT = 500, LONGEST_WAIT = 8000, LOOK = 300
const QUERY = {encoding: "linear16", channels: 1, interim_results: true}
const SPEAKERS = {diarize: true, speaker_merged: true}

export class Hearing {
  #query
  #rate
  #offset
  #on
  #pieces = []
  #begin = 0
  #end = 0
  #clock = []
  #socket = null
  #base = 0
  #failures = 0
  #begun = false
  #ended = false
  #closed = false
  #missed = 0
  #shown = []  // when each word of the open utterance first stood in a caption

  /**
   * rate: of the pieces. offset: seconds on the transcript's clock at which this recording begins. on: what to tell:
   * interim(results), final(results, lag, lags), speaker(change), connected(missedSeconds), lost(trouble, wait),
   * done(trouble or null). Times in results are moved to the transcript's clock, and session tells whose speakers they
   * have. Milliseconds: lag of the final after the last word, null where it was asked for; lags of each word's first
   * caption after the word. speakers: whether who speaks is told.
   */
  constructor(rate, offset, on, speakers = false) {
    this.#query = {...QUERY, ...(speakers && SPEAKERS), sample_rate: rate}
    this.#rate = rate
    this.#offset = offset
    this.#on = on
    this.#connect()
  }

  /** Seconds recorded. */
  get seconds() { return this.#end / this.#rate }

  /** Take a piece of the recording. */
  push(piece) {
    if (this.#ended) return
    this.#pieces.push(piece)
    this.#end += piece.length
    this.#clock.push([this.#end, performance.now()])
    if (this.#clock.length > 4000) this.#clock.splice(0, 2000)
    while (this.#end - this.#begin > MOST_KEPT_SECONDS * this.#rate) {
      const dropped = this.#pieces.shift().length
      this.#begin += dropped
      if (!this.#open) this.#missed += dropped
    }
    if (this.#open) this.#send(piece)
  }

  /** The recording is over: `done` follows, after the last final. */
  end() {
    if (this.#ended) return
    this.#ended = true
    if (this.#open) this.#tell("CloseStream")
  }

  /** Drop everything at once. */
  abort() {
    this.#socket.close()
    this.#finish(null)
  }

  get #open() { return this.#socket?.readyState === WebSocket.OPEN }

  #connect() {
    if (this.#closed) return
    const socket = this.#socket = openSocket("v1/listen", this.#query)
    let opened = false
    socket.onopen = () => {
      opened = this.#begun = true
      this.#base = this.#begin
      for (const piece of this.#pieces) this.#send(piece)
      this.#on.connected(this.#missed / this.#rate)
      this.#missed = 0
      if (this.#ended) this.#tell("CloseStream")
    }
    socket.onmessage = ({data}) => this.#heard(JSON.parse(data))
    socket.onclose = ({code}) => this.#over(opened, code)
  }

  #send(piece) {
    // A connection slower than the audio: what it has not sent by now, the next one sends again.
    if (this.#socket.bufferedAmount > 2 * MOST_KEPT_SECONDS * this.#rate) this.#socket.close(4000)
    else this.#socket.send(piece)
  }

  #tell(type) { this.#socket.send(JSON.stringify({type})) }

  #heard(message) {
    const session = this.#socket
    if (message.type.startsWith("Speaker")) this.#on.speaker({...message, session})
    if (message.type !== "Results") return
    this.#failures = 0
    const now = performance.now()
    const start = this.#base / this.#rate + message.start
    const end = start + message.duration
    const {transcript, words, stable_words: stable} = message.channel.alternatives[0]
    const moved = this.#base / this.#rate + this.#offset
    const results = {
      start: start + this.#offset,
      end: end + this.#offset,
      text: transcript,
      words: words.map(({punctuated_word, word, start, end, speaker, speaker_name}) => ({
        text: punctuated_word ?? word, start: start + moved, end: end + moved, speaker, name: speaker_name,
      })),
      session,
      stable,
      closes: message.speech_final,
    }
    if (message.is_final) {
      const lags = results.words.map((word, i) => (this.#shown[i] ?? now) - this.#arrived(word.end - this.#offset))
      const last = words.length ? results.words.at(-1).end - this.#offset : end
      const lag = now - this.#arrived(last)
      this.#shown = []
      this.#release(end * this.#rate)
      this.#on.final(results, this.#ended ? null : lag, lags)
    } else {
      while (this.#shown.length < words.length) this.#shown.push(now)
      this.#on.interim(results)
    }
  }

  /** When the audio up to `seconds` was recorded. */
  #arrived(seconds) {
    const position = seconds * this.#rate
    const entry = this.#clock.find(([end]) => end >= position - 1)
    return entry ? entry[1] : performance.now()
  }

  /** Forget whole pieces before `position`. */
  #release(position) {
    while (this.#pieces.length && this.#begin + this.#pieces[0].length <= position) {
      this.#begin += this.#pieces.shift().length
    }
  }

  async #over(opened, code) {
    if (this.#ended && code === 1000) return this.#finish(null)
    const trouble = opened || this.#closed ? null : await whyRefused("v1/audio/transcriptions")
    if (this.#closed) return
    // Who was never let in is told why; who was, comes back, unless it cannot help.
    if (trouble && (!this.#begun || !trouble.passing)) return this.#finish(trouble)
    // A daemon that is away or loads is looked for all the time; one that is full is left alone for longer and longer.
    const away = [0, 503].includes(trouble?.status)
    const wait = away ? LOOK : Math.min(FIRST_WAIT * 2 ** this.#failures++, LONGEST_WAIT)
    this.#on.lost(trouble, wait)
    setTimeout(() => this.#connect(), wait)
  }

  #finish(trouble) {
    if (this.#closed) return
    this.#closed = true
    this.#on.done(trouble)
  }
}
