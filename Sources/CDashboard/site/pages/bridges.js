import { h, ask, facts, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';
import { bytes, compact, date, number, seconds } from '../format.js';

const colour = { connected: 'good', waiting: 'warn', failed: 'bad' };
const state = row => [h('span', { class: colour[row.state] ?? 'soft' }, row.state), row.last_error && h('div', { class: 'soft' }, row.last_error)];
/// Options as the lines of a section, and back: of an option that is there twice, a list.
const lines = options => Object.entries(options).flatMap(([name, values]) => [values].flat().map(value => `${name} ${value}`)).join('\n');
function options(text) {
  const found = {};
  for (const line of text.split('\n').map(line => line.trim()).filter(line => line && !line.startsWith('#'))) {
    const name = line.split(/\s/, 1)[0];
    (found[name] ??= []).push(line.slice(name.length).trim());
  }
  return found;
}
const section = (name, value = '') => field('Options, as below “connection” in a configuration file',
  h('textarea', { name, value, required: true, rows: 8, spellcheck: 'false', placeholder: 'address broker.example:1883\ntopic plant/# out 1\nremote_username house\nremote_password …' }), 'wide');
const warn = answer => { for (const words of answer.warnings ?? []) tell(words); };
const place = row => row.file === null ? 'added while the broker ran' : `${row.file}, line ${row.line}`;

/// What may be done with a bridge; those of a file are changed there.
function actions(page, row, done) {
  const path = api.path('bridges', row.name);
  return h('div', { class: 'row' },
    page.act(row.paused ? 'Resume' : 'Pause', async () => { await api.post(`${path}/${row.paused ? 'resume' : 'pause'}`); await done(); }, 'plain'),
    row.file === null && page.act('Change', async () => {
      const before = (await api.get(path)).options;
      const values = await ask({ title: `Change ${row.name}`, action: 'Change', fields: [section('text', lines(before))] });
      if (values === null) return;
      const wanted = options(values.text);
      // What is masked stays as it is.
      for (const name of Object.keys(before)) if (wanted[name]?.[0] === '***') delete wanted[name]; else wanted[name] ??= null;
      warn(await api.patch(path, wanted));
      await done();
    }, 'plain'),
    row.file === null && page.act('Remove', async () => {
      if (await ask({ title: 'Remove the bridge?', text: `${number(row.queue_messages)} messages that wait for it are lost.`, word: row.name, action: 'Remove' }) === null) return;
      await api.remove(path);
      if (page.segments.length > 1) location.hash = '#/bridges'; else await done();
    }, 'plain'));
}

/// One bridge.
function one(page, name) {
  const what = h('div'), title = h('div', { class: 'title' }, h('h1', {}, name), h('p', {}, 'A bridge to another broker.'));
  async function show() {
    const row = await api.get(api.path('bridges', name));
    const both = (of, words = number) => `${words(row[`out_${of}`])} out, ${words(row[`in_${of}`])} in`;
    what.replaceChildren(panel('How it is', actions(page, row, show), facts([['State', state(row)], ['Address', row.address ?? '–'], ['Connected since', row.connected_at && date(row.connected_at)],
      ['Waiting', `${number(row.queue_messages)} messages, ${bytes(row.queue_bytes)}, ${number(row.queue_on_disk)} on disk`], ['Lag', seconds(row.lag_ms / 1000)],
      ['Messages a second', both('rate')], ['Messages', both('messages')], ['Bytes', both('bytes', bytes)], ['Not carried', both('dropped')], ['Connections made', number(row.connections)], ['Stands in', place(row)],
      ...(row.each_connection.length > 1 ? row.each_connection.map(each => [`Connection ${each.number}`, `${each.state}, ${number(each.queue_messages)} waiting, ${compact(each.out_rate)} out a second${each.last_error ? `: ${each.last_error}` : ''}`]) : [])])),
      panel('Options', h('pre', { class: 'payload' }, row.options ? lines(row.options) : 'Only administrators see them.')));
  }
  page.every(2000, () => what.querySelector('button:active, button:focus-visible') ? undefined : show());
  return [title, what];
}

export default function bridges(page) {
  if (page.segments[1] !== undefined) return one(page, page.segments[1]);
  const kept = h('p', { class: 'soft', hidden: true }, 'This broker has no persistence: what is done here ends with it.');
  const rows = table([
    { name: 'Bridge', cell: row => h('a', { href: `#/${api.path('bridges', row.name)}` }, row.name) }, { name: 'State', cell: state }, { name: 'To', cell: row => row.address ?? '–' },
    { name: 'Waiting', number: true, cell: row => `${compact(row.queue_messages)} (${bytes(row.queue_bytes)})` }, { name: 'Lag', number: true, cell: row => seconds(row.lag_ms / 1000) },
    { name: 'Out/s', number: true, cell: row => compact(row.out_rate) }, { name: 'In/s', number: true, cell: row => compact(row.in_rate) }, { name: 'What to do', cell: row => actions(page, row, list) },
  ], { caption: 'Bridges', empty: 'There is no bridge.' });
  async function list() {
    const answer = await api.get('bridges');
    rows.show(answer.data);
    kept.hidden = answer.kept;
  }
  const add = page.act('Add a bridge', async () => {
    const values = await ask({ title: 'Add a bridge', action: 'Add', fields: [field('Name', h('input', { name: 'name', required: true, maxlength: 255 })), section('text')] });
    if (values === null) return;
    warn(await api.post('bridges', { ...options(values.text), name: values.name }));
    await list();
  });
  page.every(2000, () => rows.element.querySelector('button:active, button:focus-visible') ? undefined : list());
  return [h('div', { class: 'title' }, h('h1', {}, 'Bridges'), h('p', {}, 'Other brokers that this one exchanges messages with.')), panel('Bridges', kept, rows.element, h('div', { class: 'row' }, add))];
}
