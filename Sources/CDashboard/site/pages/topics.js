import { h, field } from '../dom.js';
import * as api from '../api.js';
import { pagedTable, table } from '../table.js';
import { bytes, counted, number } from '../format.js';
import { clientLink } from './clients.js';

/// A tree whose levels are asked for when they are opened.
function level(page, under) {
  const list = h('ul'), more = h('button', { type: 'button', hidden: true }, 'More');
  let cursor = null;
  async function load() {
    const answer = await api.get('topics/tree', { under: under ?? '', cursor, limit: 100 });
    list.append(...answer.data.map(row => leaf(page, row)));
    cursor = answer.meta.cursor;
    more.hidden = cursor === null;
    if (list.children.length === 0) list.append(h('li', { class: 'empty' }, 'No topic has a subscription or a retained message.'));
  }
  more.addEventListener('click', () => page.guard(load));
  page.guard(load);
  return [list, more];
}

function leaf(page, row) {
  const words = [row.subscriptions > 0 && counted(row.subscriptions, 'subscription'), row.retained > 0 && `${number(row.retained)} retained`].filter(Boolean).join(', ');
  const name = h('span', { class: 'code' }, row.name === '' ? '(empty level)' : row.name);
  if (!row.children) return h('li', {}, h('div', { class: 'leaf' }, h('span', { class: 'soft' }, '·'), name, h('span', { class: 'value' }, words)));
  const below = h('div', { hidden: true });
  const button = h('button', { type: 'button', 'aria-expanded': 'false', 'aria-label': `Levels below ${row.topic}`, onclick: () => {
    below.hidden = !below.hidden;
    button.setAttribute('aria-expanded', !below.hidden);
    button.textContent = below.hidden ? '▸' : '▾';
    if (below.children.length === 0) below.append(...level(page, row.topic));
  } }, '▸');
  return h('li', {}, h('div', { class: 'leaf' }, button, name, h('span', { class: 'value' }, words)), below);
}

export default function topics(page) {
  const topic = h('input', { value: page.parameters.get('matches') ?? '', placeholder: 'a/topic', required: true });
  const reached = h('div');
  const reach = event => {
    event?.preventDefault();
    page.keep({ matches: topic.value });
    const rows = pagedTable([
      { name: 'Client', cell: row => clientLink(row.clientid) }, { name: 'Filter', cell: row => h('span', { class: 'code' }, row.filter) },
      { name: 'QoS', number: true, cell: row => number(row.qos) }, { name: 'Share', cell: row => row.share ?? '–' },
    ], { caption: 'Receivers', empty: 'No client would receive it.' }, (_, cursor) => api.get('subscriptions', { matches: topic.value, cursor }));
    reached.replaceChildren(rows.element);
    page.guard(rows.reload);
  };
  const filter = h('input', { placeholder: 'a/+/#', required: true });
  const rate = value => value < 10 ? value.toFixed(1) : number(Math.round(value));
  const metrics = table([
    { name: 'Filter', cell: row => h('span', { class: 'code' }, row.filter) },
    { name: 'In', number: true, cell: row => number(row.in_messages) }, { name: 'In/s', number: true, cell: row => rate(row.in_rate) },
    { name: 'Out', number: true, cell: row => number(row.out_messages) }, { name: 'Out/s', number: true, cell: row => rate(row.out_rate) },
    { name: 'Dropped', number: true, cell: row => h('span', { class: row.dropped > 0 ? 'warn' : null }, number(row.dropped)) },
    { name: 'In, bytes', number: true, cell: row => bytes(row.in_bytes) }, { name: 'Out, bytes', number: true, cell: row => bytes(row.out_bytes) },
    { name: 'Actions', cell: row => page.act('Delete', async () => { await api.remove('topic-metrics', { filter: row.filter }); measure(); }, 'plain') },
  ], { caption: 'Topic metrics', empty: 'There are no topic metrics. Add a filter to count its messages.' });
  const measure = async () => metrics.show((await api.get('topic-metrics')).data);
  const count = event => { event.preventDefault(); page.guard(async () => { await api.post('topic-metrics', { filter: filter.value }); filter.value = ''; await measure(); }); };
  if (topic.value) reach();
  page.every(3000, measure);
  return [
    h('div', { class: 'title' }, h('h1', {}, 'Topics')),
    h('div', { class: 'grid' },
      h('section', { class: 'panel' }, h('h2', {}, 'Topic tree'), h('p', { class: 'soft' }, 'Subscriptions and retained messages, level by level.'), h('div', { class: 'tree' }, level(page))),
      h('section', { class: 'panel' }, h('h2', {}, 'Who would receive this?'), h('form', { class: 'row', onsubmit: reach }, field('Topic', topic, 'wide'), h('button', { class: 'first' }, 'Show')), reached)),
    h('section', { class: 'panel' }, h('h2', {}, 'Topic metrics'),
      h('form', { class: 'row', onsubmit: count }, field('Filter', filter, 'wide'),
        h('button', { disabled: !page.isAdmin, title: page.isAdmin ? null : 'Only administrators may do this.' }, 'Add')), metrics.element),
  ];
}
