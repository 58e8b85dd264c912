import { h, ask, copyable, field, panel, select, tell } from '../dom.js';
import * as api from '../api.js';
import { chart } from '../chart.js';
import { table } from '../table.js';
import { compact, counted, date, number } from '../format.js';

/// The lines that open a listener.
function section(values) {
  const lines = [`listener ${values.port}${values.address ? ` ${values.address}` : ''}`];
  if (values.protocol !== 'mqtt') lines.push(`protocol ${values.protocol}`);
  if (values.certfile) lines.push(`certfile ${values.certfile}`, `keyfile ${values.keyfile}`);
  if (values.cafile) lines.push(`cafile ${values.cafile}`, 'require_certificate true');
  lines.push(`listener_allow_anonymous ${values.anonymous ? 'true' : 'false'}`);
  if (values.max) lines.push(`max_connections ${values.max}`);
  return lines.join('\n');
}

/// A listener belongs to the configuration, which is its operator's: the page writes the lines, and has them read.
function adding(page) {
  const inputs = {
    port: h('input', { type: 'number', min: 1, max: 65535, required: true, value: 8883 }), address: h('input', { placeholder: 'all addresses' }),
    protocol: select([['mqtt', 'MQTT'], ['websockets', 'MQTT over WebSocket'], ['http_api', 'HTTP API and dashboard']]),
    certfile: h('input', { placeholder: 'no TLS' }), keyfile: h('input', { placeholder: '/etc/martlet/server.key' }), cafile: h('input', { placeholder: 'no client certificates' }),
    max: h('input', { type: 'number', min: 1, placeholder: 'no limit' }),
  };
  const anonymous = h('input', { type: 'checkbox' });
  const place = h('div'), found = h('div', { role: 'status' });
  const show = () => {
    inputs.keyfile.required = inputs.certfile.value !== '';
    place.replaceChildren(copyable(section({ ...Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value.trim()])), anonymous: anonymous.checked }), 'Lines of the listener'));
  };
  const reload = page.act('Reload the configuration', async () => {
    const result = await api.post('config/reload');
    found.replaceChildren(h('p', { class: result.ok ? 'good' : 'bad' }, result.ok ? 'Reloaded.' : 'Not reloaded:'),
      ...result.diagnostics.map(line => h('p', { class: line.severity === 'error' ? 'bad' : 'warn' }, `${line.file ? `${line.file}:${line.line ?? ''}: ` : ''}${line.message}`)));
  });
  const form = h('form', { class: 'row', oninput: show, onsubmit: event => event.preventDefault() }, field('Port', inputs.port), field('Address', inputs.address), field('Protocol', inputs.protocol),
    field('Certificate file', inputs.certfile), field('Key file', inputs.keyfile), field('CA of client certificates', inputs.cafile), field('Connections at most', inputs.max), h('label', { class: 'tick' }, anonymous, 'Allow clients without a login'));
  show();
  return h('section', { class: 'panel' }, h('h2', {}, 'Add a listener'), h('p', { class: 'soft' }, 'Put these lines into a file of your own in /etc/martlet/conf.d, then reload. What needs a restart is listed.'), form, place, h('div', { class: 'row' }, reload), found);
}

export default function listeners(page) {
  const yes = value => value ? 'yes' : 'no';
  const rows = table([
    { name: 'Listener', cell: row => row.name }, { name: 'Protocol', cell: row => row.protocol }, { name: 'Address', cell: row => row.path ?? `${row.address ?? '*'}:${row.port}` },
    { name: 'TLS', cell: row => row.tls ? row.mtls ? 'yes, with client certificates' : 'yes' : 'no' }, { name: 'Anonymous', cell: row => yes(row.allow_anonymous), title: 'Whether clients may connect without a login' },
    { name: 'Connections', number: true, cell: row => `${number(row.connections)}${row.max_connections === null ? '' : ` of ${number(row.max_connections)}`}` },
    { name: 'Certificate expires', cell: row => row.certificate?.not_after ? date(row.certificate.not_after) : '–' },
  ], { caption: 'Listeners' });
  // Connections of each listener, as long as the page is open.
  const charts = h('div'), times = [], history = new Map();
  let drawn = null, drawnFor = '';
  function draw(data) {
    times.push(Date.now());
    if (times.length > 300) times.shift();
    const shown = data.slice(0, 4);
    for (const row of shown) {
      const values = history.get(row.name) ?? Array(times.length - 1).fill(null);
      values.push(row.connections);
      while (values.length > times.length) values.shift();
      history.set(row.name, values);
    }
    const key = shown.map(row => row.name).join('\n');
    if (key !== drawnFor) {
      drawnFor = key;
      drawn = chart('Connections of each listener', shown.map(row => row.name), compact);
      charts.replaceChildren(drawn.element);
    }
    drawn.show({ times, series: shown.map(row => history.get(row.name)) });
  }
  const drained = h('p', { role: 'status' });
  const begin = page.act('Drain', drain, 'danger'), end = page.act('Accept clients', undo);
  async function showDrain() {
    const { drain } = await api.get('broker');
    drained.replaceChildren(drain === null ? 'Clients are accepted.' : drain.state === 'drained' ? 'Drained: no client is connected, and new ones are refused.' : `Draining: ${counted(drain.connections_left, 'connection')} left, new ones are refused.`);
    if (!page.isAdmin) return;
    end.disabled = drain === null;
    end.title = drain === null ? 'Clients are accepted already.' : '';
    begin.disabled = drain !== null;
    begin.title = drain === null ? '' : 'The broker is being drained.';
  }
  async function drain() {
    const answer = await ask({ title: 'Disconnect all clients?', text: 'New clients are refused until you accept them again. Sessions stay.', word: 'drain', action: 'Drain',
      fields: [field('Server Reference for MQTT 5.0 clients', h('input', { name: 'reference', placeholder: 'none' })), field('Clients per second', h('input', { name: 'rate', type: 'number', min: 1, max: 1000000, value: 1000, required: true }))] });
    if (answer === null) return;
    await api.post('drain', { per_second: Number(answer.rate), ...answer.reference ? { server_reference: answer.reference } : {} });
    await showDrain();
  }
  async function undo() {
    await api.remove('drain');
    tell('Clients are accepted again.');
    await showDrain();
  }
  page.every(3000, showDrain);
  page.every(3000, async () => { const { data } = await api.get('listeners'); rows.show(data); draw(data); });
  return [h('div', { class: 'title' }, h('h1', {}, 'Listeners')), h('section', { class: 'panel' }, rows.element), panel('Connections', charts), page.isAdmin && adding(page),
    panel('Maintenance', h('div', { class: 'row' }, drained, h('span', { class: 'spring' }), begin, end))].filter(Boolean);
}
