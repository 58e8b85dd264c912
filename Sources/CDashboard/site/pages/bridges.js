import { h, ask, facts, field, panel, select, tell } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';
import { bytes, compact, counted, date, number, seconds } from '../format.js';

const colour = { connected: 'good', waiting: 'warn', failed: 'bad' };
const status = row => [h('span', { class: colour[row.state] ?? 'soft' }, row.state), row.last_error && h('div', { class: 'soft' }, row.last_error)];
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
const warn = answer => { for (const words of answer.warnings ?? []) tell(words); };
const place = row => row.file === null ? 'added at run time' : `${row.file}:${row.line}`;

// What the form has fields for; all else is a line below it.
const simple = ['address', 'remote_username', 'remote_password', 'bridge_cafile', 'remote_clientid'];

/// The fields of a bridge, filled in with its options.
function form(before = {}) {
  const one = name => [before[name] ?? ''].flat()[0] ?? '';
  const isSimple = name => simple.includes(name) && [before[name]].flat().length === 1;
  const inputs = {
    address: h('input', { name: 'address', required: true, value: one('address'), placeholder: 'broker.example:1883' }),
    remote_username: h('input', { name: 'remote_username', autocomplete: 'off', value: one('remote_username') }),
    remote_password: h('input', { name: 'remote_password', type: 'password', autocomplete: 'new-password', placeholder: before.remote_password ? 'unchanged' : '' }),
    bridge_cafile: h('input', { name: 'bridge_cafile', value: one('bridge_cafile'), placeholder: 'no TLS' }),
    remote_clientid: h('input', { name: 'remote_clientid', value: one('remote_clientid'), placeholder: 'made by the broker' }),
  };
  const rows = h('div', { class: 'stack' });
  const topic = (line = '') => {
    const [filter = '', direction = 'out', qos = '0', ...prefixes] = line.split(/\s+/).filter(Boolean);
    const row = h('div', { class: 'row topic' }, field('Topic filter', h('input', { name: 'filter', value: filter, required: true, placeholder: 'plant/#' }), 'wide'),
      field('Direction', select([['out', 'out'], ['in', 'in'], ['both', 'both']], direction, { name: 'direction' })), field('QoS', select(['0', '1', '2'], qos, { name: 'qos' })),
      field('Local and remote prefix', h('input', { name: 'prefixes', value: prefixes.join(' '), placeholder: 'none' })),
      h('button', { type: 'button', class: 'plain', 'aria-label': 'Remove the topic', onclick: () => row.remove() }, '✕'));
    return row;
  };
  rows.append(...[before.topic ?? ['']].flat().map(topic));
  const rest = Object.fromEntries(Object.entries(before).filter(([name]) => name !== 'topic' && !isSimple(name)));
  const more = h('textarea', { name: 'more', rows: 4, spellcheck: 'false', value: lines(rest), placeholder: 'try_private false\nkeepalive_interval 60' });
  const fields = [field('Address of the other broker', inputs.address), h('fieldset', {}, h('legend', {}, 'Topics'), rows, h('div', {}, h('button', { type: 'button', class: 'plain', onclick: () => rows.append(topic()) }, 'Add a topic'))),
    field('User name', inputs.remote_username), field('Password', inputs.remote_password), field('CA file (TLS)', inputs.bridge_cafile), field('Client ID', inputs.remote_clientid),
    h('details', { class: 'more', open: Object.keys(rest).length > 0 }, h('summary', {}, 'More options'), field('As in a configuration file, one per line', more, 'wide'))];
  /// The options as they are to be. A password that was not typed stays as it is.
  function read() {
    const wanted = options(more.value);
    for (const [name, input] of Object.entries(inputs)) if (input.value.trim()) wanted[name] = [name === 'remote_password' ? input.value : input.value.trim()];
    wanted.topic = Array.from(rows.children, row => {
      const value = name => row.querySelector(`[name=${name}]`).value.trim();
      return [value('filter'), value('direction'), value('qos'), value('prefixes')].filter(Boolean).join(' ');
    });
    return wanted;
  }
  return { fields, read };
}

/// What may be done with a bridge; those of a file are changed there.
function actions(page, row, done) {
  const path = api.path('bridges', row.name);
  return h('div', { class: 'row' },
    page.act(row.paused ? 'Resume' : 'Pause', async () => { await api.post(`${path}/${row.paused ? 'resume' : 'pause'}`); await done(); }, 'plain'),
    row.file === null && page.act('Edit', async () => {
      const before = (await api.get(path)).options;
      const edit = form(before);
      if (await ask({ title: `Edit ${row.name}`, action: 'Save', fields: edit.fields }) === null) return;
      const wanted = edit.read();
      // What is masked stays as it is.
      const isMasked = name => String(before[name]).includes('***') && String(wanted[name]) === String(before[name]);
      for (const name of Object.keys(before)) if (isMasked(name) || (name === 'remote_password' && !wanted[name])) delete wanted[name]; else wanted[name] ??= null;
      warn(await api.patch(path, wanted));
      await done();
    }, 'plain'),
    row.file === null && page.act('Delete', async () => {
      if (await ask({ title: 'Delete the bridge?', text: `${counted(row.queue_messages, 'queued message')} will be lost.`, word: row.name, action: 'Delete' }) === null) return;
      await api.remove(path);
      if (page.segments.length > 1) location.hash = '#/bridges'; else await done();
    }, 'plain'));
}

/// One bridge.
function one(page, name) {
  const what = h('div', { class: 'stack' }), title = h('div', { class: 'title' }, h('h1', {}, name), h('p', {}, 'A bridge to another broker.'));
  async function show() {
    const row = await api.get(api.path('bridges', name));
    const both = (of, words = number) => `${words(row[`out_${of}`])} out, ${words(row[`in_${of}`])} in`;
    what.replaceChildren(panel('Status', actions(page, row, show), facts([['Status', status(row)], ['Address', row.address ?? '–'], ['Connected since', row.connected_at && date(row.connected_at)],
      ['Queued', `${counted(row.queue_messages, 'message')}, ${bytes(row.queue_bytes)}, ${number(row.queue_on_disk)} on disk`], ['Lag', seconds(row.lag_ms / 1000)],
      ['Messages per second', both('rate')], ['Messages', both('messages')], ['Bytes', both('bytes', bytes)], ['Dropped', both('dropped')], ['Times connected', number(row.connections)], ['Defined in', place(row)],
      ...(row.each_connection.length > 1 ? row.each_connection.map(each => [`Connection ${each.number}`, `${each.state}, ${number(each.queue_messages)} queued, ${compact(each.out_rate)} out per second${each.last_error ? `: ${each.last_error}` : ''}`]) : [])])),
      panel('Options', h('pre', { class: 'payload' }, row.options ? lines(row.options) : 'Only administrators see them.')));
  }
  page.every(2000, () => what.querySelector('button:active, button:focus-visible') ? undefined : show());
  return [title, what];
}

export default function bridges(page) {
  if (page.segments[1] !== undefined) return one(page, page.segments[1]);
  const kept = h('p', { class: 'soft', hidden: true }, 'This broker has no persistence: changes made here are lost when it restarts.');
  const rows = table([
    { name: 'Bridge', cell: row => h('a', { href: `#/${api.path('bridges', row.name)}` }, row.name) }, { name: 'Status', cell: status }, { name: 'Address', cell: row => row.address ?? '–' },
    { name: 'Queued', number: true, cell: row => `${compact(row.queue_messages)} (${bytes(row.queue_bytes)})` }, { name: 'Lag', number: true, cell: row => seconds(row.lag_ms / 1000) },
    { name: 'Out/s', number: true, cell: row => compact(row.out_rate) }, { name: 'In/s', number: true, cell: row => compact(row.in_rate) }, { name: 'Actions', cell: row => actions(page, row, list) },
  ], { caption: 'Bridges', empty: 'There are no bridges.' });
  async function list() {
    const answer = await api.get('bridges');
    rows.show(answer.data);
    kept.hidden = answer.kept;
  }
  const add = page.act('Add a bridge', async () => {
    const made = form();
    const values = await ask({ title: 'Add a bridge', action: 'Add', fields: [field('Name', h('input', { name: 'name', required: true, maxlength: 255 })), ...made.fields] });
    if (values === null) return;
    warn(await api.post('bridges', { ...made.read(), name: values.name }));
    await list();
  });
  page.every(2000, () => rows.element.querySelector('button:active, button:focus-visible') ? undefined : list());
  return [h('div', { class: 'title' }, h('h1', {}, 'Bridges'), h('p', {}, 'Connections to other brokers that messages are exchanged with.')), panel('Bridges', kept, rows.element, h('div', { class: 'row' }, add))];
}
