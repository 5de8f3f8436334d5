/* Subtitles as the daemon sets them (daemon/subtitles.py, which gives the reasons): two lines of 42 columns, no flicker. */

/** Cues of finals, each with its speaker before it, as SubRip. `called` tells how a speaker's number is written. */
export function srt(finals, called) {
  return cues(finals, called).map((cue, i) => {
    const speaker = cue.speaker && `${cue.speaker}: `
    return `${i + 1}\n${times(cue, ",")}\n${speaker}${cue.lines.join("\n")}\n`
  }).join("\n")
}

/** The same as WebVTT, where some characters would be read as marks, and a speaker is one. */
export function vtt(finals, called) {
  const safe = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;")
  return ["WEBVTT\n", ...cues(finals, called).map((cue) => {
    const speaker = cue.speaker && `<v ${safe(cue.speaker)}>`
    return `${times(cue, ".")}\n${speaker}${safe(cue.lines.join("\n"))}\n`
  })].join("\n")
}

const WIDTH = 42, LINES = 2, LONGEST = 7, SHORTEST = 1, LINGER = 0.5, READ = 17, FLICKER = 0.1, PAUSE = 1.5
const PAUSE_CHARACTERS = 20
const STOP = /[,;:.?!、。，？！]$/
const WIDE = /[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6]|[\u{20000}-\u{3fffd}]/u

/** Cues of finals: [{start, end, lines, speaker}]. */
function cues(finals, called) {
  const parts = joined(finals.flatMap((final) => runs(spaced(final, called)).flatMap(parted)))
  const found = []
  parts.forEach((words, i) => {
    const start = Math.max(words[0].start, found.at(-1)?.start ?? 0)
    found.push({start, end: ending(start, words, parts[i + 1]?.[0].start), lines: lines(words), speaker: words[0].speaker})
  })
  return found
}

/** The words of a final, each with whether a space stands before it; one longer than a line in pieces. */
function spaced({text, words}, called) {
  const found = []
  let place = 0
  for (const word of words) {
    const at = text.indexOf(word.text, place)
    const space = found.length > 0 && (at < 0 || at > place)
    if (at >= 0) place = at + word.text.length
    const pieces = [""]
    for (const character of word.text) {
      if (pieces.at(-1) && width(pieces.at(-1) + character) > WIDTH) pieces.push("")
      pieces[pieces.length - 1] += character
    }
    const each = (word.end - word.start) / pieces.length
    pieces.forEach((piece, i) => {
      const start = word.start + i * each
      found.push({text: piece, start, end: start + each, space: space && !i, speaker: called(word.speaker)})
    })
  }
  return found
}

function runs(words) {
  const found = []
  for (const word of words) {
    const last = found.at(-1)?.at(-1)
    if (last && word.start - last.end <= PAUSE && word.speaker === last.speaker) found.at(-1).push(word)
    else found.push([word])
  }
  return found
}

function parted(words) {
  if (words.length === 1 || fits(words)) return [words]
  const whole = width(text(words))
  let cut = 1, least = Infinity
  for (let i = 1; i < words.length; i++) {
    const before = text(words.slice(0, i))
    const badness = Math.abs(width(before) - whole / 2) - (STOP.test(before) ? PAUSE_CHARACTERS : 0)
    if (badness < least) [cut, least] = [i, badness]
  }
  return [...parted(words.slice(0, cut)), ...parted(words.slice(cut))]
}

const fits = (words) => words.at(-1).end - words[0].start <= LONGEST && filled(words, WIDTH).length <= LINES

function joined(parts) {
  const found = []
  for (const part of parts) {
    const last = found.at(-1)
    if (last) {
      const both = [...last, {...part[0], space: true}, ...part.slice(1)]
      const close = part[0].start - last.at(-1).end <= PAUSE && part[0].speaker === last[0].speaker
      const hurried = part[0].start - last[0].start < SHORTEST || part.at(-1).end - part[0].start < 0.3
      if (close && hurried && fits(both)) {
        found[found.length - 1] = both
        continue
      }
    }
    found.push(part)
  }
  return found
}

function ending(start, words, following) {
  const last = Math.max(words.at(-1).end, start)
  const read = start + Math.max(SHORTEST, width(text(words)) / READ)
  const end = Math.max(last, Math.min(Math.max(last + LINGER, read), Math.max(last, start + LONGEST)))
  if (following === undefined) return end
  const next = Math.max(following, start)
  return end > next - FLICKER ? next : end
}

function lines(words) {
  const count = filled(words, WIDTH).length
  for (let least = Math.floor(width(text(words)) / count); least <= WIDTH; least++) {
    const found = filled(words, least).map(text)
    if (found.length <= count && found.every((line) => width(line) <= WIDTH)) return found
  }
  return filled(words, WIDTH).map(text)
}

function filled(words, most) {
  const found = [[]]
  for (const word of words) {
    if (found.at(-1).length && width(text([...found.at(-1), word])) > most) found.push([])
    found.at(-1).push(word)
  }
  return found
}

const text = (words) => words.map((word, i) => (word.space && i ? " " : "") + word.text).join("")

const width = (line) => [...line].reduce((sum, character) => sum + (WIDE.test(character) ? 2 : 1), 0)

const times = (cue, point) => `${stamp(cue.start, point)} --> ${stamp(cue.end, point)}`

function stamp(seconds, point) {
  const whole = Math.round(seconds * 1000)
  const digits = (value, count = 2) => String(Math.floor(value)).padStart(count, "0")
  return `${digits(whole / 3600000)}:${digits(whole / 60000 % 60)}:${digits(whole / 1000 % 60)}${point}` +
    digits(whole % 1000, 3)
}
