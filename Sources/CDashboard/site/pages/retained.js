import { h, ask, facts, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { pagedTable } from '../table.js';
import { bytes, date, number, payload } from '../format.js';
import { clientLink } from './clients.js';

// Of names with numbers, 2 comes before 12.
const inOrder = new Intl.Collator('en', { numeric: true });

export default function retained(page) {
  const filter = h('input', { value: page.parameters.get('filter') ?? '', placeholder: '#' });
  const shown = h('div');
  const asked = () => filter.value || '#';
  const rows = pagedTable([
    { name: 'Topic', cell: row => h('a', { href: '#', class: 'code', onclick: event => { event.preventDefault(); page.guard(() => open(row.topic)); } }, row.topic) },
    { name: 'QoS', number: true, cell: row => number(row.qos) }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
    { name: 'Expires', cell: row => row.expires_at ? date(row.expires_at) : 'never' }, { name: 'Publisher', cell: row => clientLink(row.publisher) },
  ], { caption: 'Retained messages', empty: 'No retained message matches.', compare: (one, other) => inOrder.compare(one.topic, other.topic) }, (_, cursor) => api.get('retained', { filter: asked(), cursor, limit: 1000 }));

  async function open(topic) {
    const message = await api.get('retained/message', { topic });
    const properties = Object.entries(message.properties).filter(([, value]) => value !== null);
    shown.replaceChildren(panel(message.topic, facts([['QoS', number(message.qos)], ['Size', bytes(message.bytes)],
      ...properties.map(([name, value]) => [name.replaceAll('_', ' '), typeof value === 'object' ? JSON.stringify(value) : String(value)])]),
      message.payload === null ? h('p', { class: 'empty' }, 'You may not see payloads; see martlet_http_payloads.') : h('pre', { class: 'payload', tabindex: 0 }, payload(message.payload)),
      h('div', { class: 'row' }, page.act('Delete', () => remove(topic), 'danger'))));
    shown.firstChild.scrollIntoView({ block: 'nearest' });
  }

  // Looks first how many there are, so that nobody deletes more than meant.
  async function remove(what) {
    const { removed } = await api.remove('retained', { filter: what, dry_run: 'true' });
    if (removed === 0) return tell('No retained message matches.');
    const answer = await ask({ title: `Delete ${number(removed)} retained ${removed === 1 ? 'message' : 'messages'}?`, text: 'This cannot be undone.', word: what, action: 'Delete' });
    if (answer === null) return;
    const done = await api.remove('retained', { filter: what });
    tell(`${number(done.removed)} deleted.`);
    shown.replaceChildren();
    page.guard(rows.reload);
  }

  page.guard(rows.reload);
  return [
    h('div', { class: 'title' }, h('h1', {}, 'Retained')),
    h('section', { class: 'panel' }, h('form', { class: 'row', role: 'search', onsubmit: event => { event.preventDefault(); page.keep({ filter: filter.value }); page.guard(rows.reload); } },
      field('Filter', filter, 'wide'), h('button', { class: 'first' }, 'Show'), page.act('Delete all that match', () => remove(asked()), 'danger')), rows.element),
    shown,
  ];
}
