import { h } from './dom.js';

/// A table whose columns sort it and which can be walked through with the arrow keys.
///
/// columns: [{ key, name, cell(row) → node or text, number, sort: name of the order or absent, title }]
/// options: { caption, order: '-dropped', onorder(order), open(row) for a row that leads somewhere, empty: text }
export function table(columns, { caption, order, onorder, open, empty = 'Nothing here.' }) {
  const body = h('tbody');
  const none = h('p', { class: 'empty', hidden: true }, empty);
  const heads = columns.map(column => {
    const button = column.sort && onorder ? h('button', { type: 'button', onclick: () => sortBy(column) }, column.name) : column.name;
    return h('th', { scope: 'col', class: column.number ? 'number' : null, title: column.title }, button);
  });
  const element = h('div', {}, h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', { class: 'hidden' }, caption), h('thead', {}, h('tr', {}, heads)), body)), none);

  function mark() {
    columns.forEach((column, index) => {
      const is = column.sort && order?.replace('-', '') === column.sort;
      if (is) heads[index].setAttribute('aria-sort', order.startsWith('-') ? 'descending' : 'ascending');
      else heads[index].removeAttribute('aria-sort');
    });
  }
  function sortBy(column) {
    const largestFirst = column.number;
    order = order === column.sort ? `-${column.sort}` : order === `-${column.sort}` ? column.sort : largestFirst ? `-${column.sort}` : column.sort;
    mark();
    onorder(order);
  }
  function row(value) {
    const cells = columns.map((column, index) => h(index === 0 ? 'th' : 'td',
      { class: column.number ? 'number' : null, scope: index === 0 ? 'row' : null }, column.cell(value)));
    if (!open) return h('tr', {}, cells);
    const go = () => open(value);
    return h('tr', { tabindex: 0, onclick: event => { if (!event.target.closest('a, button')) go(); },
      onkeydown: event => {
        if (event.key === 'Enter' && event.target === event.currentTarget) go();
        const next = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[event.key];
        if (next) { event.preventDefault(); event.currentTarget[next]?.focus(); }
      } }, cells);
  }
  mark();
  return {
    element,
    show(rows) {
      // Whoever is on a row with the keyboard stays on that place.
      const at = Array.from(body.children).indexOf(document.activeElement);
      body.replaceChildren(...rows.map(row));
      none.hidden = rows.length > 0;
      if (at >= 0) body.children[at]?.focus();
    },
    add(rows) { body.append(...rows.map(row)); },
  };
}

/// A table that gets its rows page by page from the broker.
///
/// load(order, cursor) → { data, meta: { cursor, count } }
export function pagedTable(columns, options, load) {
  let order = options.order, cursor = null, shown = 0, generation = 0;
  const count = h('span', { class: 'soft' });
  const more = h('button', { type: 'button', hidden: true, onclick: () => turn(cursor) }, 'More');
  const rows = table(columns, { ...options, onorder: options.onorder && (next => { order = next; options.onorder(next); turn(null); }) });

  async function turn(from) {
    const mine = ++generation;
    const page = await load(order, from);
    if (mine !== generation) return;
    if (from === null) { shown = 0; rows.show(page.data); } else rows.add(page.data);
    shown += page.data.length;
    cursor = page.meta.cursor;
    more.hidden = cursor === null;
    // A short list tells its length by itself.
    count.textContent = cursor !== null ? page.meta.count != null ? `${shown} of ${page.meta.count}` : `first ${shown}` : shown > 20 ? `${shown} in all` : '';
  }
  return { element: h('div', {}, rows.element, h('div', { class: 'row more' }, more, count)), reload: () => turn(null), isFirstPage: () => shown <= 50 };
}
