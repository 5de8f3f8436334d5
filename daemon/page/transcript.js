/* What was said so far: finals in order, kept in this tab over a reload, given out as text and as subtitles. */

const KEPT = "hearsay.transcript"
const CUE_SECONDS = 7, CUE_CHARACTERS = 84

export class Transcript {
  #finals = []

  constructor() {
    try {
      this.#finals = JSON.parse(sessionStorage.getItem(KEPT) ?? "[]")
    } catch {
      this.#finals = []
    }
  }

  /** Each final: {start, end, text, words: [{text, start, end}], closes}, in seconds. */
  get finals() { return this.#finals }

  set finals(finals) {
    this.#finals = finals
    this.#keep()
  }

  /** Seconds at which the last one ends. */
  get end() { return this.#finals.at(-1)?.end ?? 0 }

  /** Add a final that has words. */
  add({start, end, text, words, closes}) {
    this.#finals.push({start, end, text, words, closes})
    this.#keep()
  }

  #keep() {
    try {
      sessionStorage.setItem(KEPT, JSON.stringify(this.#finals))
    } catch { /* full: a reload loses what is new, nothing else does */ }
  }

  /** A line for each utterance. */
  text() {
    const lines = [[]]
    for (const final of this.#finals) {
      lines.at(-1).push(final.text)
      if (final.closes) lines.push([])
    }
    return lines.filter((line) => line.length).map((line) => line.join(" ") + "\n").join("")
  }

  /** SubRip. */
  srt() {
    return this.#cues().map((cue, i) => `${i + 1}\n${times(cue, ",")}\n${joined(cue)}\n`).join("\n")
  }

  /** WebVTT. */
  vtt() {
    return ["WEBVTT\n", ...this.#cues().map((cue) => `${times(cue, ".")}\n${joined(cue)}\n`)].join("\n")
  }

  #cues() {
    const cues = []
    for (const {words} of this.#finals) {
      let cue = null
      for (const word of words) {
        if (!cue || word.end - cue[0].start > CUE_SECONDS || joined([...cue, word]).length > CUE_CHARACTERS) {
          cues.push(cue = [])
        }
        cue.push(word)
      }
    }
    return cues
  }
}

const joined = (words) => words.map((word) => word.text).join(" ")

const times = (words, point) => `${stamp(words[0].start, point)} --> ${stamp(words.at(-1).end, point)}`

function stamp(seconds, point) {
  const whole = Math.round(seconds * 1000)
  const digits = (value, count = 2) => String(Math.floor(value)).padStart(count, "0")
  return `${digits(whole / 3600000)}:${digits(whole / 60000 % 60)}:${digits(whole / 1000 % 60)}${point}` +
    digits(whole % 1000, 3)
}
