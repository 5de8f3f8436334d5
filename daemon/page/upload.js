/* A recording from a file: sent to the daemon, which tells what it hears in it while it hears it. */

import {ask, Trouble} from "./daemon.js"

/**
 * Have a File heard. `heard(final)` gets each sentence as it is heard, as a Transcript keeps them, `offset` seconds
 * later than in the file. Throws Trouble; a `signal` that is aborted ends it. `speakers`: whether who speaks is told.
 */
export async function hear(file, offset, heard, signal, speakers = false) {
  const body = new FormData()
  body.append("file", file, file.name)
  body.append("stream", "true")
  body.append("timestamp_granularities[]", "word")
  if (speakers) body.append("diarize", "true")
  const answer = await ask("v1/audio/transcriptions", {method: "POST", body, signal})
  for await (const event of events(answer.body)) {
    if (event.error) throw new Trouble(400, `${file.name} cannot be heard: ${event.error.message}.`)
    if (event.type !== "transcript.text.delta") continue
    const words = event.words.map(({word, start, end, speaker, speaker_name}) => (
      {text: word, start: start + offset, end: end + offset, speaker, name: speaker_name}))
    const [start, end] = [event.start + offset, event.end + offset]
    heard({start, end, text: event.delta.trim(), words, closes: true, session: file})
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
