/* What was said so far: finals in order, kept in this tab over a reload, given out as text and as subtitles. */

const KEPT = "hearsay.transcript"
const CUE_SECONDS = 7, CUE_CHARACTERS = 84, PAUSE_CHARACTERS = 20

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
    return this.#finals.flatMap(({words}) => parted(words))
  }
}

/* Words to cues, as the daemon parts them (daemon/openai/transcript.py). */
function parted(words) {
  if (!words.length) return []
  const whole = joined(words).length
  if (words.length === 1 || words.at(-1).end - words[0].start <= CUE_SECONDS && whole <= CUE_CHARACTERS) return [words]
  let cut = 1, least = Infinity
  for (let i = 1; i < words.length; i++) {
    const before = joined(words.slice(0, i))
    const badness = Math.abs(before.length - whole / 2) - (/[,;:.?!]$/.test(before) ? PAUSE_CHARACTERS : 0)
    if (badness < least) [cut, least] = [i, badness]
  }
  return [...parted(words.slice(0, cut)), ...parted(words.slice(cut))]
}

const joined = (words) => words.map((word) => word.text).join(" ")

const times = (words, point) => `${stamp(words[0].start, point)} --> ${stamp(words.at(-1).end, point)}`

function stamp(seconds, point) {
  const whole = Math.round(seconds * 1000)
  const digits = (value, count = 2) => String(Math.floor(value)).padStart(count, "0")
  return `${digits(whole / 3600000)}:${digits(whole / 60000 % 60)}:${digits(whole / 1000 % 60)}${point}` +
    digits(whole % 1000, 3)
}
