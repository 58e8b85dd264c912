import { h, ask, facts, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { pagedTable, table } from '../table.js';
import { bytes, clock, compact, counted, date, expiry, now, number, payload, seconds } from '../format.js';
import { chart } from '../chart.js';
import { loud } from './clients.js';

const versions = { 3: 'MQTT 3.1', 4: 'MQTT 3.1.1', 5: 'MQTT 5.0' };
const flags = row => [row.share && `in ${row.share}`, row.no_local && 'no local', row.retain_as_published && 'retain as published'].filter(Boolean).join(', ') || '–';

export default function client(page) {
  const name = page.segments[1], at = (...rest) => api.path('clients', name, ...rest);
  const about = h('div', { class: 'grid' });
  const events = h('div', { class: 'log', role: 'log' });
  const disconnect = page.act('Disconnect', kick), empty = page.act('Empty queue', purge), endSession = page.act('End session', end, 'danger');
  const rates = chart('Messages per second', ['received', 'sent'], value => value === null || value === undefined ? '–' : `${compact(value)}/s`), waiting = chart('Queue', ['queued', 'dropped'], compact);
  const history = { times: [], received: [], sent: [], queued: [], dropped: [] };
  /// What the client does, as long as the page is open.
  function draw(row) {
    const values = [Date.now(), row.received_rate, row.sent_rate, row.queue_messages, row.dropped.total];
    Object.keys(history).forEach((name, at) => { history[name].push(values[at] ?? null); if (history[name].length > 300) history[name].shift(); });
    rates.show({ times: history.times, series: [history.received, history.sent] });
    waiting.show({ times: history.times, series: [history.queued, history.dropped] });
  }

  async function load() {
    let row;
    try {
      row = await api.get(at());
    } catch (error) {
      if (error.status !== 404) throw error;
      about.replaceChildren(h('p', { class: 'empty' }, 'There is no client with this ID.'));
      for (const button of [disconnect, empty, endSession]) button.disabled = true;
      return;
    }
    if (page.isAdmin) {
      disconnect.disabled = !row.connected;
      disconnect.title = row.connected ? '' : 'The client is not connected.';
      empty.disabled = row.queue_messages === 0;
      empty.title = row.queue_messages === 0 ? 'The queue is empty.' : '';
    }
    draw(row);
    const dropped = Object.entries(row.dropped).filter(([reason, count]) => reason !== 'total' && count > 0);
    about.replaceChildren(
      panel(row.connected ? h('span', { class: 'good' }, '● connected') : h('span', { class: 'soft' }, '○ disconnected'), facts([
        ['User', row.username ?? '–'], ['Address', row.address === null ? '–' : `${row.address}${row.port ? `, port ${row.port}` : ''}`],
        ['Listener', row.listener ?? '–'], ['Protocol', `${versions[row.proto_ver]}${row.tls ? `, ${row.tls}` : ''}`],
        row.certificate_subject && ['Certificate', row.certificate_subject],
        ['Keep Alive', row.keepalive_s === null ? '–' : row.keepalive_s === 0 ? 'none' : seconds(row.keepalive_s)],
        row.connected ? ['Connected', date(row.connected_at)] : ['Disconnected', date(row.disconnected_at)],
        ['Session expires', row.session_expiry_s === null ? '–' : row.session_expiry_s === 0 || row.session_expiry_s >= 4294967295 ? expiry(row.session_expiry_s) : `${expiry(row.session_expiry_s)} after disconnect`],
        row.will && ['Will', `${row.will.topic} (QoS ${row.will.qos}${row.will.retain ? ', retained' : ''}${row.will.delay_s ? `, after ${seconds(row.will.delay_s)}` : ''})`],
        ['Loop', number(row.loop)],
      ])),
      panel('Traffic', facts([
        ['Received', `${counted(row.received_messages, 'message')}, ${bytes(row.received_bytes)}${row.connected ? `, ${number(row.received_rate)}/s` : ''}`],
        ['Sent', `${counted(row.sent_messages, 'message')}, ${bytes(row.sent_bytes)}${row.connected ? `, ${number(row.sent_rate)}/s` : ''}`],
        ['Queued', [loud(row.queue_messages), ` ${row.queue_messages === 1 ? 'message' : 'messages'}, ${bytes(row.queue_bytes)}`]],
        ['In flight', `${number(row.inflight_out)} to the client, ${number(row.inflight_in)} from it`],
        ['Output buffer', bytes(row.output_bytes)], ['Lag', seconds(row.lag_ms / 1000)],
        ['Dropped', dropped.length === 0 ? '0' : dropped.map(([reason, count]) => h('div', { class: 'warn' }, `${number(count)} ${reason.replaceAll('_', ' ')}`))],
      ])));
  }

  const subscriptions = pagedTable([
    { name: 'Filter', cell: row => h('span', { class: 'code' }, row.filter) }, { name: 'QoS', number: true, cell: row => number(row.qos) },
    { name: 'Options', cell: flags }, { name: 'Identifier', number: true, cell: row => row.identifier ?? '–' },
  ], { caption: 'Subscriptions', empty: 'No subscriptions.' }, (_, cursor) => api.get(at('subscriptions'), { cursor }));
  const mayRead = page.session.payloads;
  const queue = pagedTable([
    { name: '#', number: true, cell: row => number(row.position) }, { name: 'Topic', cell: row => h('span', { class: 'code' }, row.topic) },
    { name: 'QoS', number: true, cell: row => number(row.qos) }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
    { name: 'Age', number: true, cell: row => seconds(row.age_ms / 1000) }, { name: 'Expires', cell: row => row.expires_at ? date(row.expires_at) : 'never' },
    { name: 'Status', cell: row => row.state }, ...mayRead ? [{ name: 'Payload', cell: row => row.payload === undefined ? '–' : h('span', { class: 'code' }, payload(row.payload).slice(0, 200)) }] : [],
  ], { caption: 'Queue', empty: 'The queue is empty.' }, (_, cursor) => api.get(at('queue'), { cursor, payload: mayRead ? 1 : '' }));
  const inflight = pagedTable([
    { name: 'Direction', cell: row => row.direction === 'out' ? 'to the client' : 'from the client' }, { name: 'Identifier', number: true, cell: row => number(row.packet_id) },
    { name: 'Topic', cell: row => row.topic ?? '–' }, { name: 'QoS', number: true, cell: row => row.qos ?? '–' }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
    { name: 'Age', number: true, cell: row => row.age_ms === null ? '–' : seconds(row.age_ms / 1000) }, { name: 'Status', cell: row => row.state },
  ], { caption: 'In flight', empty: 'No messages are in flight.' }, (_, cursor) => api.get(at('inflight'), { cursor }));
  const drops = table([
    { name: 'Time', cell: row => clock(row.at) }, { name: 'Topic', cell: row => h('span', { class: 'code' }, row.topic) },
    { name: 'Reason', cell: row => row.reason.replaceAll('_', ' ') }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
  ], { caption: 'Recent drops', empty: 'No message was dropped recently.' });

  function happened(kind) {
    return event => {
      if (event.clientid !== name) return;
      events.prepend(h('div', {}, `${now()}  ${kind}${event.reason ? `: ${event.reason}` : ''}${event.filter ? ` ${event.filter}` : ''}`));
      while (events.children.length > 200) events.lastChild.remove();
    };
  }

  async function kick() {
    const answer = await ask({ title: 'Disconnect the client?', text: 'Most clients reconnect at once. The session stays.', action: 'Disconnect',
      fields: [h('label', { class: 'tick' }, h('input', { type: 'checkbox', name: 'will', checked: true }), 'Publish the will message')] });
    if (answer === null) return;
    await api.remove(at('connection'), { will: answer.will !== undefined ? 'true' : 'false' });
    tell('Disconnected.');
    load();
  }
  async function end() {
    const answer = await ask({ title: 'End the session?', text: 'Its subscriptions and queued messages are lost.', word: name, action: 'End the session' });
    if (answer === null) return;
    await api.remove(at());
    tell('The session has ended.');
    location.hash = '#/clients';
  }
  async function purge() {
    const answer = await ask({ title: 'Empty the queue?', text: 'The queued messages are lost.', word: name, action: 'Empty',
      fields: [field('Only topics that match', h('input', { name: 'filter', placeholder: '#' }))] });
    if (answer === null) return;
    const { removed } = await api.remove(at('queue'), { filter: answer.filter });
    tell(`${counted(removed, 'message')} removed.`);
    page.guard(queue.reload);
  }

  page.every(3000, load);
  // That there is no such client is said once.
  for (const part of [subscriptions, queue, inflight]) page.guard(() => part.reload().catch(error => { if (error.status !== 404) throw error; }));
  page.every(10000, async () => drops.show((await api.get('drops')).data.filter(row => row.clientid === name)));
  page.listen('events', { types: 'connected,disconnected,refused,subscribed,unsubscribed,dropped,alarm' },
    Object.fromEntries(['connected', 'disconnected', 'refused', 'subscribed', 'unsubscribed', 'dropped', 'alarm'].map(kind => [kind, happened(kind)])));
  const reload = part => h('button', { type: 'button', class: 'plain', onclick: () => page.guard(part.reload) }, 'Refresh');
  return [
    h('div', { class: 'title' }, h('h1', {}, name === '' ? '(empty)' : name), h('span', { class: 'spring' }),
      page.isAdmin && h('a', { href: `#/trace?clientid=${encodeURIComponent(name)}` }, 'Trace'), page.isAdmin && h('a', { href: `#/log?q=${encodeURIComponent(name)}` }, 'Log'), disconnect, empty, page.act('Ban', async () => { location.hash = `#/bans?as=clientid&who=${encodeURIComponent(name)}`; }), endSession),
    about, h('div', { class: 'grid even' }, panel('Messages per second', rates.element), panel('Queue and drops', waiting.element)), panel('Subscriptions', subscriptions.element), panel(['Queue ', reload(queue)], queue.element), panel(['In flight ', reload(inflight)], inflight.element),
    panel('Recent drops', drops.element), panel('Live events', events),
  ];
}
