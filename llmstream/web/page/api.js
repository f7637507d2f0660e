// The API of the server: requests, and the events of a run over a connection that may break.

// A token in the address is for this server only: the storage of a page is separate for each host and port.
const KEY = 'llmstream-token'
const found = /[#&]token=([\w-]+)/.exec(location.hash)
if (found) {
  localStorage.setItem(KEY, found[1])
  history.replaceState(null, '', location.pathname + location.search)
}

// The server writes a comment every 15 s. A connection that is silent for longer is dead, even if no network
// on the way has noticed.
const SILENCE_MS = 40_000
const FIRST_WAIT_MS = 400
const LONGEST_WAIT_MS = 5_000

// The page has all of the run; or the run is not there, its events are deleted, or it has fewer than the page.
const OVER = new Set([204, 404, 410, 400])

export class Refused extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

function headers(more) {
  const token = localStorage.getItem(KEY)
  return token ? { authorization: `Bearer ${token}`, ...more } : { ...more }
}

/** Sends a request and returns the JSON of its response; rejects with Refused, or a TypeError off line. */
export async function call(method, path, body) {
  const response = await fetch(`api/${path}`, {
    method,
    headers: headers(body === undefined ? {} : { 'content-type': 'application/json' }),
    body: body === undefined ? undefined : JSON.stringify(body),
  })
  if (response.ok) return response.json()
  throw new Refused(response.status, await reason(response))
}

async function reason(response) {
  const text = await response.text()
  try {
    const found = JSON.parse(text)
    return found.error?.message ?? found.detail ?? text
  } catch {
    return text || `The server responded with ${response.status}.`
  }
}

/**
 * Reads the events of a run to its end, each once and in order, over as many connections as it takes.
 *
 * last: number of the last event that is known, -1 for none
 * on.events(list, last) gets events that arrived together; on.connected(true or false) reports the connection.
 * Resolves at the end of the run, if no more of it can be read, or after signal.abort().
 */
export async function follow(run, last, signal, on) {
  let wait = FIRST_WAIT_MS
  while (!signal.aborted) {
    let ended = false
    try {
      const response = await open(run, last, signal)
      if (OVER.has(response.status)) return
      if (response.status === 401 || response.status === 403) throw new Refused(response.status, await reason(response))
      if (response.ok) {
        on.connected(true)
        for await (const frames of batches(response.body, signal)) {
          wait = FIRST_WAIT_MS
          const fresh = frames.filter((frame) => frame.name === 'message' && frame.id > last)
          if (fresh.length) {
            last = fresh.at(-1).id
            on.events(fresh.map((frame) => JSON.parse(frame.data)), last)
          }
          ended ||= frames.some((frame) => frame.name === 'end')
        }
      }
    } catch (error) {
      if (error instanceof Refused) throw error
    }
    if (ended) return
    if (signal.aborted) break
    on.connected(false)
    await pause(wait * (0.75 + Math.random() / 2), signal)
    wait = Math.min(wait * 2, LONGEST_WAIT_MS)
  }
}

function open(run, last, signal) {
  const more = last < 0 ? {} : { 'last-event-id': String(last) }
  return fetch(`api/runs/${encodeURIComponent(run)}/events`, { headers: headers(more), signal, cache: 'no-store' })
}

function pause(milliseconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds)
    signal.addEventListener('abort', () => { clearTimeout(timer); resolve() }, { once: true })
    // Back on line: no reason to wait any longer.
    addEventListener('online', resolve, { once: true })
  })
}

/** Yields the complete frames of each read. Lines end with LF or CRLF, and may be cut anywhere. */
async function* batches(body, signal) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader()
  let rest = ''
  try {
    while (true) {
      const { value, done } = await withLimit(reader.read(), signal)
      if (done) return
      const parts = (rest + value).replaceAll('\r\n', '\n').split('\n\n')
      rest = parts.pop()
      const frames = parts.map(frame).filter(Boolean)
      if (frames.length) yield frames
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

function withLimit(promise, signal) {
  let timer
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error('silent')), SILENCE_MS)
    signal.addEventListener('abort', () => reject(new Error('aborted')), { once: true })
  })
  return Promise.race([promise, limit]).finally(() => clearTimeout(timer))
}

function frame(text) {
  const result = { name: 'message', id: -1, data: '' }
  for (const line of text.split('\n')) {
    if (line.startsWith('data:')) result.data += line.slice(5).trimStart()
    else if (line.startsWith('id:')) result.id = Number(line.slice(3))
    else if (line.startsWith('event:')) result.name = line.slice(6).trim()
  }
  return result.data ? result : null
}
