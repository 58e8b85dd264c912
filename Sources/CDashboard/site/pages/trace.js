import { h, field, panel } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';
import { bytes, clock, number } from '../format.js';
import { lines } from './log.js';

const shownBefore = new Set(['at', 'type', 'direction', 'packet', 'what', 'clientid', 'topic']);
const state = { running: 'good', full: 'warn' };

/// The time of day to the millisecond, what it is, of whom, and what else there is of it.
function words(line) {
  const what = line.type === 'packet' ? `${line.direction === 'in' ? '←' : '→'} ${line.packet}` : `· ${line.what ?? line.type}`;
  const more = Object.entries(line).filter(([name, value]) => !shownBefore.has(name) && value !== null).map(([name, value]) => `${name}=${value}`);
  return [line.at.slice(11, 23), what.padEnd(13), line.clientid ?? '–', line.topic, ...more].filter(Boolean).join('  ');
}
/// With a way to the client.
const linked = line => line.clientid ? [words(line), '  ', h('a', { href: `#/clients/${encodeURIComponent(line.clientid)}` }, 'Client')] : [words(line)];
const isBad = line => line.type === 'lost' || line.what === 'dropped' || line.error;

export default function trace(page) {
  if (!page.isAdmin) return [h('div', { class: 'title' }, h('h1', {}, 'Trace')), h('p', { class: 'empty' }, 'Only administrators may trace.')];
  const shown = lines('Trace'), heading = h('h2', {}, 'No trace selected');
  let end = null, current = null;
  const kind = h('select', {}, [['clientid', 'client'], ['topic', 'topic filter'], ['address', 'address or network']].map(([value, name]) => h('option', { value }, name)));
  const who = h('input', { required: true, value: page.parameters.get('clientid') ?? '' });
  const minutes = h('input', { type: 'number', min: 1, max: 1440, value: '10' });
  const payloads = h('select', { disabled: !page.session.payloads }, ['none', 'text', 'hex'].map(value => h('option', { value }, value)));
  const rows = table([
    { name: 'Subject', cell: row => h('span', { class: 'code' }, row.clientid ?? row.topic ?? row.address) },
    { name: 'Status', cell: row => h('span', { class: state[row.state] ?? 'soft' }, row.state) }, { name: 'Ends', cell: row => clock(row.until) },
    { name: 'Lines', number: true, cell: row => number(row.lines) }, { name: 'Lost', number: true, cell: row => number(row.lost) }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
    { name: 'Actions', cell: row => h('div', { class: 'row' }, h('button', { type: 'button', class: 'plain', onclick: () => watch(row) }, 'Show'),
      h('a', { href: api.href(api.path('traces', row.id, 'download')), download: `trace-${row.id}.ndjson` }, 'Download'),
      page.act(row.state === 'running' ? 'Stop and delete' : 'Delete', async () => {
        await api.remove(api.path('traces', row.id));
        if (current === row.id) { end?.(); end = null; heading.textContent = 'No trace selected'; }
        list();
      }, 'plain')) },
  ], { caption: 'Traces', empty: 'There are no traces.' });
  const list = async () => rows.show((await api.get('traces')).data);
  function watch(row) {
    end?.();
    shown.clear();
    current = row.id;
    heading.textContent = row.clientid ?? row.topic ?? row.address;
    end = page.listen(api.path('traces', row.id, 'stream'), {}, { line: line => shown.add(linked(line), isBad(line) ? 'warn' : ''), end: () => { end?.(); page.guard(list); } });
  }
  const form = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
    const made = await api.post('traces', { [kind.value]: who.value, payload: payloads.value, until: new Date(Date.now() + minutes.value * 60e3).toISOString() });
    await list();
    watch(made);
  }); } }, field('Type', kind), field('Value', who, 'wide'), field('Minutes', minutes), field('Payloads', payloads), h('button', { class: 'first' }, 'Start'));
  page.every(3000, list);
  return [h('div', { class: 'title' }, h('h1', {}, 'Trace')),
    panel('Traces', h('p', { class: 'soft' }, 'Records every packet of a client or address, or what happens to each message of a topic.'), form, rows.element),
    h('section', { class: 'panel' }, heading, shown.element)];
}
