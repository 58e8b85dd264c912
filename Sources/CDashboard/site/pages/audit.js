import { h } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';
import { date, number } from '../format.js';

export default function audit(page) {
  if (!page.isAdmin) return [h('div', { class: 'title' }, h('h1', {}, 'Audit')), h('p', { class: 'empty' }, 'Only administrators see the audit log.')];
  const rows = table([
    { name: 'Time', cell: row => date(row.at) }, { name: 'User', cell: row => row.who ?? '–' }, { name: 'Source', cell: row => `${row.from}${row.address ? `, ${row.address}` : ''}` },
    { name: 'Action', cell: row => h('span', { class: 'code' }, row.count ? `${row.operation}, ${number(row.count)}` : row.operation) }, { name: 'Target', cell: row => row.target ?? '–' },
    { name: 'Status', number: true, cell: row => h('span', { class: row.status >= 400 ? 'bad' : 'good' }, String(row.status)) }, { name: 'Duration, ms', number: true, cell: row => number(row.duration_ms) },
  ], { caption: 'Audit', empty: 'There are no entries.' });
  page.every(5000, async () => rows.show((await api.get('audit', { limit: 500 })).data));
  return [h('div', { class: 'title' }, h('h1', {}, 'Audit'), h('p', {}, 'Changes and refused requests, newest first.')), h('section', { class: 'panel' }, rows.element)];
}
