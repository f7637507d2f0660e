// What is shown of a call besides its list: one event, the text, the request, the gaps, another call beside it.

import { of, get, text } from './api.js'

import { bytes, count, el, foreign, seconds } from './dom.js'
import { Lanes } from './lanes.js'

const FIRST_CHARS = 20_000
const MORE_CHARS = 200_000
// A text that a browser lays out without a pause; the rest is there when it is asked for.
const MOST_TEXT = 100_000

/** A text, of which the rest is shown when it is asked for. */
function long(value, classes, most = FIRST_CHARS) {
  const shown = foreign(value.slice(0, most))
  const box = el(`pre.${classes}`, { tabindex: '0' }, shown)
  if (value.length <= most) return box
  const button = el('button.more', { type: 'button' })
  let end = most
  const label = () => { button.textContent = `Show more (${count(value.length - end, 'character')} left)` }
  button.addEventListener('click', () => {
    box.append(foreign(value.slice(end, end + MORE_CHARS)))
    end = Math.min(value.length, end + MORE_CHARS)
    if (end >= value.length) button.remove()
    else label()
  })
  label()
  return el('div.long', {}, box, button)
}

function pretty(json) {
  try {
    return JSON.stringify(JSON.parse(json), null, 2)
  } catch {
    return json
  }
}

/** One event, the frame that made it, and the read that brought it. */
export async function detail(call, place, signal) {
  const load = (chars) => get(of(call.id, `/event?n=${place}&chars=${chars}`), signal)
  const found = await load(FIRST_CHARS)
  const [at, , frame] = call.events[place]
  const read = call.readOf(place)
  const facts = [`event ${place}`, `at ${seconds(at / 1e6)}`]
  if (frame >= 0) {
    const [offset, size] = call.frames[frame]
    facts.push(`frame of ${bytes(size)} at byte ${offset.toLocaleString('en')}`)
  }
  if (read >= 0) {
    const [readAt, waited, offset, size] = call.reads[read]
    facts.push(`read ${read + 1}: ${bytes(size)} from byte ${offset.toLocaleString('en')} at ${seconds(readAt / 1e6)} after waiting ${seconds(waited / 1e6)}`)
  }
  const made = el('div.detail', {}, el('p.facts', {}, facts.join(' · ')))
  const part = (title, value, total, name) => {
    const section = el('section', {}, el('h3', {}, title), long(value, 'code'))
    if (total > value.length) {
      const button = el('button.more', { type: 'button' }, `Show more (${count(total - value.length, 'character')} left)`)
      button.addEventListener('click', async () => {
        const all = await load(total)
        section.replaceChildren(el('h3', {}, title), long(all[name], 'code', MORE_CHARS))
      })
      section.append(button)
    }
    return section
  }
  made.append(part('Event', found.eventChars > FIRST_CHARS ? found.event : pretty(found.event), found.eventChars, 'event'))
  if (frame >= 0) {
    const title = `Wire${found.binary ? ', binary' : ''}${found.complete ? '' : ', cut: this is not the complete frame'}`
    made.append(part(title, found.wire, found.wireChars, 'wire'))
  } else {
    made.append(el('p.soft', {}, call.summary.hasBytes ? 'No frame made this event: it was inserted by the grammar.' : 'The bytes of this call are not known.'))
  }
  return made
}

/** What had been written by an event. */
export async function written(call, place) {
  await call.loadTexts()
  const runs = call.foldedAt(place)
  if (!runs.length) return [el('p.soft', {}, 'Nothing has been written by then.')]
  return runs.map(({ kind, text: value }) => el(`div.run.${kind}`, {},
    el('h3', {}, { text: 'Text', reasoning: 'Reasoning', input: 'Tool input' }[kind]), long(value, 'prose', MOST_TEXT)))
}

export function request(call) {
  const made = el('div.request', {})
  for (const sent of call.requests) {
    const head = call.heads.find((one) => one.at >= sent.at)
    made.append(el('section', {},
      el('h3', {}, `Attempt ${sent.attempt}, at ${seconds(sent.at / 1e6)}`),
      el('p', {}, `${sent.method} `, foreign(sent.url)),
      (sent.warnings ?? []).map((warning) => el('p.warning', {}, foreign(warning))),
      headers(sent.headers ?? {}),
      sent.body ? long(pretty(sent.body), 'code') : null,
      head && el('p', {}, `HTTP ${head.status} after ${seconds((head.at - sent.at) / 1e6)}`),
      head && headers(head.headers ?? {})))
  }
  for (const failed of call.failed) {
    made.append(el('p.warning', {}, `Attempt ${failed.attempt} failed at ${seconds(failed.at / 1e6)}: `, foreign(failed.error_code), failed.status ? ` (HTTP ${failed.status})` : ''))
  }
  const neutral = JSON.stringify(call.request ?? {}, null, 2)
  if (neutral !== '{}') made.append(el('section', {}, el('h3', {}, 'As the program asked'), long(neutral, 'code')))
  if (!made.childElementCount) made.append(el('p.soft', {}, 'What was asked is not known: this is the recording of a response.'))
  return made
}

function headers(fields) {
  const names = Object.entries(fields)
  return names.length > 0 && el('details', {}, el('summary', {}, count(names.length, 'header')),
    el('dl', {}, names.flatMap(([name, value]) => [el('dt', {}, foreign(name)), el('dd', {}, foreign(value))])))
}

export async function gaps(call, other) {
  const svg = await text(of(call.id, `/gaps.svg${other ? `?other=${encodeURIComponent(other.id)}` : ''}`))
  const image = el('img.plot', { alt: `Distribution of gaps: half of them are at most ${seconds(call.summary.gapP50S)}, 99 % at most ${seconds(call.summary.gapP99S)}` })
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`
  const save = el('a.button', { href: image.src, download: 'gaps.svg' }, 'Save as SVG')
  return el('div.gaps', {}, image, el('p', {}, save))
}

const FIGURES = [
  ['first content', (s) => seconds(s.firstS)],
  ['duration', (s) => seconds(s.durationS)],
  ['gap p50', (s) => seconds(s.gapP50S)],
  ['gap p99', (s) => seconds(s.gapP99S)],
  ['longest silence', (s) => seconds(s.silenceS)],
  ['program busy', (s) => s.reads ? seconds(s.busyS) : '–'],
  ['tokens in / out', (s) => `${s.inputTokens ?? '–'} / ${s.outputTokens ?? '–'}`],
  ['tokens/s', (s) => s.tokensPerS?.toFixed(1) ?? '–'],
  ['cost', (s) => s.cost === null ? '–' : `$${s.cost.toPrecision(3)}`],
  ['events', (s) => s.events.toLocaleString('en')],
  ['reads', (s) => s.reads.toLocaleString('en')],
  ['bytes', (s) => s.bytes ? bytes(s.bytes) : '–'],
]

export function figures(summary) {
  return el('dl.figures', {}, FIGURES.map(([name, shown]) => el('div', {}, el('dt', {}, name), el('dd', {}, shown(summary)))))
}

/** Two calls on one axis of time, their figures and texts side by side. */
export async function compare(one, other) {
  await Promise.all([one.loadTexts(), other.loadTexts()])
  const span = Math.max(one.span, other.span)
  const names = [label(one.summary), label(other.summary)]
  const lanes = [one, other].map((call) => {
    const made = new Lanes({ select: () => {}, zoom: () => {} })
    made.show(call, span)
    return made.canvas
  })
  const texts = [one, other].map((call) => call.texts.filter(([, kind]) => kind === 'text').map(([, , value]) => value).join(''))
  const same = sharedPrefix(texts)
  return el('div.compare', {},
    el('h3', {}, 'On one axis of time'),
    lanes.map((canvas, place) => el('figure', {}, el('figcaption', {}, foreign(names[place])), canvas)),
    el('table', {},
      el('thead', {}, el('tr', {}, el('th', { scope: 'col' }, 'Figure'), names.map((name) => el('th', { scope: 'col' }, foreign(name))))),
      el('tbody', {},
        el('tr', {}, el('th', { scope: 'row' }, 'state'), [one, other].map((call) => el('td', {}, call.summary.state, call.summary.finishReason ? ` (${call.summary.finishReason})` : ''))),
        FIGURES.map(([name, shown]) => el('tr', {}, el('th', { scope: 'row' }, name), [one, other].map((call) => el('td', {}, shown(call.summary))))))),
    el('p', {}, texts[0] === texts[1] ? 'The texts are the same.' : `The texts are the same for ${count(same, 'character')}, then they differ.`),
    el('div.sides', {}, texts.map((value, place) => el('section', {}, el('h3', {}, foreign(names[place])),
      el('pre.prose', { tabindex: '0' }, el('span.same', {}, foreign(value.slice(0, Math.min(same, MOST_TEXT)))), foreign(value.slice(same, MOST_TEXT)))))))
}

function sharedPrefix([one, other]) {
  let at = 0
  while (at < one.length && at < other.length && one[at] === other[at]) at++
  return at
}

export function label(summary) {
  const model = summary.provider && summary.model ? `${summary.provider}:${summary.model}` : summary.model || summary.provider
  const copy = summary.id.includes('~') ? ` as ${summary.dialect}` : ''
  return `${model || summary.source}${copy}`
}

