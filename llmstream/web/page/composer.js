// Where prompts are typed: Enter sends, Shift+Enter starts a new line, Esc stops.

import { html, useEffect, useLayoutEffect, useRef, useState } from './vendor/preact-htm.js'
import { Icon } from './icons.js'

const MOST_PX = 240

export function Composer({ conversation, live, busy, onSend, onStop }) {
  const draftKey = `llmstream-draft-${conversation ?? ''}`
  const [text, setText] = useState('')
  const area = useRef(null)
  useEffect(() => {
    setText(sessionStorage.getItem(draftKey) ?? '')
    // A keyboard that opens by itself hides half of a phone's page.
    if (matchMedia('(pointer: fine)').matches) area.current.focus()
  }, [draftKey])
  useLayoutEffect(() => {
    area.current.style.height = 'auto'
    area.current.style.height = `${Math.min(area.current.scrollHeight, MOST_PX)}px`
  }, [text])
  const write = (value) => {
    setText(value)
    if (value) sessionStorage.setItem(draftKey, value)
    else sessionStorage.removeItem(draftKey)
  }
  const send = async () => {
    if (!text.trim() || live || busy) return
    const sent = text
    write('')
    // What could not be sent is not lost.
    if (!await onSend(sent)) write(sent)
  }
  const onKeyDown = (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return
    event.preventDefault()
    send()
  }
  return html`<form class="composer" aria-label="Your prompt" onSubmit=${(event) => { event.preventDefault(); send() }}>
    <label class="offscreen" for="prompt">Prompt</label>
    <textarea id="prompt" ref=${area} rows="1" placeholder="Ask anything" value=${text} enterkeyhint="send"
      onInput=${(event) => write(event.target.value)} onKeyDown=${onKeyDown} />
    ${live
      ? html`<button type="button" class="round stop" onClick=${onStop} aria-label="Stop" title="Stop (Esc)"><${Icon} name="stop" /></button>`
      : html`<button type="submit" class="round" disabled=${!text.trim() || busy} aria-label="Send" title="Send (Enter)"><${Icon} name="send" /></button>`}
  </form>`
}
