/* The page: what people press, what they see, and a sentence for everything that goes wrong. */

import {ask, key, useKey} from "./daemon.js"
import {Hearing} from "./hearing.js"
import {NoMicrophone, openMicrophone} from "./microphone.js"
import {Playback} from "./playback.js"
import {Saying} from "./saying.js"
import {Transcript} from "./transcript.js"

const $ = (id) => document.getElementById(id)

const transcript = new Transcript()
const recent = []  // lags of interims, milliseconds
let microphone = null
let hearing = null
let cleared = null
let shown = 0

// ------------------------------------------------------------------------------------------------------- what is told

function state(text) {
  if ($("state").textContent !== text) $("state").textContent = text
}

function notice(sentence) {
  $("notice").hidden = !sentence
  $("notice").textContent = sentence ?? ""
}

const seconds = (milliseconds) => `${(milliseconds / 1000).toFixed(2)} s`

function clock(time) {
  const whole = Math.floor(time)
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  const two = (value) => String(value).padStart(2, "0")
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`
}

function told(trouble) {
  notice(trouble.message)
  if (trouble.status === 401) {
    $("access").open = true
    $("key").focus()
  }
}

// --------------------------------------------------------------------------------------------------------- the daemon

async function meet() {
  try {
    const [{data}, ready] = await Promise.all([
      ask("v1/models").then((answer) => answer.json()),
      ask("readyz").then((answer) => answer.json()),
    ])
    const name = (does) => data.find((model) => model.does === does)?.id
    $("models").textContent = `It hears with ${name("hearing")}` +
      (ready.speaking ? ` and speaks with ${name("speaking")}.` : " and does not speak.")
    await meetVoices(ready.speaking)
    if (!hearing) state("Ready")
    notice(null)
  } catch (error) {
    state(error.status === 401 ? "Locked" : error.status ? "Not ready" : "No daemon")
    told(error)
    if (error.passing) setTimeout(meet, 2000)
  }
}

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

$("listen").addEventListener("click", () => microphone || hearing ? stop() : listen())

async function listen() {
  notice(null)
  $("listen").disabled = true
  try {
    microphone = await openMicrophone(take, (sentence) => {
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
  cleared = null
  recent.length = 0
  const offset = transcript.end
  hearing = new Hearing(microphone.rate, offset, {
    interim: showOpen,
    final(results, lag, lags) {
      if (results.text) {
        transcript.add(results)
        recent.push(...lags)
        recent.splice(0, recent.length - 20)
        // A word may stand there before it has ended.
        $("interim-lag").textContent = seconds(Math.max(0, [...recent].sort((a, b) => a - b)[recent.length >> 1]))
        if (results.closes && lag !== null) $("final-lag").textContent = seconds(lag)
      }
      showOpen(null)
      showFinals()
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
      showOpen(null)
      stop()
      if (trouble) {
        state("Stopped")
        told(trouble)
      } else {
        state("Ready")
      }
    },
  })
  state("Connecting")
  listening(true)
}

function take(piece, peak) {
  hearing?.push(piece)
  showLevel(peak)
  $("clock").textContent = clock(hearing?.seconds ?? 0)
}

async function stop() {
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

function following(change) {
  const box = $("captions")
  const follow = box.scrollHeight - box.scrollTop - box.clientHeight < 48
  change()
  if (follow) box.scrollTop = box.scrollHeight
}

function line(final) {
  const [element, time, text] = ["p", "time", "span"].map((name) => document.createElement(name))
  element.className = "line"
  time.textContent = clock(final.start)
  text.textContent = final.text
  element.append(time, text)
  return element
}

function showFinals() {
  following(() => {
    for (; shown < transcript.finals.length; shown++) {
      const final = transcript.finals[shown]
      const goesOn = shown > 0 && !transcript.finals[shown - 1].closes
      if (goesOn) $("said").lastElementChild.lastElementChild.append(` ${final.text}`)
      else $("said").append(line(final))
    }
    $("hint").hidden = shown > 0 || !$("now").hidden
  })
  for (const id of ["copy", "save-txt", "save-srt", "save-vtt"]) $(id).disabled = !shown
  $("clear").disabled = !shown && !cleared
  $("clear").textContent = cleared ? "Undo" : "Clear"
}

function showOpen(results) {
  following(() => {
    $("now").hidden = !results?.words.length
    if ($("now").hidden) return
    $("hint").hidden = true
    const words = results.words.map((word) => word.text)
    $("now").querySelector("time").textContent = clock(results.start)
    $("now").querySelector(".committed").textContent = words.slice(0, results.stable).join(" ")
    $("now").querySelector(".unstable").textContent = words.slice(results.stable).join(" ")
  })
}

function save(name, type, text) {
  const link = document.createElement("a")
  link.href = URL.createObjectURL(new Blob([text], {type: `${type};charset=utf-8`}))
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(link.href), 10000)
}

$("save-txt").addEventListener("click", () => save("captions.txt", "text/plain", transcript.text()))
$("save-srt").addEventListener("click", () => save("captions.srt", "application/x-subrip", transcript.srt()))
$("save-vtt").addEventListener("click", () => save("captions.vtt", "text/vtt", transcript.vtt()))
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
  const before = transcript.finals
  transcript.finals = cleared ?? []
  cleared = cleared ? null : before
  $("said").replaceChildren()
  shown = 0
  showFinals()
})

// -------------------------------------------------------------------------------------------------------------- saying

const pieces = []
const playback = new Playback(() => {
  pieces.length = 0
  showSaying()
})
const saying = new Saying(playback, {
  sound: (milliseconds) => { $("sound-lag").textContent = seconds(milliseconds) },
  piece: (text, start, end) => pieces.push({text, start, end}),
  busy: () => notice(null),
  trouble: (trouble) => trouble ? told(trouble) : notice("The daemon could not speak just now: press Speak again."),
})

function showSaying() {
  const now = playback.now
  const speaking = playback.buffered > 0
  $("saying").textContent = speaking ? "Speaking" : ""
  $("hush").disabled = !speaking
  $("spoken").textContent = speaking ? pieces.findLast(({start}) => start <= now)?.text ?? "" : ""
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
  saying.speak($("text").value)
})
$("hush").addEventListener("click", () => saying.stop($("text").value))
$("voice").addEventListener("change", () => {
  localStorage.setItem("hearsay.voice", $("voice").value)
  saying.use($("voice").value)
})
addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !$("speak").disabled) $("speak").click()
  if (event.key === "Escape" && !$("hush").disabled) $("hush").click()
})

// ----------------------------------------------------------------------------------------------------------- beginning

$("text").value = sessionStorage.getItem("hearsay.text") ?? ""
saying.stop($("text").value)
showFinals()
if (shown) $("captions").scrollTop = $("captions").scrollHeight
meet()
