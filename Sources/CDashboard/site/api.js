// The broker's HTTP API, as openapi.json says it.

const root = '../api/martlet/v1/';

/// What the broker answered instead of what was asked for.
export class Refusal extends Error {
  constructor(status, code, message) { super(message); this.status = status; this.code = code; }
}

const query = parameters => {
  const pairs = Object.entries(parameters ?? {}).filter(([, value]) => value !== '' && value !== null && value !== undefined && value !== false);
  return pairs.length === 0 ? '' : '?' + new URLSearchParams(pairs);
};

/// Path segments are given apart, so that a Client Identifier may hold anything.
export const path = (...segments) => segments.map(encodeURIComponent).join('/');

async function call(method, where, parameters, body) {
  let answer;
  try {
    answer = await fetch(root + where + query(parameters), {
      method, credentials: 'same-origin', cache: 'no-store',
      ...body === undefined ? {} : { headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) },
    });
  } catch {
    throw new Refusal(0, 'UNREACHABLE', 'The broker does not answer.');
  }
  const text = await answer.text();
  const value = answer.headers.get('Content-Type')?.startsWith('application/json') && text !== '' ? JSON.parse(text) : null;
  if (!answer.ok && !(answer.status === 422 && value)) throw new Refusal(answer.status, value?.code ?? '', value?.message ?? `Status ${answer.status}.`);
  return value;
}

export const get = (where, parameters) => call('GET', where, parameters);
export const post = (where, body, parameters) => call('POST', where, parameters, body);
export const patch = (where, body) => call('PATCH', where, undefined, body);
export const put = (where, body) => call('PUT', where, undefined, body);
export const remove = (where, parameters) => call('DELETE', where, parameters);
export const href = (where, parameters) => root + where + query(parameters);

/// Events as they happen. handlers: { name: (value) => … }. Returns what ends it.
export function stream(where, parameters, handlers, isConnected = () => {}) {
  const source = new EventSource(root + where + query(parameters));
  for (const [name, handle] of Object.entries(handlers)) source.addEventListener(name, event => handle(JSON.parse(event.data), event));
  source.onopen = () => isConnected(true);
  source.onerror = () => isConnected(false);
  return () => source.close();
}
