// Renders Markdown as elements, never as HTML: tags that a model writes are shown as text.
//
// The dialect is that of chats: CommonMark's common part, tables, strikethrough, and a line break where the text
// has one. A text grows while it streams, so its top-level blocks are split first, and only blocks whose source
// has changed are parsed again.

import { html, Component } from './vendor/preact-htm.js'
import { CopyButton } from './copy.js'

const DEEPEST = 8
const LONGEST_INLINE = 8_000

/** grows: more of the text is to come */
export function Markdown({ text, grows = false }) {
  const sources = split(text)
  if (grows && sources.length) sources.push(begun(sources.pop()))
  return html`<div class="markdown">${sources.map((source, index) => html`<${Block} key=${index} source=${source} />`)}</div>`
}

/** The head of a table, whose next line is still to come, as a table: it would be shown as lines of bars till then. */
function begun(source) {
  const lines = source.split('\n')
  if (isListLine(lines[0]) || lines.some((line) => /^ {0,3}(`{3,}|~{3,})/.test(line))) return source
  if (/^ {0,3}\|$/.test(lines.at(-1)) && !lines.at(-2)?.includes('|')) return lines.slice(0, -1).join('\n')
  const head = lines.findLastIndex((line) => /^ {0,3}\|/.test(line) && /[^\s|:-]/.test(line))
  if (head < 0 || lines.length - head > 2 || lines[head - 1]?.includes('|')) return source
  if (lines.length - head === 2 && (!/^[\s|:-]*$/.test(lines.at(-1)) || isTable(lines[head], lines.at(-1)))) return source
  const marks = `|${'---|'.repeat(cells(lines[head]).length)}`
  return [...lines.slice(0, head + 1), marks].join('\n')
}

class Block extends Component {
  shouldComponentUpdate(next) {
    return next.source !== this.props.source
  }

  render({ source }) {
    return blocks(source.split('\n'), 0)
  }
}

/** Splits at blank lines, except inside of fences, lists and quotations. */
export function split(text) {
  const found = []
  let current = []
  let fence = ''
  let blank = false
  for (const line of text.split('\n')) {
    const mark = /^ {0,3}(`{3,}|~{3,})/.exec(line)?.[1]
    const continues = fence || (isListLine(current[0]) && (/^\s+\S/.test(line) || isListLine(line)))
    if (blank && current.length && line.trim() && !continues) {
      found.push(current.join('\n'))
      current = []
    }
    if (fence) {
      if (mark && mark[0] === fence[0] && mark.length >= fence.length && !line.trim().slice(mark.length)) fence = ''
    } else if (mark) fence = mark
    blank = !fence && !line.trim()
    current.push(line)
  }
  if (current.some((line) => line.trim())) found.push(current.join('\n'))
  return found
}

const LIST = /^(\s{0,12})([-*+]|\d{1,9}[.)])(?:\s+|$)/

function isListLine(line) {
  return line !== undefined && LIST.test(line) && !isRule(line)
}

function isRule(line) {
  return /^ {0,3}([-*_])(\s*\1){2,}\s*$/.test(line)
}

function blocks(lines, depth) {
  const out = []
  let at = 0
  while (at < lines.length) {
    const line = lines[at]
    if (!line.trim()) {
      at++
      continue
    }
    const reader = READERS.find((one) => one.matches(line, lines[at + 1]))
    const [node, next] = depth < DEEPEST && reader ? reader.read(lines, at, depth) : paragraph(lines, at)
    out.push(node)
    at = next
  }
  return out
}

const READERS = [
  { matches: (line) => /^ {0,3}(`{3,}|~{3,})/.test(line), read: fenced },
  { matches: (line) => /^ {0,3}#{1,6}(\s|$)/.test(line), read: heading },
  { matches: isRule, read: (lines, at) => [html`<hr />`, at + 1] },
  { matches: (line) => /^ {0,3}>/.test(line), read: quotation },
  { matches: isTable, read: table },
  { matches: isListLine, read: list },
]

function fenced(lines, at) {
  const [, indent, mark, language] = /^( {0,3})(`{3,}|~{3,})\s*([^\s`]*)/.exec(lines[at])
  const body = []
  let next = at + 1
  for (; next < lines.length; next++) {
    const end = /^ {0,3}(`{3,}|~{3,})\s*$/.exec(lines[next])?.[1]
    if (end && end[0] === mark[0] && end.length >= mark.length) break
    body.push(lines[next].startsWith(indent) ? lines[next].slice(indent.length) : lines[next].trimStart())
  }
  return [html`<${Code} language=${language} text=${body.join('\n')} />`, next + 1]
}

export function Code({ language, text }) {
  return html`<div class="code">
    <div class="code-head"><span>${language || 'text'}</span><${CopyButton} text=${text} /></div>
    <pre tabindex="0"><code>${text}</code></pre>
  </div>`
}

function heading(lines, at) {
  const [, marks, text] = /^ {0,3}(#{1,6})\s*(.*?)\s*#*\s*$/.exec(lines[at])
  // Two levels are above: the conversation, and its prompts and answers.
  return [html`<${`h${Math.min(6, marks.length + 2)}`}>${inline(text)}</>`, at + 1]
}

function quotation(lines, at, depth) {
  const body = []
  let next = at
  for (; next < lines.length && /^ {0,3}>/.test(lines[next]); next++) body.push(lines[next].replace(/^ {0,3}> ?/, ''))
  return [html`<blockquote>${blocks(body, depth + 1)}</blockquote>`, next]
}

function isTable(line, below) {
  return line.includes('|') && below !== undefined && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/.test(below)
    && below.includes('-') && cells(line).length === cells(below).length
}

function cells(line) {
  const row = line.trim().replace(/^\|/, '').replace(/(?<!\\)\|$/, '')
  return row.split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'))
}

function table(lines, at) {
  const head = cells(lines[at])
  const align = cells(lines[at + 1]).map((mark) => (mark.endsWith(':') ? (mark.startsWith(':') ? 'centre' : 'right') : ''))
  const rows = []
  let next = at + 2
  for (; next < lines.length && lines[next].includes('|'); next++) rows.push(cells(lines[next]))
  const row = (tag, found) => head.map((_, i) => html`<${tag} class=${align[i]}>${inline(found[i] ?? '')}</>`)
  return [
    html`<div class="table" tabindex="0"><table>
      <thead><tr>${row('th', head)}</tr></thead>
      <tbody>${rows.map((found) => html`<tr>${row('td', found)}</tr>`)}</tbody>
    </table></div>`,
    next,
  ]
}

function list(lines, at, depth) {
  const first = LIST.exec(lines[at])
  const ordered = /\d/.test(first[2])
  const items = []
  let next = at
  while (next < lines.length) {
    const found = isListLine(lines[next]) ? LIST.exec(lines[next]) : null
    if (!found || /\d/.test(found[2]) !== ordered || found[1].length > first[1].length + 3) break
    const width = found[0].length
    const body = [lines[next].slice(width)]
    for (next++; next < lines.length; next++) {
      const line = lines[next]
      const indent = line.length - line.trimStart().length
      if (line.trim() && indent <= first[1].length + (isListLine(line) ? 1 : 0)) {
        // A line without a mark, right below a text, continues it.
        if (isListLine(line) || !lines[next - 1].trim() || READERS.some((one) => one.matches(line, lines[next + 1]))) break
      }
      body.push(line.slice(Math.min(indent, width)))
    }
    items.push(body)
  }
  const rendered = items.map((body) => html`<li>${tight(body) ? inlineOf(body, depth) : blocks(body, depth + 1)}</li>`)
  if (!ordered) return [html`<ul>${rendered}</ul>`, next]
  return [html`<ol start=${Number.parseInt(first[2], 10)}>${rendered}</ol>`, next]
}

/** Whether an item is a text alone, perhaps with a list in it: such have no paragraphs. */
function tight(body) {
  const text = body.findIndex((line) => isListLine(line))
  const lead = text < 0 ? body : body.slice(0, text)
  return lead.every((line, i) => line.trim() ? !READERS.some((one) => one.matches(line, lead[i + 1])) : i === lead.length - 1)
}

function inlineOf(body, depth) {
  const at = body.findIndex((line) => isListLine(line))
  const lead = at < 0 ? body : body.slice(0, at)
  return [inline(lead.join('\n').trimEnd()), at < 0 ? null : blocks(body.slice(at), depth + 1)]
}

function paragraph(lines, at) {
  const body = [lines[at]]
  let next = at + 1
  for (; next < lines.length && lines[next].trim(); next++) {
    if (READERS.some((one) => one.matches(lines[next], lines[next + 1]))) break
    body.push(lines[next])
  }
  return [html`<p>${inline(body.map((line) => line.trim()).join('\n'))}</p>`, next]
}

// Spans, in order of precedence. Each is a pattern at the current position, and what it becomes.
const SPANS = [
  [/^\\([!-/:-@[-`{-~])/, (m) => m[1]],
  [/^(`+)(?!`)([^]*?[^`])\1(?!`)/, (m) => html`<code>${m[2].replace(/^ (.*[^ ].*) $/, '$1')}</code>`],
  [/^!\[([^\]]*)\]\(\s*<?([^\s()<>]*)>?[^)]*\)/, (m) => link(m[2], m[1] || m[2])],
  [/^\[((?:[^\[\]\\]|\\.|\[[^\]]*\])*)\]\(\s*<?((?:[^\s()<>]|\([^\s()]*\))*)>?(?:\s+["'(][^)]*)?\)/, (m) => link(m[2], inline(m[1]))],
  [/^<(https?:\/\/[^\s<>]+)>/, (m) => link(m[1], m[1])],
  [/^https?:\/\/[^\s<>()*|]*[^\s<>()*|.,;:!?'"\]]/, (m) => link(m[0], m[0])],
  [/^(\*\*|__)(?=\S)([^]*?\S)\1(?![*])/, (m) => html`<strong>${inline(m[2])}</strong>`],
  [/^~~(?=\S)([^]*?\S)~~/, (m) => html`<del>${inline(m[1])}</del>`],
  [/^\*(?=[^\s*])([^*]*?[^\s*])\*(?!\*)/, (m) => html`<em>${inline(m[1])}</em>`],
  [/^_(?=[^\s_])([^_]*?[^\s_])_(?![\p{L}\p{N}_])/u, (m) => html`<em>${inline(m[1])}</em>`],
  [/^ *\n/, () => html`<br />`],
]

const SPECIAL = /[\\`!\[<*_~\n]|https?:/

function inline(text) {
  if (text.length > LONGEST_INLINE) return text
  const out = []
  let rest = text
  let before = ''
  while (rest) {
    const at = rest.search(SPECIAL)
    if (at < 0) {
      out.push(rest)
      break
    }
    if (at) {
      out.push(rest.slice(0, at))
      before = rest[at - 1]
      rest = rest.slice(at)
    }
    const word = /[\p{L}\p{N}]/u.test(before)
    const span = SPANS.find(([pattern]) => !(word && /^_/.test(rest)) && pattern.test(rest))
    const match = span?.[0].exec(rest)
    out.push(match ? span[1](match) : rest[0])
    before = match ? match[0].at(-1) : rest[0]
    rest = rest.slice(match ? match[0].length : 1)
  }
  return out
}

/** A link that leaves the page only by a click; other schemes than these stay text. */
function link(address, children) {
  if (!/^(https?:\/\/|mailto:)/i.test(address)) return html`<span>${children}</span>`
  return html`<a href=${address} target="_blank" rel="noopener noreferrer nofollow" title=${address}>${children}</a>`
}
