import { h, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { connect } from '../mqtt.js';
import { counted } from '../format.js';

const words = bytes => {
  try { return new TextDecoder('utf-8', { fatal: true }).decode(bytes); } catch { return Array.from(bytes.subarray(0, 200), byte => byte.toString(16).padStart(2, '0')).join(' '); }
};

function publishing(page) {
  const topic = h('input', { required: true }), payload = h('textarea', { spellcheck: 'false' }), retain = h('input', { type: 'checkbox' });
  const qos = h('select', {}, [0, 1, 2].map(value => h('option', { value }, value)));
  const encoding = h('select', {}, [['plain', 'text'], ['base64', 'base64']].map(([value, name]) => h('option', { value }, name)));
  const form = h('form', { onsubmit: event => { event.preventDefault(); page.guard(async () => {
    const answer = await api.post('publish', { topic: topic.value, payload: payload.value, payload_encoding: encoding.value, qos: Number(qos.value), retain: retain.checked });
    tell(answer.reason_code === 16 ? 'Published. There are no subscribers.' : answer.matched === null ? 'Published.' : `Published to ${counted(answer.matched, 'subscriber')}.`);
  }); } }, h('div', { class: 'row' }, field('Topic', topic, 'wide'), field('QoS', qos), field('Payload encoding', encoding), h('label', { class: 'tick' }, retain, 'Retain')), field('Payload', payload, 'wide'),
    h('div', { class: 'row' }, h('button', { class: 'first', disabled: !page.isAdmin, title: page.isAdmin ? null : 'Only administrators may do this.' }, 'Publish')));
  return panel('Publish', form);
}

function watching(page) {
  if (!page.isAdmin || !page.session.payloads) {
    return panel('Watch', h('p', { class: 'empty' }, page.isAdmin ? 'Payloads may not be seen on this listener; see martlet_http_payloads.' : 'Only administrators may watch topics.'));
  }
  const filter = h('input', { value: page.parameters.get('filter') ?? '#', required: true, maxlength: 65535 }), state = h('p', { class: 'soft', role: 'status' });
  const list = h('div', { class: 'log', role: 'log', tabindex: 0, 'aria-label': 'Messages' });
  let connection = null, isHeld = false, count = 0;
  const button = h('button', { class: 'first' }, 'Watch'), hold = h('button', { type: 'button', disabled: true, 'aria-pressed': 'false', onclick: () => { isHeld = !isHeld; hold.setAttribute('aria-pressed', isHeld); } }, 'Pause');
  const say = (text, kind = 'soft') => { state.className = kind; state.textContent = text; };
  const stop = () => { connection?.end(); connection = null; button.textContent = 'Watch'; hold.disabled = true; };
  page.onleave(stop);
  // Messages that come in one moment are shown together: a page draws 60 times a second at most.
  let pending = [];
  function draw() {
    list.prepend(...pending.slice(-200).reverse().map(message => h('div', {}, h('b', { class: 'code' }, message.topic), message.retain ? ' (retained) ' : ' ', h('span', { class: 'code' }, words(message.payload).slice(0, 500)))));
    while (list.children.length > 500) list.lastChild.remove();
    say(counted(count, 'message'));
    pending = [];
  }
  const form = h('form', { class: 'row', onsubmit: event => {
    event.preventDefault();
    if (connection) return stop();
    page.keep({ filter: filter.value });
    list.replaceChildren();
    count = 0;
    button.textContent = 'Stop';
    hold.disabled = false;
    const url = new URL('../api/martlet/v1/mqtt', location.href);
    url.protocol = url.protocol === 'https:' ? 'wss:' : 'ws:';
    url.hash = '';
    const mine = connect(url, {
      connected: () => { say('Connected.'); mine.subscribe(filter.value); },
      subscribed: () => say(`Subscribed to ${filter.value}.`),
      refused: why => { if (connection === mine) { stop(); if (why) say(why, 'bad'); else page.guard(explain); } },
      ended: why => { if (connection === mine) { stop(); say(why, 'bad'); } },
      message: message => { count += 1; if (isHeld) return; if (pending.push(message) === 1) requestAnimationFrame(draw); if (pending.length > 400) pending.splice(0, 200); },
    });
    connection = mine;
  } }, field('Topic filter', filter, 'wide'), button, hold);
  /// A WebSocket that was not opened says nothing of why; the same address asked for without one does.
  async function explain() {
    try {
      await api.get('mqtt');
    } catch (error) {
      say(error.status === 426 ? 'The connection failed. A proxy between here and the broker may not pass on WebSockets.' : error.message, 'bad');
    }
  }
  return panel('Watch', form, state, list);
}

export default function publish(page) {
  return [h('div', { class: 'title' }, h('h1', {}, 'Publish and watch')), publishing(page), watching(page)];
}
