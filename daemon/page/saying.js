/* Text that is spoken while it is typed, over one connection that comes and goes with its use. */

import {openSocket, Trouble, whyRefused} from "./daemon.js"

const PAUSE = 1500  // milliseconds without a key after which the last word counts as typed

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
  #open = false
  #due = 0  // Flushes without an answer
  #fault = ""

  /** playback: a Playback. on: sound(milliseconds), piece(text, start, end), trouble(trouble), busy(). */
  constructor(playback, on) {
    this.#playback = playback
    this.#on = on
  }

  /** Speak with another voice from now on. */
  use(voice) {
    this.#voice = voice
    this.#drop()
  }

  /** The text as it stands while it is typed: words that are complete are spoken, the last one after a pause. */
  type(text) {
    this.#say(text, false)
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => this.#say(text, true), PAUSE)
  }

  /** All of it, from the beginning. */
  speak(text) {
    this.stop()
    this.#said = ""
    this.#say(text, true)
  }

  /** Silence; what stands there counts as said. */
  stop(text = this.#said) {
    clearTimeout(this.#timer)
    this.#said = text
    this.#waiting = []
    this.#asked = this.#piece = null
    this.#open = false
    this.#due = 0
    if (this.#socket?.readyState === WebSocket.OPEN) {
      this.#stale++
      this.#tell({type: "Clear"})
    }
    this.#playback.clear()
  }

  #say(text, complete) {
    if (!text.startsWith(this.#said)) this.#revise(text)
    const until = complete ? text.length : text.search(/\S*$/)
    const words = text.slice(this.#said.length, until)
    if (words) {
      this.#said = text.slice(0, until)
      if (words.trim()) {
        this.#asked ??= this.#playback.buffered ? null : performance.now()
        this.#tell({type: "Speak", text: words})
        this.#open = true
      }
    }
    if (complete && this.#open) {
      this.#tell({type: "Flush"})
      this.#open = false
      this.#due++
    }
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
      } else if (code !== 1000 && (this.#open || this.#due)) {
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
      this.#piece = [this.#piece?.[0] ?? start, end]
      return
    }
    const {type, text, description} = JSON.parse(data)
    if (type === "Cleared") this.#stale = Math.max(0, this.#stale - 1)
    if (type === "Error") this.#fault = description  // a close follows, which matters if something is still to be said
    if (this.#stale) return
    if (type === "Flushed") this.#due--
    if (type === "Warning") this.#on.trouble(says(description))
    if (type === "Piece" && this.#piece) {
      this.#on.piece(text, ...this.#piece)
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
