// Icons, as paths of 24 by 24 units.

import { html } from './vendor/preact-htm.js'

const PATHS = {
  alert: 'M12 8v5M12 16.5v.01M10.3 3.9 2.4 17.5A2 2 0 0 0 4.1 20.5h15.8a2 2 0 0 0 1.7-3L13.7 3.9a2 2 0 0 0-3.4 0Z',
  ban: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM5.7 5.7l12.6 12.6',
  check: 'm5 12.5 4.5 4.5L19 7.5',
  chevron: 'm9 6 6 6-6 6',
  close: 'M6 6l12 12M18 6 6 18',
  copy: 'M9 9h10v11H9zM15 9V4H5v11h4',
  down: 'M12 5v14M6 13l6 6 6-6',
  hand: 'M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM10 9v6M14 9v6',
  menu: 'M4 7h16M4 12h16M4 17h16',
  plus: 'M12 5v14M5 12h14',
  retry: 'M4 12a8 8 0 1 1 2.4 5.7M4 18v-4.5h4.5',
  send: 'M12 19V5M6 11l6-6 6 6',
  stop: 'M7 7h10v10H7z',
  thought: 'M9.5 18h5M10 21h4M12 3a6.2 6.2 0 0 0-3.7 11.2c.6.5 1 1.2 1 2V17h5.4v-.8c0-.8.4-1.5 1-2A6.2 6.2 0 0 0 12 3Z',
  tool: 'M14.5 6.5a4 4 0 0 1 5-3.4l-2.6 2.6.4 2 2 .4 2.6-2.6a4 4 0 0 1-5.3 5L8.4 18.7a2.1 2.1 0 0 1-3-3l8.2-8.2a4 4 0 0 1 .9-1Z',
  trash: 'M5 7h14M10 7V4.5h4V7M7 7l.8 12.5h8.4L17 7',
}

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false"><path d=${PATHS[name]} /></svg>`
}
