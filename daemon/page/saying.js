/* Text that is spoken while it is typed, over one connection that comes and goes with its use. */

import {openSocket, Trouble, whyRefused} from "./daemon.js"

// A phrase is spoken when it is whole: word by word, speech would stop after each to wait for the next.
const PAUSE = 900  // milliseconds without a key after which what stands there counts as a phrase
const SHORT_PAUSE = 300  // the same where it ends with a mark
const CLAUSE_WORDS = 4  // before a comma
const MOST_WORDS = 10  // of a phrase without any mark
const SENTENCE = /[.?!…]["')\]]*\s|[?!…]["')\]]*$|\n/y
const CLAUSE = /[,;:]\s/y

const says = (reason) => new Trouble(0, `The daemon says: ${reason}.`)

export class Saying {
  #playback
  #on
  #socket = null
  #waiting = []
  #voice = ""
  #said = ""
  #asked = null
  #timer = 0
  #stale = 0
  #piece = null
  #due = 0  // Flushes without an answer
  #fault = ""

  /** playback: a Playback. on: sound(milliseconds), piece(words, start, end), pcm(ArrayBuffer), trouble(trouble), busy(). */
  constructor(playback, on) {
    this.#playback = playback
    this.#on = on
  }

  /** Speak with another voice from now on. */
  use(voice) {
    this.#voice = voice
    this.#drop()
  }

  /** The text as it stands while it is typed: each phrase is spoken as soon as it is one. */
  type(text) {
    clearTimeout(this.#timer)
    if (!text.startsWith(this.#said)) this.#revise(text)
    this.#say(text, this.#said.length + phrase(text.slice(this.#said.length)))
    const rest = text.slice(this.#said.length).trim()
    if (rest) this.#timer = setTimeout(() => this.#say(text), /[.,;:?!…]$/.test(rest) ? SHORT_PAUSE : PAUSE)
  }

  /** All of it, from the beginning. */
  speak(text) {
    this.stop()
    this.#said = ""
    this.#say(text, text.length, true)
  }

  /** Whether sound is still to come. */
  get due() { return this.#due > 0 && this.#socket !== null }

  /** Silence; what stands there counts as said. */
  stop(text = this.#said) {
    clearTimeout(this.#timer)
    this.#said = text
    this.#waiting = []
    this.#asked = this.#piece = null
    this.#due = 0
    if (this.#socket?.readyState === WebSocket.OPEN) {
      this.#stale++
      this.#tell({type: "Clear"})
    }
    this.#playback.clear()
  }

  /** Say the text up to `until`, as a phrase of its own; a mark that stands alone only where that is `wanted`. */
  #say(text, until = text.length, wanted = false) {
    const words = text.slice(this.#said.length, until)
    if (!words) return
    this.#said = text.slice(0, until)
    if (!words.trim() || !wanted && !/[\p{L}\p{N}]/u.test(words)) return
    this.#asked ??= this.#playback.buffered ? null : performance.now()
    this.#tell({type: "Speak", text: words})
    this.#tell({type: "Flush"})
    this.#due++
  }

  /** What was already said has been edited: silence, and on from the word that changed. */
  #revise(text) {
    let same = 0
    while (same < text.length && text[same] === this.#said[same]) same++
    this.stop(same === text.length ? text : text.slice(0, text.slice(0, same).search(/\S*$/)))
  }

  #tell(message) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(message))
    else {
      this.#waiting.push(message)
      this.#connect()
    }
    this.#on.busy()
  }

  #connect() {
    if (this.#socket) return
    const query = {encoding: "linear16", sample_rate: this.#playback.rate, marks: true}
    const socket = this.#socket = openSocket("v1/speak", this.#voice ? {...query, voice: this.#voice} : query)
    let opened = false
    this.#stale = this.#due = 0
    this.#fault = ""
    socket.onopen = () => {
      opened = true
      for (const message of this.#waiting.splice(0)) socket.send(JSON.stringify(message))
    }
    socket.onmessage = ({data}) => {
      if (this.#socket === socket) this.#came(data)
    }
    socket.onclose = async ({code}) => {
      if (this.#socket !== socket) return
      this.#socket = null
      if (!opened) {
        this.#waiting = []
        this.#said = ""
        this.#on.trouble(await whyRefused("v1/speak"))
      } else if (code !== 1000 && this.#due) {
        this.#on.trouble(this.#fault ? says(this.#fault) : await whyRefused("v1/speak"))
      }
    }
  }

  #came(data) {
    if (data instanceof ArrayBuffer) {
      if (this.#stale) return
      if (this.#asked) this.#on.sound(performance.now() - this.#asked)
      this.#asked = null
      const [start, end] = this.#playback.play(data)
      this.#on.pcm?.(data)
      this.#piece = [this.#piece?.[0] ?? start, end]
      return
    }
    const {type, description, end, words} = JSON.parse(data)
    if (type === "Cleared") this.#stale = Math.max(0, this.#stale - 1)
    if (type === "Error") this.#fault = description  // a close follows, which matters if something is still to be said
    if (this.#stale) return
    if (type === "Flushed") this.#due = Math.max(0, this.#due - 1)
    if (type === "Warning") this.#on.trouble(says(description))
    if (type === "Piece" && this.#piece) {
      const late = this.#piece[1] - end  // of the loudspeaker's clock, after the stream's
      this.#on.piece(words.map((one) => ({...one, start: one.start + late, end: one.end + late})), ...this.#piece)
      this.#piece = null
    }
  }

  #drop() {
    const socket = this.#socket
    this.#socket = null
    this.#waiting = []
    socket?.close(1000)
    this.#playback.clear()
  }
}

/** How much of `text` is whole phrases. */
export function phrase(text) {
  let end = 0, words = 0
  for (let i = 0; i < text.length; i++) {
    if (/\s/.test(text[i]) && i && /\S/.test(text[i - 1])) words++
    SENTENCE.lastIndex = CLAUSE.lastIndex = i
    const mark = SENTENCE.exec(text) ?? (words + 1 >= CLAUSE_WORDS ? CLAUSE.exec(text) : null)
    const long = words >= MOST_WORDS && /\s/.test(text[i])
    if (!mark && !long) continue
    end = i + (mark?.[0].length ?? 1)
    i = end - 1
    words = 0
  }
  return end
}
