/* The daemon this page came from: its key, its answers, and what helps when it says no. */

const KEPT = "hearsay.key"
const SHAPE = /^[A-Za-z0-9._~+-]{8,256}$/

/** The key that is in use; empty for none. */
export const key = () => sessionStorage.getItem(KEPT) ?? ""

/** Use a key from now on. Whether it can be one at all. */
export function useKey(value) {
  if (value) sessionStorage.setItem(KEPT, value)
  else sessionStorage.removeItem(KEPT)
  return !value || SHAPE.test(value)
}

const at = (path) => new URL(path, document.baseURI)

/** A request with the key. Throws Trouble, with a sentence, where the daemon refuses or does not answer. */
export async function ask(path, options = {}) {
  let answer
  try {
    const headers = key() ? {Authorization: `Bearer ${key()}`} : {}
    answer = await fetch(at(path), {...options, headers, cache: "no-store"})
  } catch {
    throw new Trouble(0, "The daemon does not answer.", true)
  }
  if (answer.ok) return answer
  throw await trouble(answer)
}

/** A WebSocket with the key in its subprotocol, which is how browsers carry one. */
export function openSocket(path, query) {
  const url = at(`${path}?${new URLSearchParams(query)}`)
  url.protocol = url.protocol.replace("http", "ws")
  const socket = new WebSocket(url, key() ? ["token", key()] : [])
  socket.binaryType = "arraybuffer"
  return socket
}

/** Why the daemon does not serve: `status` 0 for no answer; `passing`: it may serve in a moment. */
export class Trouble extends Error {
  constructor(status, message, passing = false) {
    super(message)
    this.status = status
    this.passing = passing
  }
}

/**
 * Why a WebSocket was refused, which browsers do not tell: the same question, asked in a way that tells. `path` takes a
 * POST that needs the same slot; it is empty, so that no work is done. Null where nothing else is wrong any more.
 */
export async function whyRefused(path) {
  try {
    await ask(path, {method: "POST"})
  } catch (error) {
    return [400, 415].includes(error.status) ? null : error
  }
  return null
}

async function trouble(answer) {
  const told = await answer.json().catch(() => ({}))
  const reason = told.error?.message ?? told.err_msg ?? answer.statusText
  switch (answer.status) {
    case 401:
      return new Trouble(401, key() ? "The key is wrong: enter the right one under Key, at the top."
        : "This daemon asks for a key: enter it under Key, at the top.")
    case 403:
      return new Trouble(403, `The daemon does not serve this page's address: ${reason}.`)
    case 429:
      return new Trouble(429, `The daemon is busy: ${reason}. Try again when someone has finished.`, true)
    case 503:
      return new Trouble(503, `The daemon is not ready: ${reason}.`, true)
    default:
      return new Trouble(answer.status, `The daemon says: ${reason}.`)
  }
}
