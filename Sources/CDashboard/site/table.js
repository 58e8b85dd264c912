import { h } from './dom.js';

/// A table whose columns sort it and which can be walked through with the arrow keys.
///
/// columns: [{ key, name, cell(row) → node or text, number, sort: name of the order or absent, title }]
/// options: { caption, order: '-dropped', onorder(order), open(row) for a row that leads somewhere, empty: text,
///   pick: { name(row), picked: a Set of names, onpick() } for rows that can be picked }
export function table(columns, { caption, order, onorder, open, empty = 'There are none.', pick }) {
  const body = h('tbody');
  const none = h('p', { class: 'empty', hidden: true }, empty);
  const heads = columns.map(column => {
    const button = column.sort && onorder ? h('button', { type: 'button', onclick: () => sortBy(column) }, column.name) : column.name;
    return h('th', { scope: 'col', class: column.number ? 'number' : null, title: column.title }, button);
  });
  const ticks = new Map();
  const all = pick && h('input', { type: 'checkbox', 'aria-label': 'Select all that are shown', onchange: () => {
    for (const [name, tick] of ticks) { tick.checked = all.checked; mind(name, all.checked); }
    pick.onpick();
  } });
  const mind = (name, is) => { if (is) pick.picked.add(name); else pick.picked.delete(name); };
  if (pick) heads.unshift(h('th', { scope: 'col', class: 'pick' }, h('label', {}, all)));
  const element = h('div', {}, h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
    h('table', {}, h('caption', { class: 'hidden' }, caption), h('thead', {}, h('tr', {}, heads)), body)), none);

  function mark() {
    columns.forEach((column, at) => {
      const index = at + (pick ? 1 : 0);
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
    if (pick) {
      const name = pick.name(value);
      const tick = h('input', { type: 'checkbox', 'aria-label': `Select ${name}`, checked: pick.picked.has(name),
        onchange: () => { mind(name, tick.checked); settle(); pick.onpick(); } });
      ticks.set(name, tick);
      cells.unshift(h('td', { class: 'pick' }, h('label', {}, tick)));
    }
    if (!open) return h('tr', {}, cells);
    const go = () => open(value);
    return h('tr', { tabindex: 0, onclick: event => { if (!event.target.closest('a, button, .pick')) go(); },
      onkeydown: event => {
        if (event.key === 'Enter' && event.target === event.currentTarget) go();
        const next = { ArrowDown: 'nextElementSibling', ArrowUp: 'previousElementSibling' }[event.key];
        if (next) { event.preventDefault(); event.currentTarget[next]?.focus(); }
      } }, cells);
  }
  const settle = () => { if (pick) all.checked = ticks.size > 0 && Array.from(ticks.values()).every(tick => tick.checked); };
  mark();
  return {
    element,
    show(rows) {
      // Whoever is on a row with the keyboard stays on that place.
      const at = Array.from(body.children).indexOf(document.activeElement);
      ticks.clear();
      body.replaceChildren(...rows.map(row));
      settle();
      none.hidden = rows.length > 0;
      if (at >= 0) body.children[at]?.focus();
    },
    add(rows) { body.append(...rows.map(row)); settle(); },
  };
}

/// A table that gets its rows page by page from the broker.
///
/// load(order, cursor) → { data, meta: { cursor, count }, on_disk: how many there are behind all rows, if any }
/// options.compare: in which order all rows stand that were read, where the broker gives them in none; they are shown some at a time.
export function pagedTable(columns, options, load) {
  let order = options.order, cursor = null, shown = 0, generation = 0, all = [], sum = null, onDisk = 0;
  const count = h('span', { class: 'soft' });
  const more = h('button', { type: 'button', hidden: true, onclick: () => shown < all.length ? uncover() : turn(cursor) }, 'More');
  const rows = table(columns, { ...options, onorder: options.onorder && (next => { order = next; options.onorder(next); turn(null); }) });

  async function turn(from) {
    const mine = ++generation;
    element.setAttribute('aria-busy', true);
    let page;
    try {
      page = await load(order, from);
    } finally {
      if (mine === generation) element.removeAttribute('aria-busy');
    }
    if (mine !== generation) return;
    if (from === null) { shown = 0; all = []; }
    [cursor, sum, onDisk] = [page.meta.cursor, page.meta.count, page.on_disk];
    if (options.compare) {
      all = all.concat(page.data).sort(options.compare);
      return uncover();
    }
    if (from === null) rows.show(page.data); else rows.add(page.data);
    shown += page.data.length;
    tellCount();
  }
  /// Shows more of the rows that were read: many at once make a page slow.
  function uncover() {
    shown = Math.min(shown + 200, all.length);
    rows.show(all.slice(0, shown));
    tellCount();
  }
  function tellCount() {
    const whole = cursor === null ? Math.max(shown, all.length) : sum;
    more.hidden = cursor === null && shown === whole;
    // A short list tells its length by itself.
    count.textContent = !more.hidden ? whole != null ? `${shown} of ${whole}` : `first ${shown}` : shown > 20 ? `${shown} in total` : '';
    if (onDisk > 0) count.textContent += `, and ${onDisk} more on disk`;
  }
  const element = h('div', {}, rows.element, h('div', { class: 'row more' }, more, count));
  return { element, reload: () => turn(null), isFirstPage: () => shown <= 50 };
}
