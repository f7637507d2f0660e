// The list of conversations.

import { html, useEffect, useRef, useState } from './vendor/preact-htm.js'
import { Icon } from './icons.js'

export function Sidebar({ open, conversations, current, settings, onOpen, onNew, onDelete, onClose }) {
  const close = useRef(null)
  useEffect(() => { if (open) close.current.focus() }, [open])
  return html`<div class=${`veil ${open ? 'open' : ''}`} onClick=${onClose} />
  <nav id="sidebar" class=${open ? 'open' : ''} aria-label="Conversations">
    <header>
      <img src="icon.svg" alt="" width="24" height="24" /><strong>llmstream</strong>
      <button type="button" class="quiet phone" ref=${close} onClick=${onClose} aria-label="Close the list"><${Icon} name="close" /></button>
    </header>
    <button type="button" class="button new" onClick=${onNew}><${Icon} name="plus" /> New chat</button>
    <ul>
      ${conversations.map((one) => html`<${Entry} key=${one.id} one=${one} current=${one.id === current} onOpen=${onOpen} onDelete=${onDelete} />`)}
    </ul>
    ${settings && html`<${About} settings=${settings} />`}
  </nav>`
}

function Entry({ one, current, onOpen, onDelete }) {
  const [asked, setAsked] = useState(false)
  if (asked) {
    return html`<li class="asked"><span>Delete it?</span>
      <button type="button" class="button small danger" onClick=${() => onDelete(one.id)}>Delete</button>
      <button type="button" class="button small" onClick=${() => setAsked(false)}>Keep</button></li>`
  }
  return html`<li class=${current ? 'current' : ''}>
    <button type="button" class="title" aria-current=${current ? 'page' : undefined} onClick=${() => onOpen(one.id)}>${one.title}</button>
    <button type="button" class="quiet" onClick=${() => setAsked(true)} aria-label=${`Delete “${one.title}”`} title="Delete"><${Icon} name="trash" /></button>
  </li>`
}

function About({ settings }) {
  const tools = Object.entries(settings.tools ?? {})
  return html`<div class="about">
    <p title="Model">${settings.model}</p>
    ${tools.length > 0 && html`<details><summary>${tools.length} ${tools.length === 1 ? 'tool' : 'tools'}</summary>
      <dl>${tools.map(([name, description]) => html`<dt>${name}</dt><dd>${description}</dd>`)}</dl></details>`}
  </div>`
}
