/* The page: what people press, what they see, and a sentence for everything that goes wrong. */

import {Captions, clock} from "./captions.js"
import {ask, key, useKey} from "./daemon.js"
import {Hearing} from "./hearing.js"
import {microphones, NoMicrophone, openMicrophone} from "./microphone.js"
import {Playback} from "./playback.js"
import {Saying} from "./saying.js"
import {canTalk, Talking} from "./talking.js"
import {Transcript} from "./transcript.js"
import {hear} from "./upload.js"
import {Tape} from "./wav.js"

const $ = (id) => document.getElementById(id)

const transcript = new Transcript()
const captions = new Captions(transcript)
const recent = []  // lags of interims, milliseconds
let microphone = null
let hearing = null
const heardTape = new Tape(), spokenTape = new Tape()
let uploading = null  // an AbortController while files are heard
let cleared = null

// ------------------------------------------------------------------------------------------------------- what is told

/** Screen readers say again what is written again. */
function put(id, text) {
  if ($(id).textContent !== text) $(id).textContent = text
}

const state = (text) => put("state", text)

function notice(sentence) {
  $("notice").hidden = !sentence
  put("notice", sentence ?? "")
}

const LOOK = 1000  // milliseconds

const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(2)} s`

function told(trouble) {
  notice(trouble.message)
  if (trouble.status === 401) {
    $("access").hidden = false
    $("access").open = true
    $("key").focus()
  }
}

function closeAccess() {
  const inside = $("access").contains(document.activeElement)
  $("access").open = false
  if (inside) $("access").querySelector("summary").focus()
}

addEventListener("pointerdown", ({target}) => {
  if ($("access").open && !$("access").contains(target)) $("access").open = false
})

// --------------------------------------------------------------------------------------------------------- the daemon

let meeting = 0

async function meet() {
  clearTimeout(meeting)
  try {
    const [{data}, ready] = await Promise.all([
      ask("v1/models").then((answer) => answer.json()),
      ask("readyz").then((answer) => answer.json()),
    ])
    const name = (does) => data.find((model) => model.does === does)?.id
    $("models").textContent = `It hears with ${name("hearing")}` +
      (ready.speaking ? ` and speaks with ${name("speaking")}.` : " and does not speak.")
    await meetVoices(ready.speaking)
    $("talk-section").hidden = !ready.converses || !canTalk()
    if (idle()) state("Ready")
    notice(ready.why ?? null)
    meeting = setTimeout(look, LOOK)
  } catch (error) {
    lost(error)
  }
}

const idle = () => !hearing && !uploading && !talking.open

function lost(error) {
  if (idle()) state(error.status === 401 ? "Locked" : error.status ? "Not ready" : "No daemon")
  told(error)
  if (error.passing) meeting = setTimeout(meet, LOOK)
}

/** Whether the daemon is still there; who listens is told by the connection. */
async function look() {
  try {
    if (idle() && !document.hidden) await ask("readyz")
    meeting = setTimeout(look, LOOK)
  } catch (error) {
    lost(error)
  }
}

addEventListener("visibilitychange", () => document.hidden || idle() && look())

async function meetVoices(speaking) {
  for (const id of ["voice", "speak", "text", "typing"]) $(id).disabled = !speaking
  if (!speaking) {
    $("text").placeholder = "This daemon has no speaking model."
    return
  }
  const {voices} = await ask("v1/audio/voices").then((answer) => answer.json())
  const kept = localStorage.getItem("hearsay.voice")
  $("voice").replaceChildren(...voices.map(({id, name}) => new Option(name ?? id, id, false, id === kept)))
  saying.use($("voice").value)
}

$("key").value = key()
$("access").hidden = !key()
$("key-form").addEventListener("submit", (event) => {
  event.preventDefault()
  if (useKey($("key").value.trim())) {
    $("access").open = false
    saying.use($("voice").value)
    meet()
  } else {
    notice("A key is 8 to 256 letters, digits and . _ ~ + -, without spaces.")
  }
})

// ------------------------------------------------------------------------------------------------------------- hearing

$("listen").addEventListener("click", () => microphone || hearing || uploading ? stop() : listen())

async function showMicrophones() {
  const found = await microphones()
  const kept = localStorage.getItem("hearsay.microphone")
  $("microphone").replaceChildren(...found.map(({id, name}) => new Option(name, id, false, id === kept)))
  $("microphone").hidden = found.length < 2
}

$("microphone").addEventListener("change", () => {
  localStorage.setItem("hearsay.microphone", $("microphone").value)
  listenAgain("Changing the microphone")
})
$("speakers").checked = localStorage.getItem("hearsay.speakers") === "true"
$("speakers").addEventListener("change", () => {
  localStorage.setItem("hearsay.speakers", $("speakers").checked)
  listenAgain("Listening anew")
})

/** Who listens goes on with what is chosen by now: a session's options are fixed. */
async function listenAgain(why) {
  if (!microphone) return
  await stop()
  state(why)
  for (let i = 0; hearing && i < 100; i++) await new Promise((done) => setTimeout(done, 50))
  await listen()
}

navigator.mediaDevices?.addEventListener?.("devicechange", showMicrophones)

let offset = 0  // seconds on the transcript's clock at which the recording begins

async function listen() {
  notice(null)
  $("listen").disabled = true
  try {
    microphone = await openMicrophone($("microphone").value, take, (sentence) => {
      notice(sentence)
      stop()
    })
  } catch (error) {
    if (!(error instanceof NoMicrophone)) throw error
    notice(error.message)
    return
  } finally {
    $("listen").disabled = false
  }
  showMicrophones()
  if (!transcript.finals.length) heardTape.clear()
  cleared = null
  recent.length = 0
  offset = transcript.end
  hearing = new Hearing(microphone.rate, offset, {
    interim: (results) => captions.showOpen(results),
    final(results, lag, lags) {
      if (results.text) {
        transcript.add(results)
        recent.push(...lags)
        recent.splice(0, recent.length - 20)
        // A word may stand there before it has ended.
        $("interim-lag").textContent = seconds(Math.max(0, [...recent].sort((a, b) => a - b)[recent.length >> 1]))
        if (results.closes && lag !== null) $("final-lag").textContent = seconds(lag)
      }
      captions.showOpen(null)
      showFinals()
    },
    speaker({type, session, speaker, into, name}) {
      if (type === "SpeakerNamed") transcript.named(session, speaker, name)
      else notice(`${transcript.merged(session, speaker, into).join(" turned out to be ")}.`)
      captions.showAll()
    },
    connected(missed) {
      state("Listening")
      notice(missed >= 1 ? `${missed.toFixed(0)} s of sound were lost while there was no daemon.` : null)
    },
    lost(trouble) {
      state("Reconnecting")
      notice(`${trouble?.message ?? "The connection broke."} What you say is kept, up to a minute, and heard as soon ` +
        "as the daemon is back.")
    },
    done(trouble) {
      hearing = null
      captions.showOpen(null)
      stop()
      if (trouble) {
        state("Stopped")
        told(trouble)
      } else {
        state("Ready")
      }
    },
  }, $("speakers").checked)
  state("Connecting")
  listening(true)
}

function take(piece, peak) {
  hearing?.push(piece)
  heardTape.add(piece, microphone?.rate ?? heardTape.rate)
  $("save-heard").disabled = false
  showLevel(peak)
  put("clock", clock(offset + (hearing?.seconds ?? 0)))
}

async function stop() {
  uploading?.abort()
  const [open, running] = [microphone, hearing]
  microphone = null
  listening(false)
  showLevel(0)
  // A second press does not wait for a daemon that is away.
  if (open) running?.end()
  else running?.abort()
  await open?.stop()
}

function listening(on) {
  $("listen").textContent = on ? "Stop" : "Listen"
  $("listen").classList.toggle("on", on)
}

// ------------------------------------------------------------------------------------------------------ recordings

async function hearFiles(files) {
  if (!files.length || microphone || hearing || uploading) return
  notice(null)
  uploading = new AbortController()
  listening(true)
  cleared = null
  try {
    for (const file of files) {
      state(`Hearing ${file.name}`)
      const begin = transcript.end
      await hear(file, begin, (final) => {
        transcript.add(final)
        state(`Hearing ${file.name}: ${clock(final.end - begin)}`)
        put("clock", clock(final.end))
        showFinals()
      }, uploading.signal, $("speakers").checked)
    }
    state("Ready")
  } catch (error) {
    state("Stopped")
    if (!uploading.signal.aborted) told(error)
  }
  uploading = null
  listening(false)
  look()
}

$("open").addEventListener("click", () => $("file").click())
$("file").addEventListener("change", () => {
  hearFiles([...$("file").files])
  $("file").value = ""
})
for (const kind of ["dragover", "drop"]) {
  addEventListener(kind, (event) => {
    if (!event.dataTransfer?.types.includes("Files")) return
    event.preventDefault()  // else the browser leaves the page for the file
    $("captions").classList.toggle("target", kind === "dragover")
    if (kind === "drop") hearFiles([...event.dataTransfer.files])
  })
}
addEventListener("dragleave", ({relatedTarget}) => relatedTarget ?? $("captions").classList.remove("target"))

let levelTold = 0

function showLevel(peak) {
  const level = peak ? Math.max(0, Math.min(1, 1 + 20 * Math.log10(peak) / 60)) : 0
  $("level").firstElementChild.style.setProperty("--level", level.toFixed(3))
  if (performance.now() - levelTold > 500 || !peak) {
    levelTold = performance.now()
    $("level").setAttribute("aria-valuenow", Math.round(100 * level))
  }
}

// --------------------------------------------------------------------------------------------------------- transcript

function showFinals() {
  captions.showFinals()
  showButtons()
}

function showButtons() {
  for (const id of ["copy", "save-txt", "save-srt", "save-vtt"]) $(id).disabled = !captions.shown
  $("clear").disabled = !captions.shown && !cleared
  $("clear").textContent = cleared ? "Undo" : "Clear"
}

const save = (name, type, text) => give(name, new Blob([text], {type: `${type};charset=utf-8`}))

function give(name, blob) {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10000)
}

$("save-txt").addEventListener("click", () => save("captions.txt", "text/plain", transcript.text()))
$("save-srt").addEventListener("click", () => save("captions.srt", "application/x-subrip", transcript.srt()))
$("save-vtt").addEventListener("click", () => save("captions.vtt", "text/vtt", transcript.vtt()))
$("save-heard").addEventListener("click", () => give("heard.wav", heardTape.wav()))
$("save-spoken").addEventListener("click", () => give("spoken.wav", spokenTape.wav()))
$("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(transcript.text())
    state("Copied")
  } catch {
    getSelection().selectAllChildren($("said"))
    notice("The browser does not let this page copy: the text is selected, press Ctrl and C.")
  }
})
$("clear").addEventListener("click", () => {
  const before = transcript.kept
  transcript.kept = cleared ?? {}
  cleared = cleared ? null : before
  if (!hearing) put("clock", clock(transcript.end))
  captions.showAll()
  showButtons()
})

// -------------------------------------------------------------------------------------------------------------- saying

const pieces = []
const playback = new Playback((silenced) => {
  if (silenced) {
    pieces.length = 0
    heardSound = Math.min(heardSound, performance.now())
  }
  showSaying()
})
const saying = new Saying(playback, {
  sound: (milliseconds) => { $("sound-lag").textContent = seconds(milliseconds) },
  piece(words, start, end) {
    pieces.push({words, start, end})
    showSaying()
  },
  pcm(data) {
    heardSound = performance.now() + 1000 * playback.buffered
    spokenTape.add(new Int16Array(data), playback.rate)
    $("save-spoken").disabled = false
  },
  busy: () => notice(null),
  trouble: (trouble) => trouble ? told(trouble) : notice("The daemon could not speak just now: press Speak again."),
})

const STEADY = 500  // milliseconds of nothing between two pieces of sound that are no end
let heardSound = -Infinity  // when all sound that has come is over

function showSaying() {
  const now = playback.now
  const speaking = playback.buffered > 0 || saying.due || performance.now() - heardSound < STEADY
  if (!speaking) pieces.length = 0  // Their words stand for as long as sound may go on.
  put("saying", speaking ? "Speaking" : "")
  if ($("hush").disabled === speaking) $("hush").disabled = !speaking
  showWords(speaking ? pieces.findLast(({start}) => start <= now)?.words ?? SILENT : SILENT, now)
}

const SILENT = []
let saidWords = SILENT  // the words that stand there

/** The piece that is being said, its words marked as they sound. */
function showWords(words, now) {
  if (words !== saidWords) {
    saidWords = words
    $("spoken").replaceChildren(...words.flatMap(({word}) => {
      const span = document.createElement("span")
      span.textContent = word
      return [span, " "]
    }))
  }
  const sounding = words.findLastIndex(({start}) => start <= now)
  for (const [place, span] of [...$("spoken").children].entries()) span.classList.toggle("now", place === sounding)
}

setInterval(showSaying, 100)

$("text").addEventListener("input", () => {
  sessionStorage.setItem("hearsay.text", $("text").value)
  if (!$("typing").checked) return
  playback.wake()
  saying.type($("text").value)
})
$("speak").addEventListener("click", () => {
  playback.wake()
  spokenTape.clear()
  saying.speak($("text").value)
})
$("hush").addEventListener("click", () => {
  saying.stop($("text").value)
  heardSound = -Infinity
  showSaying()
})
$("voice").addEventListener("change", () => {
  localStorage.setItem("hearsay.voice", $("voice").value)
  saying.use($("voice").value)
})
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("speak").disabled) $("speak").click()
  if (event.key !== "Escape") return
  if ($("access").open) closeAccess()
  else if (!$("hush").disabled) $("hush").click()
})

// ------------------------------------------------------------------------------------------------------- conversation

const lines = new Map()  // the id of what was said → the element that holds it
const TURNS = {listening: "Listening", hearing: "Hearing you", speaking: "Speaking"}

const talking = new Talking({
  line(id, mine) {
    const [element, who, text] = ["p", "b", "span"].map((name) => document.createElement(name))
    who.textContent = mine ? "You" : "hearsay"
    element.append(who, text)
    element.hidden = true  // until there is text
    $("talked").append(element)
    lines.set(id, text)
  },
  text(id, text, whole) {
    const element = lines.get(id)
    if (!element) return
    if (whole) element.textContent = text
    else element.append(text)
    element.parentElement.hidden = !element.textContent
    $("talked").scrollTop = $("talked").scrollHeight
  },
  cut: (id) => lines.get(id)?.classList.add("cut"),
  turn: (name) => put("talking", TURNS[name]),
  trouble: told,
  done(trouble) {
    showTalking(false)
    if (trouble) told(trouble)
  },
})

function showTalking(on) {
  $("talk").textContent = on ? "Hang up" : "Talk"
  $("talk").classList.toggle("on", on)
  $("listen").disabled = on
  put("talking", on ? "Connecting" : "")
}

$("talk").addEventListener("click", async () => {
  if (talking.open) {
    talking.stop()
    return
  }
  notice(null)
  await stop()
  saying.stop($("text").value)
  showTalking(true)
  try {
    await talking.start($("microphone").value, $("voice").value)
    showMicrophones()
  } catch (error) {
    showTalking(false)
    if (error instanceof NoMicrophone) notice(error.message)
    else told(error)
  }
})

// ----------------------------------------------------------------------------------------------------------- beginning

$("text").value = sessionStorage.getItem("hearsay.text") ?? ""
saying.stop($("text").value)
put("clock", clock(transcript.end))
showMicrophones()
showFinals()
if (captions.shown) $("captions").scrollTop = $("captions").scrollHeight
meet()
