// A call as the page has it: what the server sent so far, and how events, frames and reads belong together.

import { get, of } from './api.js'

const CHUNK = 200
const KEPT_CHUNKS = 100

// Fields of an event and of a read, as the server sends them.
export const AT = 0
export const KIND = 1
export const FRAME = 2
export const WAITED = 1
export const OFFSET = 2
export const SIZE = 3

const CONTENT = new Set(['text-delta', 'reasoning-delta', 'tool-input-delta'])

export class Call {
  constructor(id) {
    this.id = id
    this.summary = null
    this.events = []
    this.reads = []
    this.frames = []
    this.kinds = []
    this.texts = []
    this.#rows = new Map()
  }

  #rows
  #asked = new Set()
  #textsTo = 0

  /** Reads what is new; returns whether anything is. */
  async refresh() {
    const before = this.events.length
    const { events, reads, frames, kinds, ...rest } = await get(of(this.id,
      `?events=${before}&reads=${this.reads.length}&frames=${this.frames.length}`))
    const changed = !this.summary || rest.summary.version !== this.summary.version
    // The server numbers kinds in the order in which they came, which does not change.
    for (const event of events) this.events.push(event)
    for (const read of reads) this.reads.push(read)
    for (const frame of frames) this.frames.push(frame)
    this.kinds = kinds
    Object.assign(this, rest)
    if (events.length) this.#rows.delete(Math.floor(before / CHUNK))
    return changed
  }

  get span() {
    return Math.max(this.end ?? 0, rangeEnd(this))
  }

  kind(place) {
    return this.kinds[this.events[place][KIND]]
  }

  isContent(place) {
    return CONTENT.has(this.kind(place))
  }

  /** Number of the read that brought an event, or -1. */
  readOf(place) {
    const frame = this.events[place][FRAME]
    return frame < 0 ? -1 : this.frames[frame][2]
  }

  /** How many pieces of content each read brought. */
  readCounts() {
    const counts = new Map()
    for (let place = 0; place < this.events.length; place++) {
      if (!this.isContent(place)) continue
      const read = this.readOf(place)
      if (read >= 0) counts.set(read, (counts.get(read) ?? 0) + 1)
    }
    return counts
  }

  /** [event, wire] beginnings of a row, or null until they are there; `ready` is called then. */
  row(place, ready) {
    const chunk = Math.floor(place / CHUNK)
    const rows = this.#rows.get(chunk)
    if (rows?.[place % CHUNK]) return rows[place % CHUNK]
    if (!this.#asked.has(chunk)) {
      this.#asked.add(chunk)
      get(of(this.id, `/rows?from=${chunk * CHUNK}&count=${CHUNK}`)).then((found) => {
        this.#rows.set(chunk, found)
        if (this.#rows.size > KEPT_CHUNKS) this.#rows.delete(this.#rows.keys().next().value)
        ready()
      }).catch(() => {}).finally(() => this.#asked.delete(chunk))
    }
    return null
  }

  /** The content up to now, as [event, kind, text]. */
  async loadTexts() {
    if (this.#textsTo < this.events.length) {
      const upTo = this.events.length
      const more = await get(of(this.id, `/texts?from=${this.#textsTo}`))
      for (const text of more) if (text[0] >= this.#textsTo) this.texts.push(text)
      this.#textsTo = Math.max(upTo, (this.texts.at(-1)?.[0] ?? -1) + 1)
    }
    return this.texts
  }

  /** What had been written by an event, as runs of one kind. */
  foldedAt(place) {
    const runs = []
    for (const [at, kind, text] of this.texts) {
      if (at > place) break
      if (runs.at(-1)?.kind === kind) runs.at(-1).parts.push(text)
      else runs.push({ kind, parts: [text] })
    }
    return runs.map(({ kind, parts }) => ({ kind, text: parts.join('') }))
  }
}

function rangeEnd(call) {
  return Math.max(call.events.at(-1)?.[AT] ?? 0, call.reads.at(-1)?.[AT] ?? 0, 1)
}
