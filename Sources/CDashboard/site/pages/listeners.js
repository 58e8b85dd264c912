import { h, panel } from '../dom.js';
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
  page.every(5000, async () => rows.show((await api.get('listeners')).data));
  return [h('div', { class: 'title' }, h('h1', {}, 'Listeners')), h('section', { class: 'panel' }, rows.element)];
}
