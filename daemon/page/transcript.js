/* What was said so far: finals in order, kept in this tab over a reload, given out as text and as subtitles. */

import {srt, vtt} from "./subtitles.js"

const KEPT = "hearsay.transcript"

export class Transcript {
  #finals = []
  #names = {}  // of speakers who have one, by their number
  #numbers = new Map()  // for each session its speakers, by what it calls them, and their numbers here
  #next = 0

  constructor() {
    try {
      this.kept = JSON.parse(sessionStorage.getItem(KEPT) ?? "{}")
    } catch { /* what is no transcript is none */ }
  }

  /** Each final: {start, end, text, words: [{text, start, end, speaker}], closes}, in seconds; speakers are numbers. */
  get finals() { return this.#finals }

  /** All of it as one value, which can be given back. */
  get kept() { return {finals: this.#finals, names: this.#names} }

  set kept({finals = [], names = {}}) {
    this.#finals = finals
    this.#names = names
    this.#numbers.clear()
    this.#next = 1 + Math.max(-1, ...finals.flatMap(({words}) => words.map(({speaker}) => speaker ?? -1)))
    this.#keep()
  }

  /** Seconds at which the last one ends. */
  get end() { return this.#finals.at(-1)?.end ?? 0 }

  /**
   * Add a final that has words. Its `session` is any value that no other has: another's speaker A is somebody else here.
   * Words may have speaker, as the session calls them, and name.
   */
  add({start, end, text, words, closes, session}) {
    const own = words.map(({text, start, end, speaker, name}) => {
      if (speaker === undefined) return {text, start, end}
      if (name) this.named(session, speaker, name)
      return {text, start, end, speaker: this.#number(session, speaker)}
    })
    this.#finals.push({start, end, text, words: own, closes})
    this.#keep()
  }

  /** How a speaker is written: the name, else a letter; nothing where nobody is told. */
  called = (speaker) => speaker === undefined ? "" : this.#names[speaker] ?? letter(speaker)

  /** From now on the speaker of that number has a name; an empty one is none. */
  name(speaker, name) {
    this.#names = {...this.#names, [speaker]: name || undefined}
    this.#keep()
  }

  /** A session says who a speaker is. A name that was given by hand stays. */
  named(session, speaker, name) {
    const number = this.#number(session, speaker)
    if (!this.#names[number]) this.name(number, name)
  }

  /** A session says that two of its speakers are one, who keeps the name of either; how both were written is returned. */
  merged(session, speaker, into) {
    const [from, to] = [this.#number(session, speaker), this.#number(session, into)]
    const before = [from, to].map(this.called)
    for (const word of this.#finals.flatMap(({words}) => words)) if (word.speaker === from) word.speaker = to
    this.#numbers.get(session).set(speaker, to)
    if (this.#names[from] && !this.#names[to]) this.#names = {...this.#names, [to]: this.#names[from]}
    this.#keep()
    return before
  }

  /** The number here of who is called `speaker` in a session. */
  #number(session, speaker) {
    if (!this.#numbers.has(session)) this.#numbers.set(session, new Map())
    const known = this.#numbers.get(session)
    if (!known.has(speaker)) known.set(speaker, this.#next++)
    return known.get(speaker)
  }

  #keep() {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(this.kept))
    } catch { /* full: a reload loses what is new, nothing else does */ }
  }

  /** A line for each utterance, and in it for each speaker. */
  text() {
    const lines = []
    let open = false
    for (const final of this.#finals) {
      for (const {speaker, text} of spokenBy(final)) {
        if (open && lines.at(-1).speaker === speaker) lines.at(-1).text += ` ${text}`
        else lines.push({speaker, text})
        open = true
      }
      open = !final.closes
    }
    return lines.map(({speaker, text}) => `${this.called(speaker)}${speaker === undefined ? "" : ": "}${text}\n`).join("")
  }

  /** SubRip. */
  srt() { return srt(this.#finals, this.called) }

  /** WebVTT. */
  vtt() { return vtt(this.#finals, this.called) }
}

/** What people call a speaker: A … Z, then AA, AB … */
const letter = (speaker) => (speaker >= 26 ? letter(Math.floor(speaker / 26) - 1) : "") +
  String.fromCharCode(65 + speaker % 26)

/** The parts of a final that one speaker says: [{speaker, start, text}]. */
export function spokenBy({start, text, words}) {
  const found = [{speaker: words[0]?.speaker, start, from: 0}]
  let at = 0
  for (const word of words) {
    const place = Math.max(text.indexOf(word.text, at), at)
    if (word.speaker !== found.at(-1).speaker) found.push({speaker: word.speaker, start: word.start, from: place})
    at = place + word.text.length
  }
  return found.map(({speaker, start, from}, i) => ({speaker, start, text: text.slice(from, found[i + 1]?.from).trim()}))
}
