import { h, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { connect } from '../mqtt.js';
import { number } from '../format.js';

const words = bytes => {
  try { return new TextDecoder('utf-8', { fatal: true }).decode(bytes); } catch { return Array.from(bytes.subarray(0, 200), byte => byte.toString(16).padStart(2, '0')).join(' '); }
};

function publishing(page) {
  const topic = h('input', { required: true }), payload = h('textarea', { spellcheck: 'false' }), retain = h('input', { type: 'checkbox' });
  const qos = h('select', {}, [0, 1, 2].map(value => h('option', { value }, value)));
  const encoding = h('select', {}, [['plain', 'text'], ['base64', 'base64']].map(([value, name]) => h('option', { value }, name)));
  const form = h('form', { onsubmit: event => { event.preventDefault(); page.guard(async () => {
    const answer = await api.post('publish', { topic: topic.value, payload: payload.value, payload_encoding: encoding.value, qos: Number(qos.value), retain: retain.checked });
    tell(answer.reason_code === 16 ? 'Published; nobody subscribes to it.' : answer.matched === null ? 'Published.' : `Published to ${number(answer.matched)}.`);
  }); } }, h('div', { class: 'row' }, field('Topic', topic, 'wide'), field('QoS', qos), field('Payload is', encoding), h('label', { class: 'tick' }, retain, 'Retain')), field('Payload', payload, 'wide'),
    h('div', { class: 'row' }, h('button', { class: 'first', disabled: !page.isAdmin, title: page.isAdmin ? null : 'Only administrators may do this.' }, 'Publish')));
  return panel('Publish', form);
}

async function watching(page) {
  const open = (await api.get('listeners')).data.filter(listener => listener.protocol === 'websockets' && listener.port !== null && listener.tls === (location.protocol === 'https:'));
  if (open.length === 0) {
    return panel('Watch', h('p', { class: 'empty' }, 'To watch topics from a browser the broker needs a listener with ', h('code', {}, 'protocol websockets'), location.protocol === 'https:' ? ' and TLS.' : '.'));
  }
  const listener = h('select', {}, open.map(row => h('option', { value: row.port }, row.name)));
  const user = h('input', { autocomplete: 'username' }), password = h('input', { type: 'password', autocomplete: 'current-password' });
  const filter = h('input', { value: page.parameters.get('filter') ?? '#', required: true }), state = h('span', { class: 'soft', role: 'status' });
  const list = h('div', { class: 'log', role: 'log', tabindex: 0, 'aria-label': 'Messages' });
  let connection = null, isHeld = false, count = 0;
  const button = h('button', { class: 'first' }, 'Watch'), hold = h('button', { type: 'button', 'aria-pressed': 'false', onclick: () => { isHeld = !isHeld; hold.setAttribute('aria-pressed', isHeld); } }, 'Hold');
  const stop = () => { connection?.end(); connection = null; button.textContent = 'Watch'; };
  page.onleave(stop);
  // Messages that come in one moment are shown together: a page draws 60 times a second at most.
  let pending = [];
  function draw() {
    list.prepend(...pending.slice(-200).reverse().map(message => h('div', {}, h('b', { class: 'code' }, message.topic), message.retain ? ' (retained) ' : ' ', h('span', { class: 'code' }, words(message.payload).slice(0, 500)))));
    while (list.children.length > 500) list.lastChild.remove();
    state.textContent = `${number(count)} messages`;
    pending = [];
  }
  const form = h('form', { class: 'row', onsubmit: event => {
    event.preventDefault();
    if (connection) return stop();
    page.keep({ filter: filter.value });
    list.replaceChildren();
    count = 0;
    button.textContent = 'Stop';
    const mine = connect(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.hostname}:${listener.value}/mqtt`, { username: user.value, password: password.value }, {
      connected: () => { state.textContent = 'Listening.'; mine.subscribe(filter.value); },
      refused: why => { state.textContent = why; stop(); },
      ended: () => { if (connection === mine) { state.textContent = 'The connection has ended.'; stop(); } },
      message: message => { count += 1; if (isHeld) return; if (pending.push(message) === 1) requestAnimationFrame(draw); if (pending.length > 400) pending.splice(0, 200); },
    });
    connection = mine;
  } }, field('Filter', filter, 'wide'), field('Listener', listener), field('User name', user), field('Password', password), button, hold);
  return panel('Watch', form, state, list);
}

export default async function publish(page) {
  return [h('div', { class: 'title' }, h('h1', {}, 'Publish and watch')), publishing(page), await watching(page)];
}
