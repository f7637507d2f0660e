// Elements and numbers. What was recorded only ever becomes text: there is no way to make HTML of it here.

/** Makes an element. Properties that begin with `on` are listeners; null and false children are left out. */
export function el(name, properties, ...children) {
  const [tag, ...classes] = name.split('.')
  const made = document.createElement(tag)
  if (classes.length) made.className = classes.join(' ')
  for (const [key, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue
    if (key.startsWith('on')) made.addEventListener(key.slice(2).toLowerCase(), value)
    else made.setAttribute(key, value === true ? '' : value)
  }
  made.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false))
  return made
}

/** Text of a stranger: isolated, so that its direction cannot turn what is around it. */
export function foreign(text, classes = '') {
  const made = document.createElement('bdi')
  if (classes) made.className = classes
  made.textContent = visible(text)
  return made
}

// Controls, and the characters that override directions, as pictures and code points.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g

export function visible(text) {
  return text.replace(HIDDEN, (char) => {
    const code = char.codePointAt(0)
    return code < 0x20 ? String.fromCodePoint(0x2400 + code) : `‹U+${code.toString(16).toUpperCase().padStart(4, '0')}›`
  })
}

export function seconds(value) {
  if (value === null || value === undefined) return '–'
  const size = Math.abs(value)
  if (size >= 100) return `${value.toFixed(0)} s`
  if (size >= 1) return `${value.toFixed(2)} s`
  if (size >= 0.001) return `${(value * 1e3).toFixed(size >= 0.1 ? 0 : 1)} ms`
  if (size >= 1e-6 || size === 0) return `${(value * 1e6).toFixed(0)} µs`
  return '< 1 µs'
}

export function clock(us) {
  return (us / 1e6).toFixed(us < 1e8 ? 4 : 2)
}

export function count(value, one, many = `${one}s`) {
  return `${value.toLocaleString('en')} ${value === 1 ? one : many}`
}

export function bytes(value) {
  if (value < 1024) return `${value} B`
  return value < 1048576 ? `${(value / 1024).toFixed(1)} KB` : `${(value / 1048576).toFixed(1)} MB`
}

export const STATES = { open: 'live', complete: 'complete', cut: 'cut', failed: 'failed', left: 'left' }

/** What a kind of event is about; each has a colour. */
export function family(kind) {
  if (kind.startsWith('text')) return 'text'
  if (kind.startsWith('reasoning')) return 'reasoning'
  if (kind.startsWith('tool')) return 'tool'
  return kind === 'error' ? 'error' : 'other'
}

/** The colour of a custom property, for a canvas; it depends on light and dark. */
export function color(name) {
  probe.style.color = `var(--${name})`
  if (!probe.isConnected) document.body.append(probe)
  return getComputedStyle(probe).color
}

const probe = document.createElement('span')
probe.hidden = true
