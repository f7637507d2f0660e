// Folds turns and their events into what is shown: questions, and answers made of blocks.
//
// An answer may take several runs: one that waits for decisions is continued by the next. Blocks are changed in
// place and get a new number in `v`, so that only those that have changed are drawn again. No number is used twice:
// a thread that is built anew, from fewer and longer deltas, must not look like the one that is drawn.

const STOPPED = 'stopped'

let changes = 0

export class Thread {
  constructor() {
    this.items = []
    this.answer = null
    this.open = new Map()
    this.run = ''
    this.warned = new Set()
  }

  /** Begins a turn: a prompt and its answer, or the continuation of an answer after decisions. */
  begin(turn) {
    this.open = new Map()
    this.run = turn.run
    if (turn.prompt || !this.answer) {
      if (this.answer) this.#undecided(this.answer)
      this.items.push({ kind: 'question', key: `q-${turn.run}`, text: turn.prompt ?? '' })
      this.answer = {
        kind: 'answer', key: turn.run, blocks: [], v: ++changes, live: true, stepBegin: 0, notice: '', model: '',
        error: null, stopped: false, usage: null, seconds: 0, cost: null, finish: null,
      }
      this.items.push(this.answer)
    }
    Object.assign(this.answer, { live: true, error: null, stopped: false, finish: null, notice: '' })
    this.answer.v = ++changes
    this.#decided(turn.decisions ?? {})
  }

  feed(event) {
    this.answer.v = ++changes
    const handle = HANDLERS[event.type]
    if (handle) handle(this, this.answer, event)
  }

  /** The run is over and nothing follows: whatever looks unfinished stays so. */
  settle(turn) {
    const answer = this.answer
    answer.live = false
    answer.notice = ''
    answer.cost = turn.cost ?? answer.cost
    for (const block of answer.blocks) {
      if (block.open) change(block, { open: false, incomplete: true })
      if (block.kind === 'tool' && (block.state === 'writing' || block.state === 'running')) {
        change(block, { state: 'cancelled' })
      }
    }
    answer.v = ++changes
  }

  get pending() {
    return this.answer?.blocks.filter((block) => block.state === 'waiting') ?? []
  }

  add(id, block) {
    const added = { id, key: `${this.run}-${this.answer.blocks.length}-${id}`, v: ++changes, ...block }
    this.answer.blocks.push(added)
    this.open.set(id, added)
    this.answer.notice = ''
    return added
  }

  tool(id) {
    return this.answer.blocks.findLast((block) => block.kind === 'tool' && block.id === id)
  }

  #decided(decisions) {
    for (const block of this.pending) {
      const decision = decisions[block.approvalId]
      if (!decision) continue
      const input = decision.arguments ? JSON.stringify(decision.arguments) : block.input
      change(block, { state: 'running', decision, input, edited: Boolean(decision.arguments) })
    }
  }

  #undecided(answer) {
    for (const block of answer.blocks) if (block.state === 'waiting') change(block, { state: 'cancelled' })
    answer.v = ++changes
  }
}

function change(block, fields) {
  Object.assign(block, fields)
  block.v = ++changes
}

function start(kind) {
  return (thread, answer, event) => thread.add(event.id, { kind, text: '', open: true })
}

function delta(thread, answer, event) {
  const block = thread.open.get(event.id)
  if (block) change(block, { text: block.text + event.delta })
}

function end(thread, answer, event) {
  const block = thread.open.get(event.id)
  if (block) change(block, { open: false, incomplete: event.incomplete })
}

const HANDLERS = {
  'text-start': start('text'),
  'text-delta': delta,
  'text-end': end,
  'reasoning-start': start('reasoning'),
  'reasoning-delta': delta,
  'reasoning-end': end,

  'tool-input-start': (thread, answer, event) =>
    thread.add(event.id, { kind: 'tool', name: event.title ?? event.toolName, input: '', state: 'writing' }),
  'tool-input-delta': (thread, answer, event) => {
    const block = thread.open.get(event.id)
    if (block) change(block, { input: block.input + event.delta })
  },
  'tool-input-end': (thread, answer, event) => {
    const block = thread.open.get(event.id)
    if (block && event.incomplete) change(block, { state: 'cancelled' })
  },
  'tool-call': (thread, answer, event) => {
    const block = thread.open.get(event.toolCallId)
      ?? thread.add(event.toolCallId, { kind: 'tool', name: event.toolName })
    change(block, { input: event.input, state: 'running' })
  },
  'tool-approval-request': (thread, answer, event) => {
    const block = thread.tool(event.toolCallId)
    if (block) change(block, { state: 'waiting', approvalId: event.approvalId })
  },
  'tool-result': (thread, answer, event) => {
    const block = thread.tool(event.toolCallId)
      ?? thread.add(event.toolCallId, { kind: 'tool', name: event.toolName, input: '' })
    if (event.preliminary) {
      const { agent } = event.providerMetadata?.llmstream ?? {}
      // Of the events of a sub-agent, a person wants to know which tool runs.
      if (agent === undefined) change(block, { progress: event.result })
      else if (event.result?.type === 'tool-call') change(block, { progress: `${agent} calls ${event.result.toolName}` })
      return
    }
    const denied = block.decision && !block.decision.approve
    const state = denied ? 'denied' : event.isError ? 'failed' : 'done'
    change(block, { state, result: event.result, progress: undefined })
  },

  source: (thread, answer, event) =>
    thread.add(event.id, { kind: 'source', url: event.url, title: event.title ?? event.filename ?? event.url }),
  file: (thread, answer, event) =>
    thread.add(`file-${answer.blocks.length}`, { kind: 'file', mediaType: event.mediaType, data: event.data }),

  'stream-start': (thread, answer, event) => warn(thread, event.warnings),
  'step-start': (thread, answer, event) => {
    answer.stepBegin = answer.blocks.length
    if (event.step > 0) warn(thread, event.warnings)
  },
  'step-finish': (thread, answer, event) => { answer.seconds += event.timings?.totalS ?? 0 },
  'response-metadata': (thread, answer, event) => { answer.model = event.modelId ?? answer.model },
  retry: (thread, answer, event) => {
    answer.blocks.length = answer.stepBegin
    answer.notice = `Asking again (${event.reason}).`
  },
  error: (thread, answer, event) => {
    if (event.error.code === STOPPED && event.error.reason !== 'closing') answer.stopped = true
    else answer.error = event.error
  },
  finish: (thread, answer, event) => {
    answer.finish = event.finishReason
    answer.usage = event.usage ?? null
    if (event.finishReason !== 'error') answer.error = null
  },
}

function warn(thread, warnings) {
  for (const warning of warnings ?? []) {
    const text = warning.message ?? `${warning.setting ?? warning.tool} is not supported by this model.`
    // Each request of a conversation leaves the same out.
    if (thread.warned.has(text)) continue
    thread.warned.add(text)
    thread.add(`warning-${thread.answer.blocks.length}`, { kind: 'warning', text })
  }
}
