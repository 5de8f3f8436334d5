/* A recording from a file: sent to the daemon, which tells what it hears in it while it hears it. */

import {ask, Trouble} from "./daemon.js"

/**
 * Have a File heard. `heard(final)` gets each sentence as it is heard, as a Transcript keeps them, `offset` seconds
 * later than in the file. Throws Trouble; a `signal` that is aborted ends it.
 */
export async function hear(file, offset, heard, signal) {
  const body = new FormData()
  body.append("file", file, file.name)
  body.append("stream", "true")
  body.append("timestamp_granularities[]", "word")
  const answer = await ask("v1/audio/transcriptions", {method: "POST", body, signal})
  for await (const event of events(answer.body)) {
    if (event.error) throw new Trouble(400, `${file.name} cannot be heard: ${event.error.message}.`)
    if (event.type !== "transcript.text.delta") continue
    const words = event.words.map(({word, start, end}) => ({text: word, start: start + offset, end: end + offset}))
    heard({start: event.start + offset, end: event.end + offset, text: event.delta.trim(), words, closes: true})
  }
}

/** The events of an answer's body, as they come. */
async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ""
  for (;;) {
    const {value, done} = await reader.read()
    if (done) return
    const lines = (rest + value).split("\n")
    rest = lines.pop()
    for (const line of lines) {
      if (line.startsWith("data: {")) yield JSON.parse(line.slice(6))
    }
  }
}
