// As much of an MQTT 5.0 client as a page needs to watch topics and to publish: QoS 0, one connection.

const encoder = new TextEncoder(), decoder = new TextDecoder();

function variable(value) {
  const bytes = [];
  do {
    const rest = Math.floor(value / 128);
    bytes.push(value % 128 | (rest > 0 ? 128 : 0));
    value = rest;
  } while (value > 0);
  return bytes;
}
const text = value => { const bytes = encoder.encode(value); return [bytes.length >> 8, bytes.length & 255, ...bytes]; };
const packet = (first, ...parts) => { const body = parts.flat(); return Uint8Array.from([first, ...variable(body.length), ...body]); };

function readVariable(bytes, at) {
  let value = 0, factor = 1;
  for (let index = at; index < Math.min(bytes.length, at + 4); index += 1) {
    value += (bytes[index] & 127) * factor;
    factor *= 128;
    if (bytes[index] < 128) return { value, next: index + 1 };
  }
  return null;
}

/// Connects. told: { connected(), refused(words), message({ topic, payload, retain, qos }), ended() }
export function connect(url, { username, password }, told) {
  const socket = new WebSocket(url, 'mqtt');
  socket.binaryType = 'arraybuffer';
  let left = new Uint8Array(0), identifier = 0, timer = null, isIn = false, refusal = null;
  const send = bytes => { if (socket.readyState === WebSocket.OPEN) socket.send(bytes); };
  socket.onopen = () => {
    const flags = 2 | (username ? 128 : 0) | (password ? 64 : 0);
    send(packet(0x10, text('MQTT'), [5, flags, 0, 60], variable(0), text(`dashboard-${Math.random().toString(36).slice(2, 10)}`),
      username ? text(username) : [], password ? text(password) : []));
  };
  socket.onmessage = event => {
    const bytes = new Uint8Array(left.length + event.data.byteLength);
    bytes.set(left);
    bytes.set(new Uint8Array(event.data), left.length);
    let at = 0;
    for (;;) {
      const length = readVariable(bytes, at + 1);
      if (length === null || length.next + length.value > bytes.length) break;
      received(bytes[at], bytes.subarray(length.next, length.next + length.value));
      at = length.next + length.value;
    }
    left = bytes.slice(at);
  };
  socket.onclose = () => {
    clearInterval(timer);
    if (isIn) told.ended(); else told.refused(refusal ?? 'No connection: the listener does not answer, or not to pages of this address.');
  };
  function received(first, body) {
    switch (first >> 4) {
      case 2:
        if (body[1] !== 0) { refusal = `The broker refuses: 0x${body[1].toString(16)}.`; return; }
        isIn = true;
        timer = setInterval(() => send(packet(0xc0)), 30000);
        told.connected();
        break;
      case 3: {
        const qos = first >> 1 & 3, end = 2 + (body[0] << 8 | body[1]);
        const properties = readVariable(body, end + (qos > 0 ? 2 : 0));
        told.message({ topic: decoder.decode(body.subarray(2, end)), payload: body.slice(properties.next + properties.value), retain: (first & 1) === 1, qos });
        break;
      }
      case 9: if (body.at(-1) >= 128) told.refused(`The broker refuses the subscription: 0x${body.at(-1).toString(16)}.`); break;
      case 14: refusal = `The broker ends the connection: 0x${(body[0] ?? 0).toString(16)}.`; break;
    }
  }
  return {
    subscribe(filter) { identifier = identifier % 65535 + 1; send(packet(0x82, [identifier >> 8, identifier & 255, 0], text(filter), [0])); },
    unsubscribe(filter) { identifier = identifier % 65535 + 1; send(packet(0xa2, [identifier >> 8, identifier & 255, 0], text(filter))); },
    publish(topic, payload, retain) { send(packet(0x30 | (retain ? 1 : 0), text(topic), [0], Array.from(encoder.encode(payload)))); },
    end() { send(packet(0xe0)); socket.close(); },
  };
}
