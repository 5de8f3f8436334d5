/* The captions as they stand on the page: finished sentences, who says them, and the open one. */

import {spokenBy} from "./transcript.js"

const $ = (id) => document.getElementById(id)

/** Seconds as people read them. */
export function clock(time) {
  const whole = Math.floor(time)
  const [hours, minutes, rest] = [Math.floor(whole / 3600), Math.floor(whole / 60) % 60, whole % 60]
  const two = (value) => String(value).padStart(2, "0")
  return hours ? `${hours}:${two(minutes)}:${two(rest)}` : `${minutes}:${two(rest)}`
}

export class Captions {
  #transcript
  #shown = 0

  /** What is added to a Transcript is shown by showFinals. */
  constructor(transcript) {
    this.#transcript = transcript
  }

  /** How many finals stand there. */
  get shown() { return this.#shown }

  /** Show the finals that are new. */
  showFinals() {
    const {finals} = this.#transcript
    this.#following(() => {
      for (; this.#shown < finals.length; this.#shown++) {
        let goesOn = this.#shown > 0 && !finals[this.#shown - 1].closes
        for (const part of spokenBy(finals[this.#shown])) {
          const last = $("said").lastElementChild
          if (goesOn && last.dataset.speaker === String(part.speaker)) last.lastElementChild.append(` ${part.text}`)
          else $("said").append(this.#line(part))
          goesOn = true
        }
      }
      $("hint").hidden = this.#shown > 0 || !$("now").hidden
    })
  }

  /** Show all finals anew: they are others. */
  showAll() {
    $("said").replaceChildren()
    this.#shown = 0
    this.showFinals()
  }

  /** Show what is open, or nothing. */
  showOpen(results) {
    this.#following(() => {
      $("now").hidden = !results?.words.length
      if ($("now").hidden) return
      $("hint").hidden = true
      const words = results.words.map((word) => word.text)
      $("now").querySelector("time").textContent = clock(results.start)
      $("now").querySelector(".committed").textContent = words.slice(0, results.stable).join(" ")
      $("now").querySelector(".unstable").textContent = words.slice(results.stable).join(" ")
    })
  }

  #line({speaker, start, text}) {
    const [element, time, said] = ["p", "time", "span"].map((name) => document.createElement(name))
    element.className = "line"
    element.dataset.speaker = speaker
    time.textContent = clock(start)
    if (speaker !== undefined) said.append(this.#who(speaker), " ")
    said.append(text)
    element.append(time, said)
    return element
  }

  /** Who says it, to press for a name. */
  #who(speaker) {
    const who = document.createElement("button")
    who.type = "button"
    who.className = "who"
    who.title = "Say who this is"
    who.textContent = `${this.#transcript.called(speaker)}:`
    who.addEventListener("click", () => {
      const name = prompt(`Who is ${this.#transcript.called(speaker)}?`)
      if (name === null) return
      this.#transcript.name(speaker, name.trim().slice(0, 64))
      this.showAll()
    })
    return who
  }

  #following(change) {
    const box = $("captions")
    const follow = box.scrollHeight - box.scrollTop - box.clientHeight < 48
    change()
    if (follow) box.scrollTop = box.scrollHeight
  }
}
