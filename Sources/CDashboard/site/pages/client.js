import { h, ask, facts, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { pagedTable, table } from '../table.js';
import { bytes, clock, date, expiry, number, payload, seconds } from '../format.js';
import { loud } from './clients.js';

const versions = { 3: 'MQTT 3.1', 4: 'MQTT 3.1.1', 5: 'MQTT 5.0' };
const flags = row => [row.share && `in ${row.share}`, row.no_local && 'no local', row.retain_as_published && 'retain as published'].filter(Boolean).join(', ') || '–';

export default function client(page) {
  const name = page.segments[1], at = (...rest) => api.path('clients', name, ...rest);
  const about = h('div', { class: 'grid' });
  const events = h('div', { class: 'log', role: 'log' });
  const disconnect = page.act('Disconnect', kick);

  async function load() {
    let row;
    try {
      row = await api.get(at());
    } catch (error) {
      if (error.status !== 404) throw error;
      about.replaceChildren(h('p', { class: 'empty' }, 'There is no session of this name (any more).'));
      return;
    }
    if (page.isAdmin) {
      disconnect.disabled = !row.connected;
      disconnect.title = row.connected ? '' : 'It is not connected.';
    }
    const dropped = Object.entries(row.dropped).filter(([reason, count]) => reason !== 'total' && count > 0);
    about.replaceChildren(
      panel(row.connected ? h('span', { class: 'good' }, '● connected') : h('span', { class: 'soft' }, '○ absent'), facts([
        ['User', row.username ?? '–'], ['Address', row.address === null ? '–' : `${row.address}${row.port ? `, port ${row.port}` : ''}`],
        ['Listener', row.listener ?? '–'], ['Protocol', `${versions[row.proto_ver]}${row.tls ? `, ${row.tls}` : ''}`],
        row.certificate_subject && ['Certificate', row.certificate_subject],
        ['Keep Alive', row.keepalive_s === null ? '–' : row.keepalive_s === 0 ? 'none' : seconds(row.keepalive_s)],
        row.connected ? ['Connected', date(row.connected_at)] : ['Gone since', date(row.disconnected_at)],
        ['Session ends', row.session_expiry_s === null ? '–' : row.session_expiry_s === 0 || row.session_expiry_s >= 4294967295 ? expiry(row.session_expiry_s) : `${expiry(row.session_expiry_s)} after the connection`],
        row.will && ['Will', `${row.will.topic} (QoS ${row.will.qos}${row.will.retain ? ', retained' : ''}${row.will.delay_s ? `, after ${seconds(row.will.delay_s)}` : ''})`],
        ['Loop', number(row.loop)],
      ])),
      panel('Traffic', facts([
        ['Received', `${number(row.received_messages)} messages, ${bytes(row.received_bytes)}${row.connected ? `, ${number(row.received_rate)}/s` : ''}`],
        ['Sent', `${number(row.sent_messages)} messages, ${bytes(row.sent_bytes)}${row.connected ? `, ${number(row.sent_rate)}/s` : ''}`],
        ['Queued', [loud(row.queue_messages), ` messages, ${bytes(row.queue_bytes)}`]],
        ['In flight', `${number(row.inflight_out)} to the client, ${number(row.inflight_in)} from it`],
        ['Not written', bytes(row.output_bytes)], ['Lag', seconds(row.lag_ms / 1000)],
        ['Dropped', dropped.length === 0 ? '0' : dropped.map(([reason, count]) => h('div', { class: 'warn' }, `${number(count)} ${reason.replaceAll('_', ' ')}`))],
      ])));
  }

  const subscriptions = pagedTable([
    { name: 'Filter', cell: row => h('span', { class: 'code' }, row.filter) }, { name: 'QoS', number: true, cell: row => number(row.qos) },
    { name: 'Options', cell: flags }, { name: 'Identifier', number: true, cell: row => row.identifier ?? '–' },
  ], { caption: 'Subscriptions', empty: 'It subscribes to nothing.' }, (_, cursor) => api.get(at('subscriptions'), { cursor }));
  const mayRead = page.session.payloads;
  const queue = pagedTable([
    { name: '#', number: true, cell: row => number(row.position) }, { name: 'Topic', cell: row => h('span', { class: 'code' }, row.topic) },
    { name: 'QoS', number: true, cell: row => number(row.qos) }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
    { name: 'Age', number: true, cell: row => seconds(row.age_ms / 1000) }, { name: 'Expires', cell: row => row.expires_at ? date(row.expires_at) : 'never' },
    { name: 'State', cell: row => row.state }, ...mayRead ? [{ name: 'Payload', cell: row => row.payload === undefined ? '–' : h('span', { class: 'code' }, payload(row.payload).slice(0, 200)) }] : [],
  ], { caption: 'Queue', empty: 'Nothing waits for it.' }, (_, cursor) => api.get(at('queue'), { cursor, payload: mayRead ? 1 : '' }));
  const inflight = pagedTable([
    { name: 'Direction', cell: row => row.direction === 'out' ? 'to the client' : 'from the client' }, { name: 'Identifier', number: true, cell: row => number(row.packet_id) },
    { name: 'Topic', cell: row => row.topic ?? '–' }, { name: 'QoS', number: true, cell: row => row.qos ?? '–' }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
    { name: 'Age', number: true, cell: row => row.age_ms === null ? '–' : seconds(row.age_ms / 1000) }, { name: 'State', cell: row => row.state },
  ], { caption: 'In flight', empty: 'Nothing is in flight.' }, (_, cursor) => api.get(at('inflight'), { cursor }));
  const drops = table([
    { name: 'Time', cell: row => clock(row.at) }, { name: 'Topic', cell: row => h('span', { class: 'code' }, row.topic) },
    { name: 'Reason', cell: row => row.reason.replaceAll('_', ' ') }, { name: 'Size', number: true, cell: row => bytes(row.bytes) },
  ], { caption: 'Dropped lately', empty: 'Nothing was dropped lately.' });

  function happened(kind) {
    return event => {
      if (event.clientid !== name) return;
      events.prepend(h('div', {}, `${new Date().toLocaleTimeString()}  ${kind}${event.reason ? `: ${event.reason}` : ''}${event.filter ? ` ${event.filter}` : ''}`));
      while (events.children.length > 200) events.lastChild.remove();
    };
  }

  async function kick() {
    const answer = await ask({ title: 'Disconnect it?', text: 'Most clients come back at once. Its session stays.', action: 'Disconnect',
      fields: [h('label', { class: 'tick' }, h('input', { type: 'checkbox', name: 'will', checked: true }), 'Publish its will')] });
    if (answer === null) return;
    await api.remove(at('connection'), { will: answer.will !== undefined ? 'true' : 'false' });
    tell('Disconnected.');
    load();
  }
  async function end() {
    const answer = await ask({ title: 'End the session?', text: 'Its subscriptions and all that waits for it are lost.', word: name, action: 'End the session' });
    if (answer === null) return;
    await api.remove(at());
    tell('The session has ended.');
    location.hash = '#/clients';
  }
  async function purge() {
    const answer = await ask({ title: 'Empty the queue?', text: 'The messages are lost.', word: name, action: 'Empty',
      fields: [field('Only topics that match', h('input', { name: 'filter', placeholder: '#' }))] });
    if (answer === null) return;
    const { removed } = await api.remove(at('queue'), { filter: answer.filter });
    tell(`${number(removed)} messages removed.`);
    page.guard(queue.reload);
  }

  page.every(3000, load);
  for (const part of [subscriptions, queue, inflight]) page.guard(part.reload);
  page.every(10000, async () => drops.show((await api.get('drops')).data.filter(row => row.clientid === name)));
  page.listen('events', { types: 'connected,disconnected,refused,subscribed,unsubscribed,dropped,alarm' },
    Object.fromEntries(['connected', 'disconnected', 'refused', 'subscribed', 'unsubscribed', 'dropped', 'alarm'].map(kind => [kind, happened(kind)])));
  const reload = part => h('button', { type: 'button', class: 'plain', onclick: () => page.guard(part.reload) }, 'Refresh');
  return [
    h('div', { class: 'title' }, h('h1', {}, name === '' ? '(empty)' : name), h('span', { class: 'spring' }),
      page.isAdmin && h('a', { href: `#/trace?clientid=${encodeURIComponent(name)}` }, 'Trace'), disconnect, page.act('Empty queue', purge), page.act('Ban', async () => { location.hash = `#/bans?as=clientid&who=${encodeURIComponent(name)}`; }), page.act('End session', end, 'danger')),
    about, panel('Subscriptions', subscriptions.element), panel(['Queue ', reload(queue)], queue.element), panel(['In flight ', reload(inflight)], inflight.element),
    panel('Dropped lately', drops.element), panel('Events, while you look', events),
  ];
}
