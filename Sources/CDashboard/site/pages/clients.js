import { h, ask, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { pagedTable } from '../table.js';
import { bytes, number, seconds, since } from '../format.js';
import { ban } from './bans.js';

export const clientLink = name => name === null || name === undefined ? '–' : h('a', { href: `#/clients/${encodeURIComponent(name)}` }, name === '' ? '(empty)' : name);
export const loud = (value, write = number) => value > 0 ? h('b', { class: 'warn' }, write(value)) : write(value);

// What a row has to have for a column is all that the broker is asked for.
const columns = [
  { name: 'Client', needs: [], sort: 'clientid', cell: row => clientLink(row.clientid) },
  { name: 'User', needs: ['username'], cell: row => row.username ?? '–' },
  { name: 'Status', needs: ['connected'], cell: row => row.connected ? h('span', { class: 'good still' }, '● connected') : h('span', { class: 'soft still' }, '○ disconnected') },
  { name: 'Address', needs: ['address'], cell: row => row.address ?? '–' },
  { name: 'Since', needs: ['connected', 'connected_at', 'disconnected_at'], sort: 'connected_at', cell: row => since(row.connected ? row.connected_at : row.disconnected_at) },
  { name: 'Dropped', needs: ['dropped'], sort: 'dropped', number: true, cell: row => loud(row.dropped.total), title: 'Messages to or from the client that were dropped' },
  { name: 'Queued', needs: ['queue_messages'], sort: 'queue_messages', number: true, cell: row => loud(row.queue_messages), title: 'Messages in its queue' },
  { name: 'Lag', needs: ['lag_ms'], sort: 'lag_ms', number: true, cell: row => row.lag_ms > 0 ? seconds(row.lag_ms / 1000) : '0', title: 'Age of the oldest message that is not sent yet' },
  { name: 'Output', needs: ['output_bytes'], sort: 'output_bytes', number: true, cell: row => bytes(row.output_bytes), title: 'Bytes in its output buffer' },
  { name: 'Subs', needs: ['subscriptions'], sort: 'subscriptions', number: true, cell: row => number(row.subscriptions) },
  { name: 'In/s', needs: ['received_rate'], sort: 'received_rate', number: true, cell: row => number(row.received_rate), title: 'Messages per second from the client' },
  { name: 'Out/s', needs: ['sent_rate'], sort: 'sent_rate', number: true, cell: row => number(row.sent_rate), title: 'Messages per second to the client' },
];

// What can be done with all that are picked, after one question.
const acts = [
  { label: count => count === 0 ? 'Disconnect' : `Disconnect ${number(count)}`, action: 'Disconnect', title: words => `Disconnect ${words}?`,
    text: 'Most clients reconnect at once. Their sessions stay.', done: 'disconnected', absent: 'not connected',
    fields: () => [h('label', { class: 'tick' }, h('input', { type: 'checkbox', name: 'will', checked: true }), 'Publish their wills')],
    act: (name, { will }) => api.remove(api.path('clients', name, 'connection'), { will: will !== undefined ? 'true' : 'false' }) },
  { label: count => count === 0 ? 'Ban' : `Ban ${number(count)}`, action: 'Ban', title: words => `Ban ${words}?`,
    text: 'They are disconnected and refused. Their sessions stay.', done: 'banned',
    fields: () => [field('Reason', h('input', { name: 'reason', maxlength: 1024 })), field('Hours', h('input', { name: 'hours', type: 'number', min: 1, max: 876000, placeholder: 'permanent' }))],
    act: (name, { reason, hours }) => ban('clientid', name, reason, hours) },
  { label: count => count === 0 ? 'End sessions' : count === 1 ? 'End 1 session' : `End ${number(count)} sessions`, action: 'End', title: words => `End the sessions of ${words}?`,
    text: 'Their subscriptions and queued messages are lost.', done: 'ended', absent: 'without a session', kind: 'danger', isFinal: true,
    act: name => api.remove(api.path('clients', name)) },
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
    q: h('input', { type: 'search', value: given('q'), placeholder: 'part of a client ID or user name' }),
    state: h('select', {}, [['', 'any'], ['connected', 'connected'], ['absent', 'disconnected']].map(([value, words]) => h('option', { value, selected: value === given('state') }, words))),
    address: h('input', { value: given('address'), placeholder: '10.0.0.0/8' }),
    min_dropped: h('input', { type: 'number', min: 0, value: given('min_dropped') }),
    min_queue: h('input', { type: 'number', min: 0, value: given('min_queue') }),
  };
  const asked = () => Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()]));
  const picked = new Set();
  const buttons = acts.map(act => page.act(act.label(0), () => perform(act), act.kind));
  function notePicked() {
    acts.forEach((act, index) => {
      const button = buttons[index];
      button.textContent = act.label(picked.size);
      if (!page.isAdmin) return;
      button.disabled = picked.size === 0;
      button.title = picked.size === 0 ? 'Select clients first.' : '';
    });
  }
  notePicked();
  // What could not be done stays to be read, and picked to be tried again.
  const trouble = h('div');

  const left = new Set(remembered());
  const place = h('div');
  let rows;
  function build() {
    const shown = columns.filter(column => !left.has(column.name));
    const fields = ['clientid', ...new Set(shown.flatMap(column => column.needs))].join(',');
    rows = pagedTable(shown, {
      caption: 'Clients', order, empty: 'No client matches.',
      pick: page.isAdmin ? { name: row => row.clientid, picked, onpick: notePicked } : undefined,
      open: row => { location.hash = `#/clients/${encodeURIComponent(row.clientid)}`; },
      onorder: next => { order = next; keep(); },
    }, (sort, cursor) => api.get('clients', { ...asked(), fields, sort, cursor, limit: 50 }));
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

  async function perform(act) {
    const names = Array.from(picked);
    const words = names.length === 1 ? '1 client' : `${number(names.length)} clients`;
    const answer = await ask({ title: act.title(words), text: act.text, action: act.action, fields: act.fields?.(), word: act.isFinal ? String(names.length) : undefined });
    if (answer === null) return;
    const failures = [];
    let done = 0, absent = 0;
    const waiting = names.values();
    // A few at a time: a browser has few connections to one broker.
    await Promise.all(Array.from({ length: 4 }, async () => {
      for (const name of waiting) {
        try {
          await act.act(name, answer);
          done += 1;
        } catch (error) {
          if (act.absent && (error.status === 404 || error.status === 409)) absent += 1; else failures.push([name, error.message]);
        }
      }
    }));
    for (const name of names) picked.delete(name);
    for (const [name] of failures) picked.add(name);
    notePicked();
    trouble.replaceChildren(...failures.length === 0 ? [] : [panel(`Not ${act.done}`, h('ul', { class: 'failures' }, failures.map(([name, why]) => h('li', {}, clientLink(name), `: ${why}`))))]);
    const first = failures.slice(0, 5).map(([name]) => name === '' ? '(empty)' : name).join(', ');
    tell([`${number(done)} ${act.done}`, absent > 0 && `${number(absent)} ${act.absent}`,
      failures.length > 0 && `${number(failures.length)} failed: ${first}${failures.length > 5 ? ' and others' : ''}`].filter(Boolean).join(', ') + '.');
    page.guard(rows.reload);
  }

  const keep = () => page.keep({ ...asked(), sort: order === '-dropped' ? '' : order });

  let waiting;
  const form = h('form', { class: 'row', role: 'search', onsubmit: event => { event.preventDefault(); page.guard(rows.reload); },
    oninput: () => { clearTimeout(waiting); waiting = setTimeout(() => { keep(); page.guard(rows.reload); }, 250); } },
    field('Search', inputs.q, 'wide'), field('Status', inputs.state), field('Address or network', inputs.address),
    field('Dropped at least', inputs.min_dropped), field('Queued at least', inputs.min_queue));
  page.onleave(() => clearTimeout(waiting));
  // Whoever has gone on to further pages reads; a new first page would take them away.
  page.every(5000, () => rows.isFirstPage() && !rows.element.contains(document.activeElement) && rows.reload());
  return [h('div', { class: 'title' }, h('h1', {}, 'Clients'), h('span', { class: 'spring' }), buttons), trouble, h('section', { class: 'panel' }, form, choice, place)];
}
