import { h, ask, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';
import { date, number } from '../format.js';

export default function listeners(page) {
  const yes = value => value ? 'yes' : 'no';
  const rows = table([
    { name: 'Listener', cell: row => row.name }, { name: 'Protocol', cell: row => row.protocol }, { name: 'Address', cell: row => row.path ?? `${row.address ?? '*'}:${row.port}` },
    { name: 'TLS', cell: row => row.tls ? row.mtls ? 'yes, with client certificates' : 'yes' : 'no' }, { name: 'Without password', cell: row => yes(row.allow_anonymous) },
    { name: 'Connections', number: true, cell: row => `${number(row.connections)}${row.max_connections === null ? '' : ` of ${number(row.max_connections)}`}` },
    { name: 'Certificate ends', cell: row => row.certificate?.not_after ? date(row.certificate.not_after) : '–' },
  ], { caption: 'Listeners' });
  const drained = h('p', { role: 'status' });
  async function showDrain() {
    const { drain } = await api.get('broker');
    drained.replaceChildren(drain === null ? 'Clients are let in.' : drain.state === 'drained' ? 'No client is left, and none is let in.' : `Clients are sent away; ${number(drain.connections_left)} connections are left.`);
  }
  async function drain() {
    const answer = await ask({ title: 'Send all clients away?', text: 'Nobody is let in until this is undone. Sessions stay.', word: 'drain', action: 'Drain',
      fields: [field('Another server, for clients of 5.0', h('input', { name: 'reference', placeholder: 'none' })), field('Clients a second', h('input', { name: 'rate', type: 'number', min: 1, max: 1000000, value: 1000, required: true }))] });
    if (answer === null) return;
    await api.post('drain', { per_second: Number(answer.rate), ...answer.reference ? { server_reference: answer.reference } : {} });
    await showDrain();
  }
  async function undo() {
    await api.remove('drain');
    tell('Clients are let in again.');
    await showDrain();
  }
  page.every(3000, showDrain);
  page.every(5000, async () => rows.show((await api.get('listeners')).data));
  return [h('div', { class: 'title' }, h('h1', {}, 'Listeners')), h('section', { class: 'panel' }, rows.element),
    panel('Maintenance', h('div', { class: 'row' }, drained, h('span', { class: 'spring' }), page.act('Drain', drain, 'danger'), page.act('Let clients in', undo)))];
}
