// The page: one conversation at a time, kept up with whatever other tabs do to it.

import { html, render, Component } from './vendor/preact-htm.js'
import { Answer } from './answer.js'
import { call, follow, Refused } from './api.js'
import { Composer } from './composer.js'
import { Icon } from './icons.js'
import { Sidebar } from './sidebar.js'
import { Thread } from './thread.js'

// Nearer to the end than this, a reader follows the answer; further up, they read, and nothing moves.
const NEAR_PX = 80

const AGAIN_MS = 2000
const UNREACHABLE = 'The server cannot be reached. Is it running?'

class App extends Component {
  state = { settings: null, list: [], current: null, thread: null, missing: false, connected: true,
    busy: false, menu: false, problem: '', refused: '', away: false, live: false }

  #following = null
  #decisions = new Map()
  #tabs = 'BroadcastChannel' in window ? new BroadcastChannel('llmstream') : null
  #frame = 0
  #timer = 0
  #ended = ''
  #version = 0
  #watched = null
  #growth = new ResizeObserver(() => this.state.away || this.#toEnd())

  componentDidMount() {
    addEventListener('hashchange', () => this.#route())
    addEventListener('keydown', (event) => this.#key(event))
    document.addEventListener('visibilitychange', () => this.#visible())
    if (this.#tabs) this.#tabs.onmessage = ({ data }) => this.#elsewhere(data)
    this.#guard(async () => this.setState({ settings: await call('GET', 'settings') }))
    this.#route()
    this.#list()
  }

  componentDidUpdate() {
    this.#watchGrowth()
    if (!this.state.away) this.#toEnd()
    document.title = this.state.list.find((one) => one.id === this.state.current)?.title ?? 'llmstream'
  }

  // Conversations: opened by the address, and read again when they have changed.

  #route() {
    const id = location.hash.slice(1) || null
    if (id === this.state.current && (id || this.state.thread === null)) return
    this.#leave()
    this.#version = 0
    this.setState({ current: id, thread: null, missing: false, menu: false, away: false, problem: '', live: false })
    if (id) this.#load(id)
  }

  async #load(id) {
    await this.#guard(async () => {
      try {
        this.#show(await call('GET', `conversations/${id}`))
      } catch (error) {
        if (!(error instanceof Refused) || error.status !== 404) throw error
        if (this.state.current === id) this.setState({ missing: true })
      }
    }, () => this.state.current === id && this.#load(id))
  }

  /** Draws a view, and follows its open run. A view that shows nothing new changes nothing. */
  #show(view) {
    if (view.id !== this.state.current || view.version < this.#version) return
    this.#version = view.version
    if (this.state.problem === UNREACHABLE) this.setState({ problem: '' })
    if (view.openRun && view.openRun === this.#following?.run) {
      if (this.#following.paused) this.#resume(view.id, this.#following)
      return
    }
    this.#leave()
    const thread = new Thread()
    for (const turn of view.turns) {
      thread.begin(turn)
      if (!turn.events) break
      for (const event of turn.events) thread.feed(event)
      thread.settle(turn)
    }
    this.setState({ thread, live: Boolean(view.openRun) })
    if (!view.openRun) return
    const resume = () => view.id === this.state.current && this.#resume(view.id, { run: view.openRun, thread, last: -1 })
    // A stream that ended before its run, as when the log cannot be read: not at once again.
    if (view.openRun === this.#ended) setTimeout(() => this.state.thread === thread && resume(), AGAIN_MS)
    else resume()
  }

  /** Follows a run from where it was left. */
  async #resume(id, following) {
    const { run, thread } = following
    const controller = new AbortController()
    this.#following = Object.assign(following, { controller, paused: false })
    await this.#guard(() => follow(run, following.last, controller.signal, {
      connected: (connected) => this.state.connected !== connected && this.setState({ connected }),
      events: (events, last) => {
        if (controller.signal.aborted) return
        following.last = last
        for (const event of events) thread.feed(event)
        this.#draw()
      },
    }))
    if (controller.signal.aborted) return
    this.#following = null
    this.#ended = run
    this.#load(id)
    this.#list()
  }

  #leave() {
    this.#following?.controller.abort()
    this.#following = null
    if (!this.state.connected) this.setState({ connected: true })
  }

  /** Draws at most once a frame, however many events arrive. A hidden page draws when it is seen again. */
  #draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0
      this.setState({})
    })
  }

  #list = () => this.#guard(async () => this.setState({ list: await call('GET', 'conversations') }))

  // Other tabs of this browser say what they changed; other machines are noticed when the page is looked at.

  #elsewhere({ changed }) {
    this.#list()
    if (changed === this.state.current) this.#load(changed)
  }

  /** A hidden page lets go of its connection: a browser has six for a server, whatever the number of tabs. */
  #visible() {
    if (document.hidden) {
      if (this.#following) this.#following.paused = true
      this.#following?.controller.abort()
      return
    }
    this.#list()
    if (this.state.current) this.#load(this.state.current)
  }

  #changed(id) {
    this.#tabs?.postMessage({ changed: id })
    this.#list()
  }

  // What a person does.

  #send = async (prompt) => this.#post(async () => {
    const { current } = this.state
    const view = await call('POST', current ? `conversations/${current}/messages` : 'conversations', { prompt })
    if (current) return view
    history.pushState(null, '', `#${view.id}`)
    this.#version = 0
    return new Promise((resolve) => this.setState({ current: view.id }, () => resolve(view)))
  })

  #retry = () => this.#post(() => call('POST', `conversations/${this.state.current}/retry`, {}))

  /** Keeps a decision until all waiting calls are decided: a run continues once. */
  #decide = async (approvalId, decision) => {
    this.#decisions.set(approvalId, decision)
    const waiting = this.state.thread.pending.map((block) => block.approvalId)
    if (waiting.some((id) => !this.#decisions.has(id))) return true
    const decisions = Object.fromEntries(waiting.map((id) => [id, this.#decisions.get(id)]))
    const sent = await this.#post(() => call('POST', `conversations/${this.state.current}/decisions`, { decisions }))
    if (!sent) this.#decisions.delete(approvalId)
    return sent
  }

  #stop = () => this.#guard(() => call('POST', `conversations/${this.state.current}/stop`, {}))

  #delete = (id) => this.#guard(async () => {
    await call('DELETE', `conversations/${id}`)
    if (id === this.state.current) location.hash = ''
    this.#changed(id)
  })

  /** Sends what begins a run; returns whether it began. */
  async #post(begin) {
    this.setState({ busy: true, problem: '', away: false })
    try {
      const view = await begin()
      this.#show(view)
      this.#changed(view.id)
      return true
    } catch (error) {
      this.#fail(error)
      // Another tab was first, or the response was lost: what the server has is shown.
      const unsure = !(error instanceof Refused) || error.status === 409
      if (unsure && this.state.current) this.#load(this.state.current)
      return false
    } finally {
      this.setState({ busy: false })
    }
  }

  async #guard(action, again) {
    try {
      await action()
    } catch (error) {
      this.#fail(error)
      if (!again || error instanceof Refused) return
      clearTimeout(this.#timer)
      this.#timer = setTimeout(again, AGAIN_MS)
    }
  }

  #fail(error) {
    if (error instanceof Refused && error.status === 401) this.setState({ refused: error.message })
    else if (error instanceof Refused) this.setState({ problem: error.message })
    else if (error instanceof TypeError) this.setState({ problem: UNREACHABLE })
    else throw error
  }

  #key(event) {
    if (event.key !== 'Escape' || event.isComposing) return
    if (this.state.menu) this.setState({ menu: false })
    else if (this.state.live) this.#stop()
  }

  // Scrolling.

  /** What grows without a drawing of the page, such as an editor that opens, is followed as well. */
  #watchGrowth() {
    const thread = document.querySelector('.thread')
    if (thread === this.#watched) return
    this.#growth.disconnect()
    this.#watched = thread
    if (thread) this.#growth.observe(thread)
  }

  #toEnd() {
    const main = document.querySelector('main')
    if (main) main.scrollTop = main.scrollHeight
  }

  #scrolled = ({ currentTarget: main }) => {
    const away = main.scrollHeight - main.scrollTop - main.clientHeight > NEAR_PX
    if (away !== this.state.away) this.setState({ away })
  }

  render(_, { settings, list, current, thread, missing, connected, busy, menu, problem, refused, away, live }) {
    if (refused) return html`<div class="empty"><h1>Not admitted</h1><p>${refused}</p></div>`
    const title = list.find((one) => one.id === current)?.title ?? 'New chat'
    return html`
      <${Sidebar} open=${menu} conversations=${list} current=${current} settings=${settings}
        onOpen=${(id) => { location.hash = id; this.setState({ menu: false }) }}
        onNew=${() => { location.hash = ''; this.setState({ menu: false }) }}
        onDelete=${this.#delete} onClose=${() => this.setState({ menu: false })} />
      <div class="stage">
        <header class="top">
          <button type="button" class="quiet phone" aria-label="Open the list" aria-expanded=${menu} aria-controls="sidebar"
            onClick=${() => this.setState({ menu: true })}><${Icon} name="menu" /></button>
          <h1>${title}</h1>
          ${settings && html`<span class="model">${settings.model}</span>`}
        </header>
        <main tabindex="-1" onScroll=${this.#scrolled}>
          ${!current && html`<${Welcome} settings=${settings} onSend=${this.#send} />`}
          ${missing && html`<div class="empty"><h2>This conversation is not here</h2><p>It may have been deleted.</p></div>`}
          ${current && thread && html`<div class="thread">${this.#items(thread, busy)}</div>`}
        </main>
        ${away && html`<button type="button" class="round to-end" aria-label="To the newest" onClick=${() => this.setState({ away: false })}><${Icon} name="down" /></button>`}
        <div class="foot">
          ${!connected && html`<p class="banner" role="status">The connection is lost. Reconnecting…</p>`}
          ${problem && html`<p class="banner problem" role="alert">${problem}
            <button type="button" class="quiet" aria-label="Dismiss" onClick=${() => this.setState({ problem: '' })}><${Icon} name="close" /></button></p>`}
          <${Composer} conversation=${current} live=${live} busy=${busy} onSend=${this.#send} onStop=${this.#stop} />
        </div>
        <p class="offscreen" role="status">${announcement(thread, live)}</p>
      </div>`
  }

  #items(thread, busy) {
    const actions = { retry: this.#retry, decide: this.#decide }
    return thread.items.map((item) => item.kind === 'question'
      ? html`<article key=${item.key} class="question"><h2 class="offscreen">Prompt</h2>${item.text}</article>`
      : html`<${Answer} key=${item.key} item=${item} v=${item.v} last=${item === thread.answer} busy=${busy} actions=${actions} />`)
  }
}

function Welcome({ settings, onSend }) {
  const suggestions = settings?.suggestions ?? []
  return html`<div class="empty">
    <img src="icon.svg" alt="" width="48" height="48" />
    <h2>What shall we talk about?</h2>
    <p>Enter sends, Shift+Enter starts a new line, Esc stops.</p>
    ${suggestions.length > 0 && html`<ul class="suggestions">
      ${suggestions.map((text) => html`<li><button type="button" onClick=${() => onSend(text)}>${text}</button></li>`)}
    </ul>`}
  </div>`
}

/** For screen readers, which a text that grows word by word would drown. */
function announcement(thread, live) {
  if (!thread?.answer) return ''
  if (live) return 'The answer is arriving.'
  if (thread.pending.length) return 'A tool call needs your approval.'
  if (thread.answer.error) return 'The answer failed.'
  return thread.answer.stopped ? 'The answer was stopped.' : 'The answer is complete.'
}

render(html`<${App} />`, document.getElementById('app'))
