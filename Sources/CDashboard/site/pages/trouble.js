import { h, panel } from '../dom.js';
import * as api from '../api.js';
import { pagedTable, table } from '../table.js';
import { bytes, clock, date, number, seconds } from '../format.js';
import { clientLink, loud } from './clients.js';

const worst = (page, title, empty, sort, key, write, least) => {
  const rows = table([
    { name: 'Client', cell: row => clientLink(row.clientid) }, { name: title, number: true, cell: row => loud(key(row), write) },
    { name: 'Address', cell: row => row.address ?? '–' },
  ], { caption: title, empty, open: row => { location.hash = `#/clients/${encodeURIComponent(row.clientid)}`; } });
  page.every(5000, async () => rows.show((await api.get('clients', { sort, limit: 8, ...least })).data.filter(row => key(row) > 0)));
  return rows.element;
};

export default function trouble(page) {
  const reasons = h('dl', { class: 'tiles' });
  page.every(2000, async () => {
    const { dropped } = await api.get('stats');
    const rows = Object.entries(dropped).filter(([reason]) => reason !== 'total');
    reasons.replaceChildren(...rows.map(([reason, count]) => h('div', { class: `tile ${count > 0 ? 'warn' : ''}` }, h('dt', {}, reason.replaceAll('_', ' ')), h('dd', {}, number(count)))));
  });
  const drops = table([
    { name: 'Time', cell: row => clock(row.at) }, { name: 'Client', cell: row => clientLink(row.clientid) }, { name: 'Topic', cell: row => h('span', { class: 'code' }, row.topic) },
    { name: 'Reason', cell: row => row.reason.replaceAll('_', ' ') }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
  ], { caption: 'Recent drops', empty: 'No message was dropped.' });
  const why = counts => Object.entries(counts).filter(([reason, count]) => reason !== 'total' && count > 0).map(([reason, count]) => `${number(count)} ${reason.replaceAll('_', ' ')}`).join(', ');
  const sums = (title, cell, empty) => table([
    { name: title, cell }, { name: 'Dropped', number: true, cell: row => loud(row.dropped.total) }, { name: 'Reason', cell: row => why(row.dropped) },
  ], { caption: `Dropped by ${title.toLowerCase()}`, empty });
  const byTopic = sums('Topics', row => h('span', { class: 'code' }, row.prefix === null ? '(others)' : row.prefix), 'No message was dropped.');
  const byListener = sums('Listener', row => row.listener, 'No message of a listener was dropped.');
  page.every(3000, async () => {
    const answer = await api.get('drops', { limit: 100 });
    drops.show(answer.data);
    byTopic.show(answer.by_prefix.slice(0, 20));
    byListener.show(answer.by_listener);
  });

  const closed = refused => pagedTable([
    { name: 'Time', cell: row => date(row.to) }, { name: 'Client', cell: row => clientLink(row.clientid) }, { name: 'User', cell: row => row.username ?? '–' },
    { name: 'Address', cell: row => row.address }, { name: 'Listener', cell: row => row.listener ?? '–' },
    ...refused ? [] : [{ name: 'Duration', number: true, cell: row => row.from ? seconds((Date.parse(row.to) - Date.parse(row.from)) / 1000) : '–' }],
    { name: 'Reason', cell: row => `${row.reason}${row.reason_code === null ? '' : ` (0x${row.reason_code.toString(16).padStart(2, '0')})`}` },
  ], { caption: refused ? 'Refused connections' : 'Closed connections', empty: refused ? 'No connection was refused.' : 'No connection was closed.' }, (_, cursor) => api.get('connections/closed', { refused, cursor, limit: 50 }));
  const [refused, ended] = [closed(true), closed(false)];
  for (const rows of [refused, ended]) page.every(10000, () => rows.isFirstPage() && rows.reload());

  const certificates = table([
    { name: 'Listener', cell: row => row.name }, { name: 'Certificate', cell: row => row.certificate.subject ?? row.certificate.name },
    { name: 'Expires', cell: row => h('span', { class: Date.parse(row.certificate.not_after) - Date.now() < 30 * 86400e3 ? 'bad' : 'good' }, date(row.certificate.not_after)) },
  ], { caption: 'Certificates', empty: 'No listener has a certificate.' });
  page.every(60000, async () => certificates.show((await api.get('listeners')).data.filter(row => row.certificate?.not_after)));

  return [
    h('div', { class: 'title' }, h('h1', {}, 'Diagnostics'), h('p', {}, 'Slow clients, dropped messages and refused connections, with their reasons.')),
    h('section', {}, h('h2', { class: 'hidden' }, 'Dropped, by reason'), reasons),
    h('div', { class: 'grid' },
      panel('Most dropped', worst(page, 'Dropped', 'No client has dropped messages.', '-dropped', row => row.dropped.total, number, { min_dropped: 1 })),
      panel('Fullest queues', worst(page, 'Queued', 'All queues are empty.', '-queue_messages', row => row.queue_messages, number, { min_queue: 1 })),
      panel('Slowest', worst(page, 'Lag', 'No client is behind.', '-lag_ms', row => row.lag_ms, value => seconds(value / 1000), { min_lag_ms: 1 }))),
    h('div', { class: 'grid' }, panel('Dropped, by topic', byTopic.element), panel('Dropped, by listener', byListener.element)),
    panel('Recent drops', drops.element), panel('Refused connections', refused.element), panel('Closed connections', ended.element), panel('Certificates', certificates.element),
  ];
}
