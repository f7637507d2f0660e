import { useChat } from '@ai-sdk/react'
import { DefaultChatTransport, getToolName, isToolUIPart, lastAssistantMessageIsCompleteWithApprovalResponses } from 'ai'
import { useEffect, useState } from 'react'
import { createRoot } from 'react-dom/client'
import './page.css'

const address = new URL(location)
const id = address.searchParams.get('chat') ?? crypto.randomUUID()
address.searchParams.set('chat', id)
history.replaceState(null, '', address) // a reload and a second tab show the same conversation

async function load() {
  const response = await fetch(`/api/chat/${id}`)
  if (!response.ok) throw new Error(await response.text())
  return response.json()
}

function Chat({ saved }) {
  const [prompt, setPrompt] = useState('')
  const { messages, setMessages, sendMessage, regenerate, resumeStream, addToolApprovalResponse, status, error } = useChat({
    id,
    messages: saved,
    resume: true, // reads a response in progress again
    transport: new DefaultChatTransport({ api: '/api/chat' }),
    sendAutomaticallyWhen: lastAssistantMessageIsCompleteWithApprovalResponses,
  })
  const busy = status === 'submitted' || status === 'streaming'
  const disconnected = error instanceof TypeError // of fetch; other errors come from the server

  async function refresh() {
    const stored = await load().catch(() => null)
    if (stored === null) return // still out of reach: the error stays
    const last = messages.at(-1)
    setMessages(stored)
    if (last?.role === 'user' && stored.every(message => message.id !== last.id)) {
      await sendMessage(last) // never arrived
    } else {
      await resumeStream()
    }
  }

  useEffect(() => {
    // Another tab may have gone on with the conversation. Decisions are sent when the last is made.
    const deciding = messages.at(-1)?.parts.some(part => part.state === 'approval-responded')
    const look = () => document.visibilityState === 'visible' && status === 'ready' && !deciding && refresh()
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  })

  function submit(event) {
    event.preventDefault()
    if (busy || !prompt.trim()) return
    sendMessage({ text: prompt })
    setPrompt('')
  }

  return <>
    <header><h1>Chat</h1><a className="button" href="/">New chat</a></header>
    <main>
      <div>
        {messages.length === 0 && !busy && <p className="empty">Ask for a table. It is booked once you approve.</p>}
        {messages.map(message => message.parts.map((part, index) =>
          <Part key={message.id + index} {...{ part, busy, role: message.role, decide: addToolApprovalResponse }} />))}
        {status === 'submitted' && <p className="waiting">…</p>}
        {error && <div role="alert">
          {disconnected ? 'The connection is lost.' : error.message}
          <button onClick={refresh}>{disconnected ? 'Reconnect' : 'Refresh'}</button>
          {!disconnected && <button onClick={() => regenerate()}>Answer again</button>}
        </div>}
      </div>
    </main>
    <form onSubmit={submit}>
      <input aria-label="Message" placeholder="A table in Oslo, please" autoFocus value={prompt}
        onChange={event => setPrompt(event.target.value)} />
      {busy
        // The route ends the response for every tab; the hook's own stop() would only leave it.
        ? <button type="button" onClick={() => fetch(`/api/chat/${id}/stop`, { method: 'POST' })}>Stop</button>
        : <button className="main" disabled={!prompt.trim()}>Send</button>}
    </form>
  </>
}

function Part({ part, role, busy, decide }) {
  if (part.type === 'text') return <div className={role === 'user' ? 'user' : 'text'}>{part.text}</div>
  if (part.type === 'reasoning' && part.text) {
    return <details className="reasoning"><summary>Reasoning</summary><div>{part.text}</div></details>
  }
  return isToolUIPart(part) ? <Tool {...{ part, busy, decide }} /> : null
}

function Tool({ part, busy, decide }) {
  const { state, input, output, errorText, approval } = part
  const answer = approved => decide({ id: approval.id, approved })
  return <section className="tool">
    <h2>{getToolName(part)} <span>{label(part, busy)}</span></h2>
    {input !== undefined && <pre>{shown(input)}</pre>}
    {output !== undefined && <pre>{shown(output)}</pre>}
    {errorText && <pre className="failed">{errorText}</pre>}
    {state === 'approval-requested' && <div className="buttons">
      <button className="main" onClick={() => answer(true)}>Approve</button>
      <button onClick={() => answer(false)}>Deny</button>
    </div>}
  </section>
}

function label({ state, preliminary, approval }, busy) {
  if (state === 'output-available' && !preliminary) return 'Done'
  if (state === 'output-error') return 'Failed'
  if (state === 'output-denied' || approval?.approved === false) return 'Denied'
  if (state === 'approval-requested') return 'May it run?'
  if (busy) return 'Running …'
  return state === 'approval-responded' ? 'Approved' : 'No result' // of a response that was stopped or broke off
}

const shown = value => (typeof value === 'string' ? value : JSON.stringify(value))

const root = createRoot(document.getElementById('page'))
load().then(
  saved => root.render(<Chat saved={saved} />),
  error => root.render(<p role="alert">The server cannot be reached: {error.message}</p>),
)
