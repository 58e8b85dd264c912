import { h, tell } from '../dom.js';
import * as api from '../api.js';
import { clock } from '../format.js';

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
const logWords = line => `${clock(line.at)}  ${line.level.padEnd(11)}  ${line.message}`;

export default function log(page) {
  const shown = lines('Log');
  const types = h('div', { class: 'row' });
  page.guard(async () => {
    if (!page.isAdmin) return shown.add('Only administrators may read the log.', 'soft');
    for (const line of (await api.get('log', { lines: 200 })).data) shown.add(logWords(line), kinds[line.level]);
    page.listen('log/stream', {}, { log: line => shown.add(logWords(line), kinds[line.level]) });
    const on = new Set((await api.get('log/types')).types);
    types.replaceChildren(...['error', 'warning', 'notice', 'information', 'subscribe', 'unsubscribe', 'websockets', 'internal', 'debug'].map(type =>
      h('label', { class: 'tick' }, h('input', { type: 'checkbox', checked: on.has(type), onchange: event => page.guard(async () => {
        if (event.target.checked) on.add(type); else on.delete(type);
        await api.put('log/types', { types: [...on] });
        tell('Until the configuration is read again.');
      }) }), type)));
  });
  return [h('div', { class: 'title' }, h('h1', {}, 'Log')), h('section', { class: 'panel' }, types, shown.element)];
}
