import { h, ask, facts, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { pagedTable, table } from '../table.js';
import { bytes, compact, number, seconds, since } from '../format.js';
import { loud } from './clients.js';

const colour = { up: 'good', silent: 'warn', left: 'soft', gone: 'bad' };
const signs = { up: '●', silent: '▲', left: '○', gone: '▲' };
const state = row => {
  const isDraining = row.state === 'up' && row.draining;
  return [h('span', { class: `${isDraining ? 'warn' : colour[row.state] ?? 'soft'} still` }, `${isDraining ? '▲ draining' : `${signs[row.state] ?? ''} ${row.state}`}`),
    row.state !== 'up' && h('div', { class: 'soft' }, `for ${since(row.since)}`)];
};
const name = row => {
  const words = row.name ?? row.id;
  if (row.self) return `${words} (this one)`;
  // What another node says of itself may be no address of a page.
  return /^https?:\/\//.test(row.dashboard ?? '') && row.state === 'up' ? h('a', { href: row.dashboard, rel: 'noreferrer' }, words) : words;
};

export default function cluster(page) {
  const trouble = h('p', { class: 'error', role: 'alert', hidden: true });
  const about = h('div');
  const nodes = table([
    { name: 'Node', cell: row => [name(row), row.version && h('div', { class: 'soft' }, row.version)] },
    { name: 'Status', cell: row => [state(row), row.state === 'up' && h('div', { class: 'soft' }, `up ${since(row.started_at)}`)] },
    { name: 'Problem', cell: row => row.trouble ? h('span', { class: 'bad' }, row.trouble) : '–' },
    { name: 'Clients', number: true, cell: row => number(row.clients_connected) }, { name: 'Sessions', number: true, cell: row => number(row.sessions) },
    { name: 'In/s', number: true, cell: row => number(row.received_messages_rate), title: 'Messages per second from clients' },
    { name: 'Out/s', number: true, cell: row => number(row.sent_messages_rate), title: 'Messages per second to clients' },
    { name: 'Dropped', number: true, cell: row => row.dropped === null ? '–' : loud(row.dropped) }, { name: 'Memory', number: true, cell: row => bytes(row.memory_bytes) },
    { name: 'CPU', number: true, cell: row => row.processors === null || row.processors === undefined ? '–' : `${number(row.processors * 100)} %`, title: 'Of one core' },
    { name: 'Address', cell: row => [row.address ?? '–', row.server && h('div', { class: 'soft' }, `NATS ${row.server}`)] },
  ], { caption: 'Nodes', empty: 'No nodes are known yet.' });

  let isOne;
  async function show() {
    isOne ??= (await api.get('broker')).cluster !== null;
    if (!isOne) return about.replaceChildren(h('p', { class: 'empty' }, 'This broker is not part of a cluster.'));
    const answer = await api.get('cluster');
    const words = [answer.trouble && `This node is not ready: ${answer.trouble}.`,
      ...answer.shared_names.map(shared => `Several nodes are called ${shared}. Give each a name of its own.`)].filter(Boolean);
    trouble.hidden = words.length === 0;
    if (trouble.textContent !== words.join(' ')) trouble.textContent = words.join(' ');
    const all = answer.totals;
    about.replaceChildren(facts([['Cluster', answer.name], ['Nodes', [`${number(all.nodes_up)} up`, all.nodes_draining > 0 && `, ${number(all.nodes_draining)} of them draining`,
      all.nodes_silent > 0 && h('span', { class: 'warn' }, `, ${number(all.nodes_silent)} silent`), all.nodes_gone > 0 && h('span', { class: 'bad' }, `, ${number(all.nodes_gone)} gone`)].filter(Boolean)],
      ['Messages are acknowledged when stored', { synced: `on the disks of a majority of the servers, as far as monitors are named (${answer.servers.length})`, replicated: 'in the memories of a majority of the servers', node: 'by this node alone, which has no store' }[answer.mode] ?? 'by a majority of the servers (disk or memory not known)'],
      ['Clients', `${number(all.clients_connected)} connected, ${number(all.sessions)} sessions, ${number(all.subscriptions)} subscriptions`],
      ['Messages per second', `${compact(all.received_messages_rate)} in, ${compact(all.sent_messages_rate)} out`],
      ['Stored', `${number(all.stored_messages)} messages`], ['Dropped', loud(all.dropped)]]));
    nodes.show(answer.nodes);
  }

  const find = h('input', { type: 'search', placeholder: 'part of a client ID or user name' });
  const missing = h('p', { class: 'warn', role: 'status', hidden: true });
  const kick = row => page.act('Disconnect', async () => {
    if (await ask({ title: 'Disconnect the client?', text: `${row.clientid} on ${row.node}. It may reconnect.`, action: 'Disconnect' }) === null) return;
    await api.remove(api.path('clients', row.clientid, 'connection'), { cluster: true });
    tell(`${row.clientid} is disconnected.`);
    await clients.reload();
  }, 'plain');
  const clients = pagedTable([
    { name: 'Client', cell: row => row.clientid === '' ? '(empty)' : row.clientid }, { name: 'Node', cell: row => row.node }, { name: 'User', cell: row => row.username ?? '–' },
    { name: 'Status', cell: row => row.connected ? h('span', { class: 'good still' }, '● connected') : h('span', { class: 'soft still' }, '○ disconnected') },
    { name: 'Address', cell: row => row.address ?? '–' }, { name: 'Queued', number: true, cell: row => loud(row.queue_messages) },
    { name: 'Dropped', number: true, cell: row => loud(row.dropped.total) }, { name: 'Lag', number: true, cell: row => row.lag_ms > 0 ? seconds(row.lag_ms / 1000) : '0' },
    { name: 'Actions', cell: row => row.connected ? kick(row) : '–' },
  ], { caption: 'Clients of all nodes', empty: 'No client matches.', order: 'clientid' }, async (sort, cursor) => {
    const answer = await api.get('clients', { cluster: true, q: find.value.trim(), sort, cursor, limit: 50 });
    missing.hidden = !answer.meta.missing_nodes?.length;
    missing.textContent = missing.hidden ? '' : `Clients of ${answer.meta.missing_nodes.join(', ')} are missing: no answer.`;
    return answer;
  });
  let waiting;
  const form = h('form', { class: 'row', role: 'search', onsubmit: event => { event.preventDefault(); page.guard(clients.reload); },
    oninput: () => { clearTimeout(waiting); waiting = setTimeout(() => page.guard(clients.reload), 250); } }, field('Search', find, 'wide'));
  page.onleave(() => clearTimeout(waiting));
  page.every(2000, show);
  page.every(5000, () => clients.isFirstPage() && !clients.element.contains(document.activeElement) && clients.reload());
  return [h('div', { class: 'title' }, h('h1', {}, 'Cluster'), h('p', {}, 'All nodes, as this one sees them.')),
    trouble, panel('Summary', about), panel('Nodes', nodes.element), panel('Clients of all nodes', form, missing, clients.element)];
}
