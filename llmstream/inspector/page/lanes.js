// The timeline: what came when, a lane for each kind; silences shaded, and reads as high as what they brought.

import { AT, KIND, SIZE, WAITED } from './call.js'
import { color as computed, count, family, seconds } from './dom.js'

const LANES = ['reads', 'reasoning', 'text', 'tool', 'other']
const LABEL_PX = 78
const LANE_PX = 22
const READS_PX = 40
const AXIS_PX = 22
const RIGHT_PX = 12
// A read with so many pieces of content has their number on it.
const MANY = 10
// A wait of such a share of what is shown is a silence.
const SILENCE = 0.04
// Decoding takes less than a pixel; what is wider is the program's own.
const BUSY_PX = 3
// Room for the label of a mark; nearer to the edge it is before the mark.
const MARK_PX = 40

export class Lanes {
  /** on.select gets the number of an event; on.zoom(from, to) microseconds, or nothing for all. */
  constructor(on) {
    this.canvas = document.createElement('canvas')
    this.canvas.className = 'lanes'
    this.canvas.setAttribute('role', 'img')
    this.call = null
    this.range = null
    this.cursor = -1
    this.played = null
    this.span = 0
    this.#on = on
    this.canvas.addEventListener('pointerdown', (event) => this.#down(event))
    this.canvas.addEventListener('dblclick', () => on.zoom(null))
    new ResizeObserver(() => this.draw()).observe(this.canvas)
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.draw())
  }

  #on
  #frame = 0
  #drag = null

  /** Shows another call; `span` is what the axis has at least. */
  show(call, span = 0) {
    Object.assign(this, { call, span, range: null, cursor: -1 })
    this.canvas.setAttribute('aria-label', this.#words())
    this.draw()
  }

  draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0
      if (this.call?.summary && this.canvas.clientWidth) this.#draw()
    })
  }

  get #lanes() {
    const used = new Set(this.call.kinds.map(family))
    if (used.has('error')) used.add('other')
    return LANES.filter((lane) => lane === 'reads' ? this.call.reads.length : used.has(lane))
  }

  #limits() {
    return this.range ?? [0, Math.max(this.call.span, this.span) * 1.01]
  }

  #x(us) {
    const [from, to] = this.#limits()
    return LABEL_PX + (us - from) / (to - from) * (this.canvas.clientWidth - LABEL_PX - RIGHT_PX)
  }

  #us(x) {
    const [from, to] = this.#limits()
    return from + (x - LABEL_PX) / (this.canvas.clientWidth - LABEL_PX - RIGHT_PX) * (to - from)
  }

  #draw() {
    colors.clear()
    const lanes = this.#lanes
    const height = AXIS_PX + lanes.reduce((sum, lane) => sum + (lane === 'reads' ? READS_PX : LANE_PX), 0) + 4
    const width = this.canvas.clientWidth
    const ratio = devicePixelRatio
    this.canvas.style.height = `${height}px`
    this.canvas.width = width * ratio
    this.canvas.height = height * ratio
    const c = this.canvas.getContext('2d')
    c.scale(ratio, ratio)
    c.font = `12px ${getComputedStyle(document.body).fontFamily}`
    c.textBaseline = 'middle'
    c.save()
    c.beginPath()
    c.rect(LABEL_PX - 1, 0, width, height)
    c.clip()
    this.#axis(c, height)
    this.#silences(c, height)
    let y = AXIS_PX
    const tops = {}
    for (const lane of lanes) {
      tops[lane] = y
      if (lane === 'reads') this.#reads(c, y)
      y += lane === 'reads' ? READS_PX : LANE_PX
    }
    this.#events(c, tops)
    this.#marks(c, height)
    c.restore()
    c.fillStyle = color('soft')
    for (const lane of lanes) c.fillText(lane === 'tool' ? 'tools' : lane, 4, tops[lane] + (lane === 'reads' ? READS_PX - 8 : LANE_PX / 2))
    this.canvas.setAttribute('aria-label', this.#words())
  }

  #axis(c, height) {
    const [from, to] = this.#limits()
    const wanted = (to - from) / Math.max(2, this.canvas.clientWidth / 110)
    const power = 10 ** Math.floor(Math.log10(wanted))
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= wanted)
    c.fillStyle = color('soft')
    for (let us = Math.ceil(from / step) * step; us <= to; us += step) {
      const x = this.#x(us)
      c.fillStyle = color('line')
      c.fillRect(x, AXIS_PX - 4, 1, height)
      c.fillStyle = color('soft')
      const label = us ? round(us / 1e6) : '0'
      if (x + c.measureText(label).width + 3 < this.canvas.clientWidth) c.fillText(label, x + 3, 9)
    }
  }

  #silences(c, height) {
    const [from, to] = this.#limits()
    const span = (begin, end, name, share) => {
      if (end - begin <= (to - from) * share || end < from) return
      c.fillStyle = color(name)
      c.fillRect(this.#x(begin), AXIS_PX, this.#x(end) - this.#x(begin), height)
    }
    let before = Infinity
    for (const read of this.call.reads) {
      const began = read[AT] - read[WAITED]
      span(before, began, 'busy', BUSY_PX / this.canvas.clientWidth)
      span(began, read[AT], 'silence', SILENCE)
      before = read[AT]
    }
  }

  #reads(c, top) {
    const counts = this.call.readCounts()
    const most = Math.max(1, ...counts.values())
    let free = -Infinity
    for (const [place, read] of this.call.reads.entries()) {
      if (!read[SIZE]) continue
      const events = counts.get(place) ?? 0
      const size = 3 + (READS_PX - 18) * events / most
      const x = this.#x(read[AT])
      c.fillStyle = color(events >= MANY ? 'warn' : 'accent')
      c.fillRect(x - 1, top + READS_PX - 3 - size, 2, size)
      if (events >= MANY && x > free) {
        c.fillText(String(events), x + 4, top + READS_PX - size)
        free = x + 26
      }
    }
  }

  #events(c, tops) {
    // One tick for each pixel of a lane: a hundred thousand events are drawn in a few milliseconds.
    const drawn = new Set()
    for (const event of this.call.events) {
      const kind = family(this.call.kinds[event[KIND]])
      const lane = kind === 'error' ? 'other' : kind
      const x = Math.round(this.#x(event[AT]))
      const key = `${kind} ${x}`
      if (drawn.has(key)) continue
      drawn.add(key)
      c.fillStyle = color(kind)
      c.fillRect(x, tops[lane] + 4, 1.5, LANE_PX - 8)
    }
  }

  #marks(c, height) {
    const mark = (us, name, text) => {
      const x = this.#x(us)
      c.fillStyle = color(name)
      c.fillRect(x, AXIS_PX - 4, 1.5, height)
      if (!text) return
      const fits = x + MARK_PX < this.canvas.clientWidth
      c.textAlign = fits ? 'left' : 'right'
      c.fillText(text, fits ? x + 4 : x - 4, AXIS_PX + 6)
      c.textAlign = 'left'
    }
    for (const head of this.call.heads) mark(head.at, 'soft', String(head.status))
    for (const failed of this.call.failed) mark(failed.at, 'bad', failed.error_code)
    if (this.call.summary.state === 'cut') mark(this.call.end, 'bad', 'cut')
    if (this.cursor >= 0 && this.call.events[this.cursor]) mark(this.call.events[this.cursor][AT], 'text')
    if (this.played !== null) mark(this.played, 'warn')
    if (this.#drag) {
      c.fillStyle = color('silence')
      c.fillRect(Math.min(...this.#drag), AXIS_PX, Math.abs(this.#drag[1] - this.#drag[0]), height)
    }
  }

  #words() {
    const { summary } = this.call
    return `Timeline of ${seconds(summary.durationS)}: ${count(summary.events, 'event')} in ${count(summary.reads, 'read')}, ` +
      `first content after ${seconds(summary.firstS)}, longest silence ${seconds(summary.silenceS)}. ${summary.state}.`
  }

  #down(event) {
    const left = this.canvas.getBoundingClientRect().left
    const begin = event.clientX - left
    if (begin < LABEL_PX) return
    this.canvas.setPointerCapture(event.pointerId)
    const move = (moved) => {
      this.#drag = [begin, Math.max(LABEL_PX, moved.clientX - left)]
      this.draw()
    }
    const up = () => {
      this.canvas.removeEventListener('pointermove', move)
      const drag = this.#drag
      this.#drag = null
      if (drag && Math.abs(drag[1] - drag[0]) > 8) {
        this.#on.zoom([this.#us(Math.min(...drag)), this.#us(Math.max(...drag))])
      } else {
        this.#on.select(nearest(this.call.events, this.#us(begin)))
      }
      this.draw()
    }
    this.canvas.addEventListener('pointermove', move)
    this.canvas.addEventListener('pointerup', up, { once: true })
  }
}

// Asked for once a drawing: the browser computes each anew.
const colors = new Map()

function color(name) {
  if (!colors.has(name)) colors.set(name, computed(name))
  return colors.get(name)
}

/** A time at a round step of the axis, without needless digits. */
function round(value) {
  const [number, unit] = seconds(value).split(' ')
  return `${Number(number)} ${unit}`
}

/** The number of the first event at a time or behind it. */
export function nearest(events, us) {
  let low = 0
  let high = events.length - 1
  while (low < high) {
    const middle = (low + high) >> 1
    if (events[middle][AT] < us) low = middle + 1
    else high = middle
  }
  return low
}
