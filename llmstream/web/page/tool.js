// A tool call: name, arguments, progress, result; and where a person has to decide, the means to do so.

import { html, useState } from './vendor/preact-htm.js'
import { Icon } from './icons.js'

const STATES = {
  writing: ['tool', 'preparing'],
  running: ['tool', 'running'],
  waiting: ['hand', 'needs your approval'],
  done: ['check', 'done'],
  failed: ['alert', 'failed'],
  denied: ['ban', 'denied'],
  cancelled: ['ban', 'did not finish'],
}

export function Tool({ block, last, busy, actions }) {
  const [icon, label] = STATES[block.state]
  const waiting = block.state === 'waiting'
  const [editing, setEditing] = useState(false)
  const input = parsed(block.input)
  return html`<section class=${`tool ${block.state}`} aria-label=${`Tool ${block.name}: ${label}`}>
    <details open=${waiting && !editing}>
      <summary>
        <${Icon} name="chevron" /><${Icon} name=${icon} />
        <strong>${block.name}</strong>
        <span class="arguments">${summary(input)}</span>
        <span class="state">${label}</span>
      </summary>
      <div class="body">
        <h3>Arguments${block.edited ? ', as you edited them' : ''}</h3>
        <pre tabindex="0">${pretty(input)}</pre>
        ${block.decision?.note && html`<h3>Your note</h3><p>${block.decision.note}</p>`}
        ${block.result !== undefined && html`<h3>Result</h3><pre tabindex="0">${pretty(block.result)}</pre>`}
      </div>
    </details>
    ${block.state === 'running' && html`<${Progress} value=${block.progress} />`}
    ${waiting && last && html`<${Approval} block=${block} input=${input} busy=${busy} decide=${actions.decide} onEdit=${setEditing} />`}
  </section>`
}

/** What a tool has reported: {"status": text, "done": n, "of": n}, a text, or any other value. */
function Progress({ value }) {
  const { status, done, of } = value !== null && typeof value === 'object' ? value : {}
  const text = typeof value === 'string' ? value : status ?? (value === undefined ? 'running' : pretty(value))
  const known = typeof done === 'number' && typeof of === 'number' && of > 0
  return html`<div class="progress">
    <span>${text}</span>
    ${known ? html`<progress value=${done} max=${of} />` : html`<progress />`}
  </div>`
}

function Approval({ block, input, busy, decide, onEdit }) {
  const [note, setNote] = useState('')
  const [draft, setDraft] = useState(null)
  const [chosen, setChosen] = useState(null)
  const edited = draft === null ? null : parsed(draft)
  const valid = draft === null || (edited !== null && typeof edited === 'object' && !Array.isArray(edited))
  const edit = (text) => {
    setDraft(text)
    onEdit(text !== null)
  }
  const choose = (approve) => {
    setChosen(approve)
    const decision = { approve, ...(note && { note }), ...(approve && draft !== null && { arguments: edited }) }
    decide(block.approvalId, decision).then((sent) => sent || setChosen(null))
  }
  if (chosen !== null) {
    return html`<p class="approval chosen">${chosen ? 'Approved' : 'Denied'}. Waiting for the other calls to be decided.</p>`
  }
  return html`<div class="approval">
    ${draft === null ? null : html`<label>Arguments, as JSON
      <textarea spellcheck="false" rows=${Math.min(12, draft.split('\n').length + 1)} value=${draft}
        aria-invalid=${!valid} onInput=${(event) => setDraft(event.target.value)} /></label>
      ${!valid && html`<p class="invalid" role="alert">This is not a JSON object.</p>`}`}
    <label class="note-field"><span class="offscreen">Note</span>
      <input type="text" placeholder="Note (optional): the reason, if you deny" value=${note}
        onInput=${(event) => setNote(event.target.value)} /></label>
    <div class="buttons">
      <button type="button" class="button primary" disabled=${busy || !valid} onClick=${() => choose(true)}>
        <${Icon} name="check" /> Approve${draft === null ? '' : ' as edited'}</button>
      <button type="button" class="button" disabled=${busy} onClick=${() => choose(false)}><${Icon} name="ban" /> Deny</button>
      <button type="button" class="button plain" onClick=${() => edit(draft === null ? pretty(input) : null)}>
        ${draft === null ? 'Edit arguments' : 'Discard changes'}</button>
    </div>
  </div>`
}

/** The value of a JSON text; null if it is none, as while it arrives. */
function parsed(text) {
  try {
    return JSON.parse(text)
  } catch {
    return text ? text : null
  }
}

function pretty(value) {
  return typeof value === 'string' ? value : JSON.stringify(value, null, 2) ?? ''
}

function summary(input) {
  if (input === null || typeof input !== 'object') return String(input ?? '')
  return Object.entries(input)
    .map(([name, value]) => `${name}: ${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(', ')
}
