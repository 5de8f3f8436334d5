/* The microphone: 16-bit mono pieces as they are recorded, at 16 kHz where the browser can. */

const RATE = 16000

const DENIED = {
  NotAllowedError: "The browser denied the microphone. Allow it for this page, left of the address, and press the button again.",
  NotFoundError: "No microphone was found. Plug one in and press the button again.",
  NotReadableError: "The microphone is in use by another program, or the system does not let browsers have it.",
}

/** A microphone that cannot be had; `message` says what helps. */
export class NoMicrophone extends Error {}

/**
 * Open a microphone, the one of the id `device` where it is there. `take(piece, peak)` gets an Int16Array and its peak, 0…1; `gone(sentence)` is called when the
 * microphone ends by itself. Returns {rate, stop()}.
 */
export async function openMicrophone(device, take, gone) {
  const media = await granted(device, {})
  const [track] = media.getAudioTracks()
  let context, source
  try {
    ({context, source} = connected(media))
    await context.audioWorklet.addModule(new URL("capture.js", import.meta.url))
  } catch (error) {
    track.stop()
    await context?.close()
    throw new NoMicrophone(`The microphone cannot be read: ${error.message}`)
  }
  const capture = new AudioWorkletNode(context, "capture", {numberOfOutputs: 0, channelCount: 1,
    channelCountMode: "explicit"})
  capture.port.onmessage = ({data}) => take(data.piece, data.peak)
  source.connect(capture)
  await context.resume()
  track.onended = () => gone("The microphone ended: it was unplugged, or its permission was taken back.")
  return {
    rate: context.sampleRate,
    async stop() {
      track.onended = null
      capture.port.onmessage = null
      track.stop()
      await context.close()
    },
  }
}

/** A MediaStream of a microphone, without what this browser plays. Throws NoMicrophone. */
export const hearEcholess = (device) => granted(device, {echoCancellation: true})

async function granted(device, more) {
  if (!navigator.mediaDevices) {
    throw new NoMicrophone("Browsers give a page the microphone only on localhost or over https: open the page there, " +
      "or give the daemon a certificate (tls_certificate).")
  }
  try {
    const audio = {channelCount: 1, ...more, ...(device && {deviceId: {ideal: device}})}
    return await navigator.mediaDevices.getUserMedia({audio})
  } catch (error) {
    throw new NoMicrophone(DENIED[error.name] ?? `The microphone cannot be opened: ${error.message}`)
  }
}

/** The microphones that there are: [{id, name}]. Browsers tell names only to a page that was given one already. */
export async function microphones() {
  const devices = await navigator.mediaDevices?.enumerateDevices().catch(() => []) ?? []
  return devices.filter(({kind, deviceId}) => kind === "audioinput" && deviceId)
    .map(({deviceId, label}, i) => ({id: deviceId, name: label || `Microphone ${i + 1}`}))
}

/** Some browsers do not resample a microphone: then the context takes the microphone's own rate. */
function connected(media) {
  const context = new AudioContext({sampleRate: RATE})
  try {
    return {context, source: context.createMediaStreamSource(media)}
  } catch {
    context.close()
    const plain = new AudioContext()
    return {context: plain, source: plain.createMediaStreamSource(media)}
  }
}
