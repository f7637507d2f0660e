// Requests to the server of this page, with the token of its address.

const KEY = 'llmstream-inspect-token'
const found = /[#&]token=([\w-]+)/.exec(location.hash)
if (found) {
  localStorage.setItem(KEY, found[1])
  history.replaceState(null, '', location.pathname + location.search)
}

export class Refused extends Error {
  constructor(status, message) {
    super(message)
    this.status = status
  }
}

async function send(path, options = {}) {
  const token = localStorage.getItem(KEY)
  const headers = { ...(token ? { authorization: `Bearer ${token}` } : {}), ...options.headers }
  const response = await fetch(`api/${path}`, { ...options, headers, cache: 'no-store' })
  if (response.ok) return response
  const text = await response.text()
  let message = text
  try {
    message = JSON.parse(text).error.message
  } catch { /* it was no JSON */ }
  throw new Refused(response.status, message || `The server responded with ${response.status}.`)
}

export async function get(path, signal) {
  return (await send(path, { signal })).json()
}

export async function text(path) {
  return (await send(path)).text()
}

export async function post(path, body) {
  const headers = { 'content-type': 'application/json' }
  return (await send(path, { method: 'POST', headers, body: JSON.stringify(body) })).json()
}

/** Saves a file that the server makes. */
export async function save(path) {
  const response = await send(path)
  const name = /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1] ?? 'file'
  const address = URL.createObjectURL(await response.blob())
  const link = document.createElement('a')
  link.href = address
  link.download = name
  link.click()
  setTimeout(() => URL.revokeObjectURL(address), 10_000)
}

export function of(id, rest = '') {
  return `calls/${encodeURIComponent(id)}${rest}`
}
