// As much of an MQTT 5.0 client as a page needs to watch topics: QoS 0, one connection.

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

const reasons = {
  0x80: 'Unspecified error', 0x81: 'Malformed Packet', 0x82: 'Protocol Error', 0x83: 'Implementation specific error', 0x84: 'Unsupported Protocol Version', 0x85: 'Client Identifier not valid',
  0x86: 'Bad User Name or Password', 0x87: 'Not authorized', 0x88: 'Server unavailable', 0x89: 'Server busy', 0x8a: 'Banned', 0x8b: 'Server shutting down', 0x8c: 'Bad authentication method',
  0x8d: 'Keep Alive timeout', 0x8e: 'Session taken over', 0x8f: 'Topic Filter invalid', 0x90: 'Topic Name invalid', 0x91: 'Packet Identifier in use', 0x93: 'Receive Maximum exceeded',
  0x94: 'Topic Alias invalid', 0x95: 'Packet too large', 0x96: 'Message rate too high', 0x97: 'Quota exceeded', 0x98: 'Administrative action', 0x99: 'Payload format invalid', 0x9a: 'Retain not supported',
  0x9b: 'QoS not supported', 0x9c: 'Use another server', 0x9d: 'Server moved', 0x9e: 'Shared Subscriptions not supported', 0x9f: 'Connection rate exceeded', 0xa0: 'Maximum connect time',
  0xa1: 'Subscription Identifiers not supported', 0xa2: 'Wildcard Subscriptions not supported',
};
const sizes = { 0x11: 4, 0x13: 2, 0x21: 2, 0x22: 2, 0x24: 1, 0x25: 1, 0x27: 4, 0x28: 1, 0x29: 1, 0x2a: 1 };

/// The Reason String among properties that begin at `at`; nothing if there is none.
function reasonString(bytes, at) {
  const length = at < bytes.length ? readVariable(bytes, at) : null;
  if (length === null) return '';
  const string = from => (bytes[from] << 8 | bytes[from + 1]) + 2;
  for (let place = length.next; place < length.next + length.value;) {
    const name = bytes[place];
    place += 1;
    if (name === 0x1f) return decoder.decode(bytes.subarray(place + 2, place + string(place)));
    if (name === 0x26) { place += string(place); place += string(place); }
    else place += sizes[name] ?? string(place);
  }
  return '';
}

/// A reason code as people read it: `Topic Filter invalid (0x8F): the reason string`.
function words(code, more) {
  const name = `${reasons[code] ?? 'Reason'} (0x${code.toString(16).toUpperCase().padStart(2, '0')})`;
  return more ? `${name}: ${more}` : name;
}

/// Connects. told: { connected(), refused(words), subscribed(), message({ topic, payload, retain, qos }), ended(words) }
export function connect(url, told) {
  const socket = new WebSocket(url, 'mqtt');
  socket.binaryType = 'arraybuffer';
  let left = new Uint8Array(0), identifier = 0, timer = null, isIn = false, refusal = null;
  const send = bytes => { if (socket.readyState === WebSocket.OPEN) socket.send(bytes); };
  socket.onopen = () => {
    send(packet(0x10, text('MQTT'), [5, 2, 0, 60], variable(0), text(`dashboard-${Math.random().toString(36).slice(2, 10)}`)));
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
    if (isIn) told.ended(refusal ?? 'The broker has closed the connection.'); else told.refused(refusal);
  };
  function received(first, body) {
    switch (first >> 4) {
      case 2:
        if (body[1] !== 0) { refusal = words(body[1], reasonString(body, 2)); return; }
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
      case 9: if (body.at(-1) >= 128) told.refused(words(body.at(-1), reasonString(body, 2))); else told.subscribed(); break;
      case 14: refusal = words(body[0] ?? 0, reasonString(body, 1)); break;
    }
  }
  return {
    subscribe(filter) { identifier = identifier % 65535 + 1; send(packet(0x82, [identifier >> 8, identifier & 255, 0], text(filter), [0])); },
    end() { send(packet(0xe0)); socket.close(); },
  };
}
