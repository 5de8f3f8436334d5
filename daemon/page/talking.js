/* A conversation with the daemon's chat endpoint, by WebRTC: the browser takes what it plays out of what it hears. */

import {ask, Trouble} from "./daemon.js"
import {hearEcholess} from "./microphone.js"

/** Whether this browser can. */
export const canTalk = () => "RTCPeerConnection" in globalThis && Boolean(navigator.mediaDevices)

export class Talking {
  #on
  #connection = null
  #media = null
  #player = new Audio()

  /**
   * on: line(id, mine), text(id, text, whole), cut(id), turn("listening" | "hearing" | "speaking"), trouble(trouble),
   * done(trouble).
   */
  constructor(on) {
    this.#on = on
  }

  get open() { return this.#connection !== null }

  /** Begin. Throws NoMicrophone, or Trouble where the daemon refuses. */
  async start(device, voice) {
    const connection = this.#connection = new RTCPeerConnection()
    try {
      this.#media = await hearEcholess(device)
      const [track] = this.#media.getAudioTracks()
      track.onended = () => {
        this.#end(new Trouble(0, "The microphone ended: it was unplugged, or its permission was taken back."))
      }
      connection.addTrack(track, this.#media)
      connection.ontrack = ({streams}) => {
        this.#player.srcObject = streams[0]
        this.#player.play().catch(() => {})  // Hanging up before it has begun breaks it off.
      }
      connection.onconnectionstatechange = () => {
        if (["failed", "closed", "disconnected"].includes(connection.connectionState) && this.#connection === connection) {
          this.#end(new Trouble(0, "The conversation broke off: press Talk to begin another.", true))
        }
      }
      const channel = connection.createDataChannel("oai-events")
      channel.onmessage = ({data}) => this.#connection === connection && this.#came(JSON.parse(data))
      channel.onopen = () => this.#on.turn("listening")
      channel.onclose = () => {
        if (this.#connection === connection) this.#end(new Trouble(0, "The daemon ended the conversation.", true))
      }
      await connection.setLocalDescription()
      const output = voice ? {output: {voice}} : {}
      const form = new FormData()
      form.set("sdp", connection.localDescription.sdp)
      form.set("session", JSON.stringify({type: "realtime", audio: {input: {transcription: {}}, ...output}}))
      const answer = await ask("v1/realtime/calls", {method: "POST", body: form})
      if (this.#connection !== connection) return  // stopped meanwhile
      await connection.setRemoteDescription({type: "answer", sdp: await answer.text()})
    } catch (error) {
      if (this.#connection !== connection) return
      this.#close()
      throw error
    }
  }

  stop() {
    if (this.open) this.#end(null)
  }

  #came(event) {
    switch (event.type) {
      case "conversation.item.added":
        if (event.item.type === "message") this.#on.line(event.item.id, event.item.role === "user")
        break
      case "conversation.item.input_audio_transcription.completed":
        this.#on.text(event.item_id, event.transcript, true)
        break
      case "response.output_audio_transcript.delta":
        this.#on.text(event.item_id, event.delta, false)
        break
      case "response.output_audio_transcript.done":
        this.#on.text(event.item_id, event.transcript, true)
        break
      case "conversation.item.truncated":
        this.#on.cut(event.item_id)
        break
      case "input_audio_buffer.speech_started":
        this.#on.turn("hearing")
        break
      case "output_audio_buffer.started":
        this.#on.turn("speaking")
        break
      case "input_audio_buffer.speech_stopped":
      case "output_audio_buffer.stopped":
      case "output_audio_buffer.cleared":
        this.#on.turn("listening")
        break
      case "error":
        this.#on.trouble(new Trouble(0, `The daemon says: ${event.error.message}.`))
    }
  }

  #end(trouble) {
    this.#close()
    this.#on.done(trouble)
  }

  #close() {
    const connection = this.#connection
    this.#connection = null
    connection.close()
    for (const track of this.#media?.getTracks() ?? []) {
      track.onended = null
      track.stop()
    }
    this.#media = this.#player.srcObject = null
  }
}
