import { h, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';
import { bytes, clock, number } from '../format.js';

/// Lines as they come: the newest below, kept in sight unless the reader has scrolled up.
function lines(label) {
  const element = h('div', { class: 'log code', role: 'log', 'aria-label': label, tabindex: 0 });
  return { element, add(text, kind = '') {
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
    element.append(h('div', { class: kind }, text));
    while (element.children.length > 1000) element.firstChild.remove();
    if (isAtEnd) element.scrollTop = element.scrollHeight;
  }, clear: () => element.replaceChildren() };
}

const kinds = { error: 'bad', warning: 'warn' };
const logWords = line => `${clock(line.at)}  ${line.level.padEnd(11)}  ${line.message}`;
const packetWords = event => typeof event === 'string' ? event : event.line ?? Object.values(event).join('  ');

export default function trace(page) {
  const shown = lines('Trace'), log = lines('Log');
  let end = null;
  const kind = h('select', {}, [['clientid', 'client'], ['topic', 'topic filter'], ['address', 'address']].map(([value, words]) => h('option', { value }, words)));
  const who = h('input', { required: true, value: page.parameters.get('clientid') ?? '' });
  const minutes = h('input', { type: 'number', min: 1, max: 1440, value: '10' });
  const payloads = h('select', {}, ['none', 'text', 'hex'].map(value => h('option', { value }, value)));
  const rows = table([
    { name: 'Of', cell: row => row.clientid ?? row.topic ?? row.address }, { name: 'Until', cell: row => clock(row.until) }, { name: 'State', cell: row => row.state },
    { name: 'Lines', number: true, cell: row => number(row.lines) }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
    { name: '', cell: row => [h('button', { type: 'button', class: 'plain', onclick: () => watch(row) }, 'Show'), h('a', { href: api.href(api.path('traces', row.id, 'download')), download: `trace-${row.id}.ndjson` }, 'Download'),
      page.act('Delete', async () => { await api.remove(api.path('traces', row.id)); list(); }, 'plain')] },
  ], { caption: 'Traces', empty: 'No trace runs.' });
  const list = async () => { if (page.isAdmin) rows.show((await api.get('traces')).data); };
  function watch(row) {
    end?.();
    shown.clear();
    end = page.listen(api.path('traces', row.id, 'stream'), {}, { message: event => shown.add(packetWords(event)), packet: event => shown.add(packetWords(event)) });
  }
  const form = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
    const made = await api.post('traces', { [kind.value]: who.value, payload: payloads.value, until: new Date(Date.now() + minutes.value * 60e3).toISOString() });
    await list();
    watch(made);
  }); } }, field('Trace a', kind), field('Name', who, 'wide'), field('Minutes', minutes), field('Payloads', payloads),
    h('button', { class: 'first', disabled: !page.isAdmin, title: page.isAdmin ? null : 'Only administrators may do this.' }, 'Start'));
  page.every(5000, list);

  const types = h('div', { class: 'row' });
  page.guard(async () => {
    if (!page.isAdmin) return log.add('Only administrators may read the log.', 'soft');
    for (const line of (await api.get('log', { lines: 200 })).data) log.add(logWords(line), kinds[line.level]);
    page.listen('log/stream', {}, { message: line => log.add(logWords(line), kinds[line.level]), line: line => log.add(logWords(line), kinds[line.level]) });
    const on = new Set((await api.get('log/types')).types);
    types.replaceChildren(...['error', 'warning', 'notice', 'information', 'subscribe', 'unsubscribe', 'websockets', 'internal', 'debug'].map(type =>
      h('label', { class: 'tick' }, h('input', { type: 'checkbox', checked: on.has(type), onchange: event => page.guard(async () => {
        if (event.target.checked) on.add(type); else on.delete(type);
        await api.put('log/types', { types: [...on] });
        tell('Until the configuration is read again.');
      }) }), type)));
  });
  return [h('div', { class: 'title' }, h('h1', {}, 'Trace and log')), panel('Traces', form, rows.element, shown.element), panel('Log', types, log.element)];
}
