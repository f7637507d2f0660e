// An answer: its blocks, what went wrong, and what it took.

import { html, Component } from './vendor/preact-htm.js'
import { CopyButton } from './copy.js'
import { Icon } from './icons.js'
import { Code, Markdown } from './markdown.js'
import { Tool } from './tool.js'

export class Answer extends Component {
  shouldComponentUpdate(next) {
    return next.v !== this.props.v || next.last !== this.props.last || next.busy !== this.props.busy
  }

  render({ item, last, busy, actions }) {
    const { blocks, error, stopped, live, notice } = item
    const waiting = blocks.some((block) => block.state === 'waiting')
    return html`<article class="answer" aria-busy=${live}>
      <h2 class="offscreen">Answer</h2>
      ${blocks.map((block) => html`<${Part} key=${block.key} block=${block} v=${block.v} last=${last} busy=${busy} actions=${actions} />`)}
      ${live && html`<${Working} notice=${notice} blocks=${blocks} />`}
      ${stopped && html`<p class="note"><${Icon} name="ban" /> Stopped. What had arrived is above.</p>`}
      ${error && html`<${Failure} error=${error} last=${last} busy=${busy || live} onRetry=${actions.retry} />`}
      ${!live && !error && blocks.length === 0 && !stopped && html`<p class="note">The answer is empty.</p>`}
      ${!live && !waiting && html`<${Footer} item=${item} last=${last} busy=${busy} onRetry=${actions.retry} />`}
    </article>`
  }
}

class Part extends Component {
  shouldComponentUpdate(next) {
    return next.v !== this.props.v || next.last !== this.props.last || next.busy !== this.props.busy
  }

  render({ block, last, busy, actions }) {
    switch (block.kind) {
      case 'text': return html`<${Markdown} text=${block.text} grows=${block.open} />${block.incomplete && html`<${CutOff} />`}`
      case 'reasoning': return html`<${Reasoning} block=${block} />`
      case 'tool': return html`<${Tool} block=${block} last=${last} busy=${busy} actions=${actions} />`
      case 'source': return html`<${Source} block=${block} />`
      case 'file': return html`<${File} block=${block} />`
      case 'warning': return html`<p class="note"><${Icon} name="alert" /> ${block.text}</p>`
    }
  }
}

function CutOff() {
  return html`<p class="cut-off" title="The answer broke off here">incomplete</p>`
}

function Reasoning({ block }) {
  const lines = block.text.trim().split('\n')
  const newest = lines.at(-1)
  return html`<details class="reasoning">
    <summary>
      <${Icon} name="chevron" /><${Icon} name="thought" />
      <span class="label">${block.open ? 'Thinking' : 'Thought'}</span>
      ${block.open && html`<span class="newest">${newest}</span>`}
    </summary>
    <div class="body"><${Markdown} text=${block.text} grows=${block.open} />${block.incomplete && html`<${CutOff} />`}</div>
  </details>`
}

function Source({ block }) {
  const web = /^https?:\/\//i.test(block.url ?? '')
  return html`<p class="source">Source: ${web
    ? html`<a href=${block.url} target="_blank" rel="noopener noreferrer nofollow">${block.title}</a>` : block.title}</p>`
}

const SHOWN_IMAGES = /^image\/(png|jpeg|webp|gif)$/

function File({ block }) {
  const { mediaType, data } = block
  if (SHOWN_IMAGES.test(mediaType) && !data.includes(':')) {
    return html`<img class="file" src=${`data:${mediaType};base64,${data}`} alt="An image that the model made" />`
  }
  if (/^https?:/.test(data)) return html`<${Source} block=${{ url: data, title: `${mediaType} file` }} />`
  return html`<p class="note">A file of type ${mediaType}, ${Math.ceil(data.length * 0.75 / 1024)} KB</p>`
}

/** Says that more is to come, where no growing block says so itself. */
function Working({ notice, blocks }) {
  const last = blocks.at(-1)
  if (!notice && last && (last.open || last.state === 'running' || last.state === 'writing')) return null
  return html`<p class="working"><span class="dots" aria-hidden="true"><i /><i /><i /></span>${notice}</p>`
}

const TITLES = {
  'producer-lost': 'The server was stopped in the middle of this answer.',
  stopped: 'The server was stopped in the middle of this answer.',
  'connection-lost': 'The connection to the model broke.',
  'incomplete-stream': 'The answer broke off.',
  'rate-limited': 'Too many requests.',
}

function Failure({ error, last, busy, onRetry }) {
  const title = TITLES[error.code] ?? 'The answer failed.'
  const detail = error.message && !TITLES[error.code]?.startsWith('The server') ? error.message : 'What had arrived is above.'
  return html`<div class="failure" role="alert">
    <${Icon} name="alert" />
    <div><strong>${title}</strong><p>${detail}</p></div>
    ${last && html`<button type="button" class="button" disabled=${busy} onClick=${onRetry}><${Icon} name="retry" /> Retry</button>`}
  </div>`
}

function Footer({ item, last, busy, onRetry }) {
  const text = () => item.blocks.filter((block) => block.kind === 'text').map((block) => block.text).join('\n\n')
  return html`<footer>
    ${item.blocks.some((block) => block.kind === 'text') && html`<${CopyButton} text=${text} label="Copy the answer" />`}
    ${last && !item.error && html`<button type="button" class="quiet" disabled=${busy} onClick=${onRetry}
      aria-label="Ask again" title="Ask again"><${Icon} name="retry" /></button>`}
    <span class="usage">${facts(item).map((fact) => html`<span>${fact}</span>`)}</span>
  </footer>`
}

function facts({ model, usage, seconds, cost, finish }) {
  const count = (n) => n.toLocaleString('en')
  return [
    model,
    usage?.inputTokens > 0 && `${count(usage.inputTokens)} in`,
    usage?.outputTokens > 0 && `${count(usage.outputTokens)} out`,
    seconds >= 0.05 && `${seconds.toFixed(1)} s`,
    cost != null && (cost < 0.01 ? `$${cost.toFixed(5)}` : `$${cost.toFixed(3)}`),
    finish === 'length' && 'cut at the limit of tokens',
    finish === 'content-filter' && 'withheld by a content filter',
  ].filter(Boolean)
}
