// The inspector: a list of calls, and one of them with its timeline, its events and what else is known.

import { get, of, post, Refused, save } from './api.js'
import { AT, Call } from './call.js'
import { count, el, foreign, seconds, STATES } from './dom.js'
import { Lanes, nearest } from './lanes.js'
import { compare, detail, figures, gaps, label, request, written } from './panels.js'
import { Rows } from './rows.js'

const TABS = { events: 'Events', text: 'Text', request: 'Request', gaps: 'Gaps', compare: 'Compare' }
const SPEEDS = [0.1, 0.5, 1, 2, 5, 20]
const AGAIN_MS = 1000
const MOST_SHOWN = 500
const UNREACHABLE = 'The inspector cannot be reached. Is `llmstream inspect` running?'

const KEYS = [
  ['j k ↓ ↑', 'next and previous event'],
  ['J K', 'next and previous call'],
  ['g G', 'first and last event'],
  ['/', 'search events and bytes'],
  ['n N', 'next and previous match'],
  ['1 … 5', Object.values(TABS).join(', ')],
  ['Space', 'play and pause'],
  ['0', 'show all of the timeline'],
  ['?', 'this help'],
]

const state = { version: -1, calls: [], dialects: [], places: '', call: null, tab: 'events', place: -1, matches: [], other: null, filter: '' }
const known = new Map()

// Parts of the page that stay.

const rows = new Rows((place) => select(place))
const lanes = new Lanes({ select: (place) => select(place), zoom })
const list = el('ul.calls', { 'aria-label': 'Calls' })
const problem = el('p.problem', { role: 'alert', hidden: true })
const filter = el('input', { type: 'search', placeholder: 'Filter calls', 'aria-label': 'Filter calls', onInput: (event) => { state.filter = event.target.value; drawList() } })
const search = el('input.search', { type: 'search', placeholder: 'Search  /', 'aria-label': 'Search events and bytes' })
const matches = el('span.matches', { role: 'status' })
const head = el('div.head')
const panel = el('div.panel')
const side = el('aside.side', { 'aria-label': 'Selected event' })
const body = el('div.body', {}, panel, side)
const tabs = el('div.tabs', { role: 'tablist', onKeydown: turn }, Object.entries(TABS).map(([name, title]) => el('button', {
  type: 'button', role: 'tab', id: `tab-${name}`, 'data-name': name, onClick: () => setTab(name),
}, title)))
const help = el('dialog.help', { 'aria-labelledby': 'help-title' },
  el('h2', { id: 'help-title' }, 'Keys'),
  el('dl', {}, KEYS.map(([keys, does]) => el('div', {}, el('dt', {}, el('kbd', {}, keys)), el('dd', {}, does)))),
  el('p.soft', {}, 'Timeline: drag to zoom, double-click to show all. A grey span is a wait for bytes, a yellow one a program that did not read. Reads are as high as the content they brought: a number on one is a buffer.'),
  el('form', { method: 'dialog' }, el('button.button', {}, 'Close')))
const stage = el('main', { tabindex: '-1' })

document.body.append(
  el('nav', {}, el('header', {}, el('h1', {}, 'llmstream ', el('span', {}, 'inspect')),
    el('button.quiet', { type: 'button', 'aria-label': 'Help', onClick: () => help.showModal() }, '?')), filter, list),
  stage, help, problem)

// The list of calls, which the server reports anew when anything changes.

async function follow() {
  while (true) {
    try {
      const found = await get(`calls?version=${state.version}`)
      problem.hidden = true
      Object.assign(state, found)
      drawList()
      const summary = state.calls.find((one) => one.id === state.call?.id)
      if (!state.call) await route()
      else if (summary && summary.version !== state.call.summary?.version) await update()
    } catch (error) {
      if (error instanceof Refused && error.status === 401) return refused(error.message)
      problem.textContent = error instanceof TypeError ? UNREACHABLE : error.message
      problem.hidden = false
      if (!(error instanceof Refused || error instanceof TypeError)) throw error
      await new Promise((resolve) => setTimeout(resolve, AGAIN_MS))
    }
  }
}

function refused(message) {
  stage.replaceChildren(el('div.empty', {}, el('h2', {}, 'Not admitted'), el('p', {}, message)))
}

function drawList() {
  const wanted = state.filter.toLowerCase()
  const shown = state.calls.filter((one) => !wanted || `${label(one)} ${one.source} ${one.state}`.toLowerCase().includes(wanted))
  // They are made anew: the one that has the focus keeps it.
  const focused = list.contains(document.activeElement) ? document.activeElement.dataset.id : null
  list.replaceChildren(...shown.slice(0, MOST_SHOWN).map(item))
  if (focused) [...list.querySelectorAll('button')].find((button) => button.dataset.id === focused)?.focus()
  if (!state.calls.length && !state.call) {
    stage.replaceChildren(el('div.empty', {}, el('h2', {}, 'No calls yet'),
      el('p', {}, 'Trace a program, and its calls appear here as they happen:'),
      el('pre.code', {}, 'import llmstream as ls\n\nls.inspect()'),
      el('p.soft', {}, `Looking at ${state.places}`)))
  }
}

function item(summary) {
  const current = summary.id === state.call?.id
  const facts = [count(summary.events, 'event'), seconds(summary.durationS)]
  if (summary.firstS !== null) facts.push(`first ${seconds(summary.firstS)}`)
  return el('li', {}, el('button', { type: 'button', 'data-id': summary.id, 'aria-current': current ? 'true' : null, onClick: () => open(summary.id) },
    el('span.line', {}, foreign(label(summary), 'name'), summary.state !== 'complete' && badge(summary)),
    el('span.line.soft', {}, facts.join(' · ')),
    el('span.line.soft', {}, when(summary.beganAt), ' ', foreign(summary.source, 'source'))))
}

function badge(summary) {
  return el(`span.badge.${summary.state}`, {}, STATES[summary.state])
}

function when(at) {
  return at ? new Date(at * 1000).toLocaleString([], { dateStyle: 'short', timeStyle: 'medium' }) : ''
}

// One call.

function idOf(address) {
  return decodeURIComponent(address.slice(1))
}

async function route() {
  const wanted = idOf(location.hash) || state.calls[0]?.id
  if (wanted && state.calls.some((one) => one.id === wanted)) await open(wanted)
}

async function open(id) {
  if (state.call?.id === id) return
  play.stop()
  const call = known.get(id) ?? new Call(id)
  known.set(id, call)
  if (known.size > 20) known.delete(known.keys().next().value)
  await guarded(async () => {
    await call.refresh()
    Object.assign(state, { call, place: -1, matches: [], other: state.other?.id === id ? null : state.other })
    history.replaceState(null, '', `#${encodeURIComponent(id)}`)
    lanes.show(call)
    search.value = ''
    matches.textContent = ''
    rows.show(call)
    rows.following = call.summary.state === 'open'
    drawCall()
    drawList()
    select(0, true)
  })
}

async function update() {
  await state.call.refresh()
  drawHead()
  lanes.draw()
  rows.draw()
  if (state.tab !== 'events') drawPanel()
}

function drawCall() {
  stage.replaceChildren(head, lanes.canvas, el('div.bar', {}, tabs, player(), search, matches), body)
  drawHead()
  drawTabs()
  drawPanel()
  lanes.draw()
}

function drawHead() {
  const { summary, findings } = state.call
  document.title = `${label(summary)} – llmstream inspect`
  const exports = el('select', { 'aria-label': 'Export', onChange: (event) => { exported(event.target.value); event.target.value = '' } },
    el('option', { value: '' }, 'Export…'),
    summary.hasBytes && el('option', { value: 'test' }, 'Test (pytest)'),
    summary.hasBytes && el('option', { value: 'recording' }, 'Recording (zip)'),
    el('option', { value: 'trace' }, 'Trace (jsonl)'))
  const replay = el('select', { 'aria-label': 'Replay through', onChange: (event) => { replayed(event.target.value); event.target.value = '' } },
    el('option', { value: '' }, 'Replay through…'), state.dialects.map((name) => el('option', { value: name }, name)))
  if (head.contains(document.activeElement) && document.activeElement.matches('select')) return
  head.replaceChildren(
    el('div.title', {}, el('h2', {}, foreign(label(summary))), badge(summary),
      summary.dialect && el('span.soft', {}, summary.dialect), summary.attempts > 1 && el('span.soft', {}, count(summary.attempts, 'attempt')),
      el('span.grow'), replay, exports),
    figures(summary),
    el('ul.findings', { 'aria-label': 'Findings', hidden: !findings.length }, findings.map((one) => el(`li.${one.kind}`, {},
      one.event === null ? foreign(one.text)
        : el('button', { type: 'button', onClick: () => { setTab('events'); select(one.event) } }, foreign(one.text))))))
}

function drawTabs() {
  for (const tab of tabs.children) {
    const chosen = tab.dataset.name === state.tab
    tab.setAttribute('aria-selected', String(chosen))
    tab.tabIndex = chosen ? 0 : -1
  }
  panel.setAttribute('role', 'tabpanel')
  panel.setAttribute('aria-labelledby', `tab-${state.tab}`)
}

function setTab(name) {
  if (state.tab === name) return
  state.tab = name
  drawTabs()
  drawPanel()
}

/** Arrows go to the tab beside. */
function turn(event) {
  const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key]
  if (!by) return
  const names = Object.keys(TABS)
  setTab(names[(names.indexOf(state.tab) + by + names.length) % names.length])
  document.getElementById(`tab-${state.tab}`).focus()
  event.stopPropagation()
}

let drawing = 0

async function drawPanel() {
  const turn = ++drawing
  const { call, tab, place } = state
  body.classList.toggle('listed', tab === 'events')
  side.hidden = tab !== 'events'
  if (tab === 'events') return panel.replaceChildren(rows.view)
  await guarded(async () => {
    const made = await {
      text: () => written(call, play.place ?? (place > 0 ? place : call.events.length)),
      request: () => request(call),
      gaps: () => gaps(call, state.other),
      compare: compared,
    }[tab]()
    if (turn !== drawing) return
    const top = panel.scrollTop
    panel.replaceChildren(...[made].flat())
    panel.scrollTop = play.place === null ? top : panel.scrollHeight
  })
}

async function compared() {
  const { call } = state
  const others = state.calls.filter((one) => one.id !== call.id)
  const choice = el('select', { 'aria-label': 'Compare with', onChange: async (event) => {
    await guarded(async () => {
      const other = known.get(event.target.value) ?? new Call(event.target.value)
      await other.refresh()
      known.set(other.id, other)
      state.other = other
      drawPanel()
    })
  } }, el('option', { value: '' }, 'Compare with…'), others.map((one) => el('option', { value: one.id, selected: one.id === state.other?.id }, `${label(one)} · ${when(one.beganAt)} · ${one.state}`)))
  const other = state.other
  return [el('p', {}, choice), other && other.id !== call.id ? await compare(call, other) : el('p.soft', {}, 'Two calls on one axis of time, with their figures and texts.')]
}

// One event.

let leaving = new AbortController()

function select(place, quiet = false) {
  const { call } = state
  if (!call?.events.length) return side.replaceChildren()
  state.place = Math.max(0, Math.min(place, call.events.length - 1))
  rows.select(state.place)
  if (quiet && call.summary.state === 'open') rows.following = true
  lanes.cursor = state.place
  lanes.draw()
  if (state.tab === 'text') drawPanel()
  leaving.abort()
  leaving = new AbortController()
  const { signal } = leaving
  guarded(async () => {
    const made = await detail(call, state.place, signal)
    if (!signal.aborted) side.replaceChildren(made)
  })
}

function zoom(range) {
  lanes.range = range
  lanes.draw()
}

// Search.

let typing = 0
search.addEventListener('input', () => {
  clearTimeout(typing)
  typing = setTimeout(find, 150)
})
search.addEventListener('keydown', (event) => {
  if (event.key === 'Escape') search.blur()
  if (event.key !== 'Enter') return
  clearTimeout(typing)
  guarded(async () => {
    await find()
    search.blur()
    rows.element.focus()
  })
})

async function find() {
  const { call } = state
  const found = search.value ? await get(of(call.id, `/search?q=${encodeURIComponent(search.value)}`)) : []
  if (call !== state.call) return
  state.matches = found
  rows.found = new Set(found)
  matches.textContent = search.value ? count(found.length, 'match', 'matches') : ''
  if (found.length) step(1, true)
  rows.draw()
}

function step(by, stays = false) {
  const found = state.matches
  if (!found.length) return
  const next = by > 0 ? found.find((place) => place > state.place || (stays && place === state.place)) : found.findLast((place) => place < state.place)
  setTab('events')
  select(next ?? (by > 0 ? found[0] : found.at(-1)))
}

// Replay: the cursor goes over the events as they came, at any pace.

const play = {
  place: null,
  speed: 1,
  frame: 0,
  at: 0,
  last: 0,
  start() {
    const { call } = state
    this.at = state.place > 0 && state.place < call.events.length - 1 ? call.events[state.place][AT] : 0
    this.last = performance.now()
    this.place = nearest(call.events, this.at)
    setTab('text')
    this.tick()
    drawPlayer()
  },
  stop() {
    cancelAnimationFrame(this.frame)
    this.frame = 0
    this.place = null
    lanes.played = null
    lanes.draw()
    drawPlayer()
  },
  tick() {
    this.frame = requestAnimationFrame((now) => {
      const { call } = state
      this.at += (now - this.last) * 1000 * this.speed
      this.last = now
      lanes.played = this.at
      lanes.draw()
      const events = call.events
      let place = this.place
      while (place + 1 < events.length && events[place + 1][AT] <= this.at) place++
      if (place !== this.place) {
        this.place = place
        lanes.cursor = state.place = place
        if (state.tab === 'text') drawPanel()
        else if (state.tab === 'events') rows.select(place)
      }
      if (this.at >= call.span) {
        this.stop()
        select(events.length - 1)
      } else this.tick()
    })
  },
}

const button = el('button.button', { type: 'button', onClick: () => toggle() })
const pace = el('select', { 'aria-label': 'Pace', onChange: (event) => { play.speed = Number(event.target.value) } },
  SPEEDS.map((speed) => el('option', { value: speed, selected: speed === 1 }, `${speed}×`)))

function player() {
  drawPlayer()
  return el('div.player', {}, button, pace)
}

function drawPlayer() {
  button.textContent = play.frame ? '❚❚ Pause' : '▶ Play'
}

function toggle() {
  if (!state.call) return
  if (play.frame) play.stop()
  else play.start()
}

// Exports, and the same answer on another wire.

function exported(as) {
  if (as) guarded(() => save(of(state.call.id, `/export?as=${as}`)))
}

function replayed(dialect) {
  if (!dialect) return
  guarded(async () => {
    const original = state.call
    const made = await post(of(original.id, '/replay'), { dialect })
    known.delete(made.id)
    state.version = -1
    if (!state.calls.some((one) => one.id === made.id)) state.calls.unshift(made)
    state.other = original
    await open(made.id)
  })
}

async function guarded(action) {
  try {
    await action()
  } catch (error) {
    if (error.name === 'AbortError') return
    if (error instanceof Refused && error.status === 401) return refused(error.message)
    if (!(error instanceof Refused || error instanceof TypeError)) throw error
    problem.textContent = error instanceof TypeError ? UNREACHABLE : error.message
    problem.hidden = false
  }
}

// Keys.

const ACTIONS = {
  j: () => select(state.place + 1), k: () => select(state.place - 1),
  ArrowDown: () => select(state.place + 1), ArrowUp: () => select(state.place - 1),
  PageDown: () => select(state.place + 20), PageUp: () => select(state.place - 20),
  g: () => select(0), G: () => select(Infinity), Home: () => select(0), End: () => select(Infinity),
  J: () => neighbour(1), K: () => neighbour(-1),
  n: () => step(1), N: () => step(-1),
  '/': () => { search.focus(); search.select() },
  '?': () => help.showModal(),
  0: () => zoom(null),
  ' ': () => toggle(),
  ...Object.fromEntries(Object.keys(TABS).map((name, place) => [place + 1, () => setTab(name)])),
}

function neighbour(by) {
  const at = state.calls.findIndex((one) => one.id === state.call?.id)
  const next = state.calls[at + by]
  if (next) open(next.id)
}

addEventListener('keydown', (event) => {
  const typed = event.target.closest?.('input, select, textarea, button, dialog, summary, a')
  const moves = event.key.startsWith('Arrow') || event.key.startsWith('Page') || event.key === 'Home' || event.key === 'End'
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return
  if (typed && (!typed.matches('button') || event.key === ' ' || event.key === 'Enter')) return
  if (moves && state.tab !== 'events') return
  if (typed?.role === 'tab' && moves) return
  const action = ACTIONS[event.key]
  if (!action || (!state.call && event.key !== '?')) return
  event.preventDefault()
  action()
})

addEventListener('hashchange', () => {
  const id = idOf(location.hash)
  if (id && id !== state.call?.id && state.calls.some((one) => one.id === id)) open(id)
})

follow()
