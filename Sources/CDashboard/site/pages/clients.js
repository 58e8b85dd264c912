import { h, field, panel } from '../dom.js';
import * as api from '../api.js';
import { pagedTable } from '../table.js';
import { bytes, number, seconds, since } from '../format.js';

export const clientLink = name => name === null || name === undefined ? '–' : h('a', { href: `#/clients/${encodeURIComponent(name)}` }, name === '' ? '(empty)' : name);
export const loud = (value, write = number) => value > 0 ? h('b', { class: 'warn' }, write(value)) : write(value);

const columns = [
  { name: 'Client', sort: 'clientid', cell: row => clientLink(row.clientid) },
  { name: 'User', cell: row => row.username ?? '–' },
  { name: 'State', cell: row => row.connected ? h('span', { class: 'good still' }, '● connected') : h('span', { class: 'soft still' }, '○ absent') },
  { name: 'Address', cell: row => row.address ?? '–' },
  { name: 'Since', sort: 'connected_at', cell: row => since(row.connected ? row.connected_at : row.disconnected_at) },
  { name: 'Dropped', sort: 'dropped', number: true, cell: row => loud(row.dropped.total), title: 'Messages that were meant for it, or came from it, and were dropped' },
  { name: 'Queued', sort: 'queue_messages', number: true, cell: row => loud(row.queue_messages), title: 'Messages that wait to be sent' },
  { name: 'Lag', sort: 'lag_ms', number: true, cell: row => row.lag_ms > 0 ? seconds(row.lag_ms / 1000) : '0', title: 'Age of the oldest message that is not written yet' },
  { name: 'Output', sort: 'output_bytes', number: true, cell: row => bytes(row.output_bytes), title: 'Bytes that its connection has not taken' },
  { name: 'Subs', sort: 'subscriptions', number: true, cell: row => number(row.subscriptions) },
  { name: 'In', number: true, cell: row => number(row.received_messages) },
  { name: 'Out', number: true, cell: row => number(row.sent_messages) },
];

export default function clients(page) {
  const given = name => page.parameters.get(name) ?? '';
  let order = given('sort') || '-dropped';
  const inputs = {
    q: h('input', { type: 'search', value: given('q'), placeholder: 'part of an id or user' }),
    state: h('select', {}, [['', 'any'], ['connected', 'connected'], ['absent', 'absent']].map(([value, words]) => h('option', { value, selected: value === given('state') }, words))),
    address: h('input', { value: given('address'), placeholder: '10.0.0.0/8' }),
    min_dropped: h('input', { type: 'number', min: 0, value: given('min_dropped') }),
    min_queue: h('input', { type: 'number', min: 0, value: given('min_queue') }),
  };
  const asked = () => Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
  const rows = pagedTable(columns, {
    caption: 'Clients', order, empty: 'No client is like that.',
    open: row => { location.hash = `#/clients/${encodeURIComponent(row.clientid)}`; },
    onorder: next => { order = next; keep(); },
  }, (sort, cursor) => api.get('clients', { ...asked(), sort, cursor, limit: 50 }));
  const keep = () => page.keep({ ...asked(), sort: order === '-dropped' ? '' : order });

  let waiting;
  const form = h('form', { class: 'row', role: 'search', onsubmit: event => { event.preventDefault(); page.guard(rows.reload); },
    oninput: () => { clearTimeout(waiting); waiting = setTimeout(() => { keep(); page.guard(rows.reload); }, 250); } },
    field('Find', inputs.q, 'wide'), field('State', inputs.state), field('Address or network', inputs.address),
    field('Dropped at least', inputs.min_dropped), field('Queued at least', inputs.min_queue));
  page.onleave(() => clearTimeout(waiting));
  // Whoever has gone on to further pages reads; a new first page would take them away.
  page.every(5000, () => rows.isFirstPage() && !rows.element.contains(document.activeElement) && rows.reload());
  return [h('div', { class: 'title' }, h('h1', {}, 'Clients')), h('section', { class: 'panel' }, form, rows.element)];
}
