// The list of events: as many rows in the document as are seen, however many there are.

import { AT } from './call.js'
import { clock, el, family, foreign, seconds } from './dom.js'

const ROW_PX = 26
const MORE = 8
const HEAD = [
  ['number', '#'], ['time', 'seconds'], ['gap', 'gap'], ['read', 'read'], ['kind', 'event'], ['event', 'content'],
  ['wire', 'wire'],
]

export class Rows {
  /** onSelect gets the number of an event. `view` is what is shown: `element`, which scrolls, below its head. */
  constructor(onSelect) {
    this.call = null
    this.selected = -1
    this.following = false
    this.found = new Set()
    this.#inner = el('div.rows-inner', { role: 'presentation' })
    this.element = el('div.rows', {
      role: 'listbox', tabindex: '0', 'aria-label': 'Events',
      onScroll: () => this.#scrolled(),
      onClick: (event) => {
        const row = event.target.closest('[data-place]')
        if (row) onSelect(Number(row.dataset.place))
      },
    }, this.#inner)
    const head = el('div.rows-head', { 'aria-hidden': 'true' }, ...HEAD.map(([name, text]) => el(`span.${name}`, {}, text)))
    this.view = el('div.rows-view', {}, head, this.element)
    new ResizeObserver(() => this.draw()).observe(this.element)
  }

  #inner
  #frame = 0

  show(call) {
    this.call = call
    this.selected = -1
    this.found = new Set()
    this.element.scrollTop = 0
    this.draw()
  }

  select(place) {
    this.selected = place
    const top = place * ROW_PX
    const { scrollTop, clientHeight } = this.element
    if (top < scrollTop) this.element.scrollTop = Math.max(0, top - 2 * ROW_PX)
    else if (top + ROW_PX > scrollTop + clientHeight) this.element.scrollTop = top - clientHeight + 3 * ROW_PX
    this.draw()
  }

  /** Draws at most once a frame. */
  draw() {
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0
      this.#draw()
    })
  }

  #scrolled() {
    const { scrollTop, clientHeight, scrollHeight } = this.element
    this.following = scrollTop + clientHeight >= scrollHeight - ROW_PX
    this.draw()
  }

  #draw() {
    const call = this.call
    const total = call?.events.length ?? 0
    this.#inner.style.height = `${total * ROW_PX}px`
    if (this.following && call?.summary?.state === 'open') this.element.scrollTop = total * ROW_PX
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW_PX) - MORE)
    const last = Math.min(total, Math.ceil((this.element.scrollTop + this.element.clientHeight) / ROW_PX) + MORE)
    const made = []
    for (let place = first; place < last; place++) made.push(this.#row(call, place, total))
    this.#inner.replaceChildren(...made)
    if (this.selected >= first && this.selected < last) this.element.setAttribute('aria-activedescendant', `event-${this.selected}`)
    else this.element.removeAttribute('aria-activedescendant')
  }

  #row(call, place, total) {
    const at = call.events[place][AT]
    const before = place ? call.events[place - 1][AT] : at
    const read = call.readOf(place)
    const isFirst = read >= 0 && (place === 0 || call.readOf(place - 1) !== read)
    const [event, wire] = call.row(place, () => this.draw()) ?? ['', '']
    const kind = call.kind(place)
    const row = el(`div.row.${family(kind)}`, {
      id: `event-${place}`, role: 'option', 'data-place': place, 'aria-posinset': place + 1, 'aria-setsize': total,
      'aria-selected': place === this.selected ? 'true' : 'false',
    },
    el('span.number', {}, String(place)),
    el('span.time', {}, clock(at)),
    el('span.gap', {}, at > before ? `+${seconds((at - before) / 1e6)}` : ''),
    el('span.read', { title: read >= 0 ? `read ${read + 1}` : null }, isFirst ? String(read + 1) : read >= 0 ? '·' : ''),
    foreign(kind, 'kind'),
    foreign(event, 'event'),
    foreign(wire, 'wire'))
    if (isFirst) row.classList.add('first')
    if (this.found.has(place)) row.classList.add('found')
    row.style.transform = `translateY(${place * ROW_PX}px)`
    return row
  }
}
