import { h, field, select, tell } from '../dom.js';
import * as api from '../api.js';
import { clock, counted } from '../format.js';

/// Lines as they come: the newest below, kept in sight unless the reader has scrolled up.
export function lines(label) {
  const element = h('div', { class: 'log code', role: 'log', 'aria-label': label, tabindex: 0 });
  return { element, add(text, kind = '') {
    const isAtEnd = element.scrollHeight - element.scrollTop - element.clientHeight < 40;
    element.append(h('div', { class: kind }, text));
    while (element.children.length > 1000) element.firstChild.remove();
    if (isAtEnd) element.scrollTop = element.scrollHeight;
  }, clear: () => element.replaceChildren() };
}

const kinds = { error: 'bad', warning: 'warn' };
const levels = ['error', 'warning', 'notice', 'information', 'subscribe', 'unsubscribe', 'websockets', 'internal', 'debug'];
const linesMax = 4096;
const link = (where, words) => h('a', { href: `#/${where}` }, words);

/// A line with ways on: to its client, and to a trace of it.
function words(line, page) {
  // The level stands before it already.
  const beginning = `${clock(line.at)}  ${line.level.padEnd(11)}  ${line.message.replace(/^(Warning|Error): /, '')}`;
  if (line.client === undefined) return [beginning];
  return [beginning, '  ', link(api.path('clients', line.client), 'Client'), ' ', page.isAdmin && link(`trace?clientid=${encodeURIComponent(line.client)}`, 'Trace')];
}

export default function log(page) {
  if (!page.isAdmin) return [h('div', { class: 'title' }, h('h1', {}, 'Log')), h('p', { class: 'empty' }, 'Only administrators may read the log.')];
  const shown = lines('Log'), count = h('span', { class: 'soft', role: 'status' });
  const find = h('input', { type: 'search', value: page.parameters.get('q') ?? '', placeholder: 'text, client, user, address or topic' });
  const level = select([['', 'all'], ['warning', 'warnings and errors'], ['error', 'errors']], page.parameters.get('level') ?? '');
  let all = [];
  const text = line => [line.at, line.level, line.message, line.client, line.user, line.address, line.topic, line.reason].filter(Boolean).join(' ').toLowerCase();
  const fits = line => (level.value === '' || line.level === 'error' || line.level === level.value) && text(line).includes(find.value.trim().toLowerCase());
  const fitting = () => all.filter(fits);
  const tellCount = found => { count.textContent = `${counted(found, 'line')} of ${all.length}`; download.disabled = found === 0; };
  function show() {
    page.keep({ q: find.value.trim(), level: level.value });
    const found = fitting();
    shown.clear();
    for (const line of found.slice(-1000)) shown.add(words(line, page), kinds[line.level]);
    tellCount(found.length);
  }
  const download = h('button', { type: 'button', disabled: true, onclick: () => {
    const lines = fitting().map(line => `${line.at} ${line.level}: ${line.message}\n`);
    const url = URL.createObjectURL(new Blob(lines, { type: 'text/plain' }));
    h('a', { href: url, download: `martlet-${new Date().toISOString().slice(0, 19).replaceAll(':', '')}.log` }).click();
    setTimeout(() => URL.revokeObjectURL(url), 1000);
  } }, 'Download');
  let waiting;
  page.onleave(() => clearTimeout(waiting));
  const form = h('form', { class: 'row', role: 'search', onsubmit: event => { event.preventDefault(); show(); }, oninput: () => { clearTimeout(waiting); waiting = setTimeout(show, 200); } },
    field('Search', find, 'wide'), field('Level', level), download, count);
  const types = h('div', { class: 'row' });
  page.guard(async () => {
    all = (await api.get('log', { lines: linesMax })).data;
    show();
    page.listen('log/stream', {}, { log: line => {
      all.push(line);
      if (all.length > linesMax) all.shift();
      if (fits(line)) shown.add(words(line, page), kinds[line.level]);
      tellCount(fitting().length);
    } });
    const on = new Set((await api.get('log/types')).types);
    types.replaceChildren(...levels.map(type =>
      h('label', { class: 'tick' }, h('input', { type: 'checkbox', checked: on.has(type), onchange: event => page.guard(async () => {
        if (event.target.checked) on.add(type); else on.delete(type);
        await api.put('log/types', { types: [...on] });
        tell('This holds until the next reload or restart.');
      }) }), type)));
  });
  return [h('div', { class: 'title' }, h('h1', {}, 'Log'), h('p', {}, 'The last 4,096 lines. Below: which types are logged.')), h('section', { class: 'panel' }, form, shown.element, types)];
}
