import { h, ask, field, tell } from '../dom.js';
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
  { name: 'In/s', sort: 'received_rate', number: true, cell: row => number(row.received_rate), title: 'Messages a second from it' },
  { name: 'Out/s', sort: 'sent_rate', number: true, cell: row => number(row.sent_rate), title: 'Messages a second to it' },
];

// Which columns somebody has left out is their browser's to know.
const storedAs = 'martlet clients: columns left out';

function remembered() {
  try {
    return JSON.parse(localStorage.getItem(storedAs) ?? '[]').filter(name => columns.some(column => column.name === name));
  } catch {
    return [];
  }
}

function remember(left) {
  try {
    localStorage.setItem(storedAs, JSON.stringify([...left]));
  } catch {
    // A browser that stores nothing shows them again next time.
  }
}

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
  const picked = new Set();
  const disconnect = page.act('Disconnect', kick);
  function notePicked() {
    disconnect.textContent = picked.size === 0 ? 'Disconnect' : `Disconnect ${picked.size}`;
    if (!page.isAdmin) return;
    disconnect.disabled = picked.size === 0;
    disconnect.title = picked.size === 0 ? 'Pick clients first.' : '';
  }
  notePicked();

  const left = new Set(remembered());
  const place = h('div');
  let rows;
  function build() {
    rows = pagedTable(columns.filter(column => !left.has(column.name)), {
      caption: 'Clients', order, empty: 'No client is like that.',
      pick: page.isAdmin ? { name: row => row.clientid, picked, onpick: notePicked } : undefined,
      open: row => { location.hash = `#/clients/${encodeURIComponent(row.clientid)}`; },
      onorder: next => { order = next; keep(); },
    }, (sort, cursor) => api.get('clients', { ...asked(), sort, cursor, limit: 50 }));
    place.replaceChildren(rows.element);
  }
  build();
  const choice = h('details', { class: 'choice' }, h('summary', {}, 'Columns'), h('div', {}, columns.slice(1).map(({ name }) =>
    h('label', { class: 'tick' }, h('input', { type: 'checkbox', checked: !left.has(name), onchange: event => {
      if (event.target.checked) left.delete(name); else left.add(name);
      remember(left);
      build();
      page.guard(rows.reload);
    } }), name))));

  async function kick() {
    const names = Array.from(picked);
    const words = names.length === 1 ? '1 client' : `${number(names.length)} clients`;
    const answer = await ask({ title: `Disconnect ${words}?`, text: 'Most clients come back at once. Their sessions stay.', action: 'Disconnect',
      fields: [h('label', { class: 'tick' }, h('input', { type: 'checkbox', name: 'will', checked: true }), 'Publish their wills')] });
    if (answer === null) return;
    const outcomes = { done: 0, absent: 0, failed: 0 };
    const waiting = names.values();
    // A few at a time: a browser has few connections to one broker.
    await Promise.all(Array.from({ length: 4 }, async () => {
      for (const name of waiting) {
        try {
          await api.remove(api.path('clients', name, 'connection'), { will: answer.will !== undefined ? 'true' : 'false' });
          outcomes.done += 1;
        } catch (error) {
          outcomes[error.status === 404 || error.status === 409 ? 'absent' : 'failed'] += 1;
        }
      }
    }));
    picked.clear();
    notePicked();
    tell([`${number(outcomes.done)} disconnected`, outcomes.absent > 0 && `${number(outcomes.absent)} had no connection`,
      outcomes.failed > 0 && `${number(outcomes.failed)} could not be reached`].filter(Boolean).join(', ') + '.');
    page.guard(rows.reload);
  }

  const keep = () => page.keep({ ...asked(), sort: order === '-dropped' ? '' : order });

  let waiting;
  const form = h('form', { class: 'row', role: 'search', onsubmit: event => { event.preventDefault(); page.guard(rows.reload); },
    oninput: () => { clearTimeout(waiting); waiting = setTimeout(() => { keep(); page.guard(rows.reload); }, 250); } },
    field('Find', inputs.q, 'wide'), field('State', inputs.state), field('Address or network', inputs.address),
    field('Dropped at least', inputs.min_dropped), field('Queued at least', inputs.min_queue));
  page.onleave(() => clearTimeout(waiting));
  // Whoever has gone on to further pages reads; a new first page would take them away.
  page.every(5000, () => rows.isFirstPage() && !rows.element.contains(document.activeElement) && rows.reload());
  return [h('div', { class: 'title' }, h('h1', {}, 'Clients'), h('span', { class: 'spring' }), disconnect), h('section', { class: 'panel' }, form, choice, place)];
}
