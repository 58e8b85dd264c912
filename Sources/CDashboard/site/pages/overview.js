import { h, panel } from '../dom.js';
import * as api from '../api.js';
import { chart } from '../chart.js';
import { bytes, compact, number, seconds } from '../format.js';

const perSecond = (value, write = compact) => value === null || value === undefined ? '–' : `${write(value)}/s`;
const bytesPerSecond = value => perSecond(value, bytes);
const milliseconds = value => value === null || value === undefined ? '–' : seconds(value / 1000);
const charts = [
  ['Messages', [['received', 'received_messages_rate'], ['sent', 'sent_messages_rate'], ['dropped', 'dropped_rate']], perSecond],
  ['Bytes', [['received', 'received_bytes_rate'], ['sent', 'sent_bytes_rate']], bytesPerSecond, 1024],
  ['Connections', [['connected', 'clients_connected'], ['sessions', 'sessions']], compact],
  ['Latency', [['ack p50', 'acknowledge_p50_ms'], ['ack p99', 'acknowledge_p99_ms'], ['delivery p99', 'delivery_p99_ms'], ['disk p99', 'store_commit_p99_ms']], milliseconds],
  ['Dropped', [['queue full', 'dropped_queue_full_rate'], ['output full', 'dropped_output_full_rate'], ['expired', 'dropped_expired_rate'], ['not authorised', 'dropped_not_authorised_rate']], perSecond],
  ['Store', [['stored messages', 'stored_messages'], ['retained', 'retained_messages']], compact],
];
const wanted = [...new Set(charts.flatMap(([, series]) => series.map(([, key]) => key)))];

export default async function overview(page) {
  const tiles = h('dl', { class: 'tiles eight' });
  const certificates = h('div'), all = h('section', { class: 'stack', hidden: true });
  const drawn = charts.map(([title, series, write, thousand]) => ({ series, ...chart(title, series.map(([name]) => name), write, thousand) }));
  const span = h('select', { 'aria-label': 'Time shown', onchange: () => page.guard(load) },
    h('option', { value: '1' }, 'Last 15 minutes'), h('option', { value: '60' }, 'Last 24 hours'));
  const live = document.getElementById('live');
  let history = null, told = 0, broker = null;

  function tile(name, value, small = '', kind = '') {
    return h('div', { class: `tile ${kind}` }, h('dt', {}, name), h('dd', {}, value), h('dd', { class: 'note' }, small));
  }

  function showTiles(now, totals) {
    const { open, limit } = broker.files;
    tiles.replaceChildren(
      tile('Clients', number(now.clients_connected), `${number(now.sessions)} sessions`),
      tile('Messages in', perSecond(now.received_messages_rate), bytesPerSecond(now.received_bytes_rate)),
      tile('Messages out', perSecond(now.sent_messages_rate), bytesPerSecond(now.sent_bytes_rate)),
      tile('Dropped', perSecond(now.dropped_rate), `${compact(totals.dropped)} since the start`, now.dropped_rate > 0 ? 'warn' : ''),
      tile('Acknowledgement', milliseconds(now.acknowledge_p99_ms), '99th percentile'),
      tile('Subscriptions', compact(now.subscriptions), `${compact(now.retained_messages)} retained`),
      tile('Stored', compact(now.stored_messages), now.store_bytes === null ? `messages, ${bytes(now.stored_bytes)}, no store` : `messages, ${bytes(now.store_bytes)} on disk, ${bytes(broker.store.free_bytes)} free`, broker.store.free_bytes !== null && broker.store.free_bytes < 2 ** 30 ? 'warn' : ''),
      tile('Memory', bytes(now.memory_bytes), `${now.processor_percent == null ? '–' : `${number(now.processor_percent)} %`} of a core, ${number(open)} of ${number(limit)} files open`, open > limit * .9 ? 'warn' : ''));
  }

  function draw() {
    const length = Math.max(0, ...Object.values(history.series).map(series => series.length));
    // At most 300 points: what a screen can show.
    const every = Math.max(1, Math.ceil(length / 300));
    const thin = values => values.filter((_, at) => (length - 1 - at) % every === 0);
    const times = thin(Array.from({ length }, (_, at) => history.from + at * history.step * 1000));
    for (const { series, show } of drawn) show({ times, series: series.map(([, key]) => thin(history.series[key] ?? Array(length).fill(null))) });
  }

  async function load() {
    const answer = await api.get('stats/history', { series: wanted.join(','), step: span.value });
    const last = answer.from === null ? Date.now() : Date.parse(answer.from);
    history = { step: answer.step, from: last, series: answer.series };
    draw();
  }

  function add(values) {
    showTiles(values, totals);
    if (history === null || span.value !== '1') return;
    const full = (history.series[wanted[0]]?.length ?? 0) >= 900;
    for (const key of wanted) {
      const series = history.series[key] ??= [];
      series.push(values[key] ?? null);
      if (full) series.shift();
    }
    if (full) history.from += 1000;
    requestAnimationFrame(draw);
    if (Date.now() - told < 10000) return;
    told = Date.now();
    live.textContent = `${number(values.clients_connected)} clients, ${perSecond(values.received_messages_rate)} in, ${perSecond(values.sent_messages_rate)} out.`;
  }

  async function listeners() {
    const due = (await api.get('listeners')).data.filter(listener => listener.certificate?.not_after)
      .map(listener => ({ listener, days: Math.floor((Date.parse(listener.certificate.not_after) - Date.now()) / 86400000) }))
      .filter(({ days }) => days < 30);
    certificates.replaceChildren(...due.map(({ listener, days }) => h('p', { class: days < 7 ? 'bad' : 'warn' },
      days < 0 ? `▲ The certificate of ${listener.name} has expired.` : `▲ The certificate of ${listener.name} expires in ${days} days.`)));
  }

  /// The sums of all nodes, where there are several.
  async function cluster() {
    if (broker.cluster === null) return;
    const { name, totals, trouble, nodes } = await api.get('cluster');
    const missing = totals.nodes_silent + totals.nodes_gone;
    all.hidden = false;
    all.replaceChildren(h('h2', {}, `Cluster ${name}`), h('dl', { class: 'tiles' },
      tile('Nodes up', `${number(totals.nodes_up)} of ${number(totals.nodes_up + missing)}`, trouble || (missing > 0 ? `${number(missing)} without an answer` : totals.nodes_draining > 0 ? `${number(totals.nodes_draining)} draining` : 'all answer'), trouble || missing > 0 ? 'bad' : ''),
      tile('Clients', number(totals.clients_connected), `${number(totals.sessions)} sessions`),
      tile('Messages in', perSecond(totals.received_messages_rate), 'of all nodes'), tile('Messages out', perSecond(totals.sent_messages_rate), 'to all clients'),
      tile('Stored', compact(totals.stored_messages), `${compact(totals.subscriptions)} subscriptions`), tile('Dropped', compact(totals.dropped), 'since the nodes started', totals.dropped > 0 ? 'warn' : '')),
      h('p', {}, h('a', { href: '#/cluster' }, 'All nodes'), nodes.some(node => node.trouble) && h('span', { class: 'bad' }, `  ${nodes.filter(node => node.trouble).map(node => `${node.name ?? node.id}: ${node.trouble}`).join('; ')}`)), h('h2', {}, 'This node'));
  }

  broker = await api.get('broker');
  const now = await api.get('stats');
  let totals = now.totals;
  showTiles(now.now, totals);
  await load();
  page.listen('events', { types: 'stats', interval: 1 }, { stats: add });
  page.every(60000, listeners);
  page.every(3000, cluster);
  page.every(10000, async () => { totals = (await api.get('stats')).totals; broker = await api.get('broker'); });
  return [
    h('div', { class: 'title' }, h('h1', {}, 'Overview'), h('span', { class: 'spring' }), span), certificates, all, tiles,
    h('div', { class: 'grid even' }, drawn.map(({ element }, index) => panel(charts[index][0], element))),
  ];
}
