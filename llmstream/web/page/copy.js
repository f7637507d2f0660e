// A button that copies a text.

import { html, useState } from './vendor/preact-htm.js'
import { Icon } from './icons.js'

const SHOWN_MS = 1500

export function CopyButton({ text, label = 'Copy' }) {
  const [copied, setCopied] = useState(false)
  const copy = async () => {
    if (!await write(typeof text === 'function' ? text() : text)) return
    setCopied(true)
    setTimeout(() => setCopied(false), SHOWN_MS)
  }
  return html`<button type="button" class="quiet" onClick=${copy} aria-label=${copied ? 'Copied' : label} title=${label}>
    <${Icon} name=${copied ? 'check' : 'copy'} />
  </button>`
}

async function write(text) {
  try {
    await navigator.clipboard.writeText(text)
    return true
  } catch {
    return writeBySelection(text)
  }
}

/** For pages that are neither on this machine nor over TLS, where browsers have no clipboard. */
function writeBySelection(text) {
  const area = document.createElement('textarea')
  area.value = text
  area.className = 'offscreen'
  document.body.append(area)
  area.select()
  const done = document.execCommand('copy')
  area.remove()
  return done
}
