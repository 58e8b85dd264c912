import { h, svg } from './dom.js';
import { clock } from './format.js';

const width = 600, height = 160;

/// A chart of one to four series over time, as a picture and as a table for those who do not see it.
///
/// show({ times: [ms], series: [[number|null]] })
export function chart(title, names, write, thousand = 1000) {
  const paths = names.map((_, index) => svg('path', { class: `s${index}` }));
  const picture = svg('svg', { viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: 'none', role: 'img' },
    svg('title'), svg('desc'), ...[0, .5, 1].map(part => svg('path', { class: 'rule', d: `M0 ${part * height}H${width}` })), ...paths);
  picture.querySelector('title').textContent = title;
  const values = names.map(() => h('b', {}, '–'));
  const legend = h('ul', { class: 'legend' }, names.map((name, index) => h('li', {},
    svg('svg', { viewBox: '0 0 27 10', 'aria-hidden': 'true' }, svg('path', { class: `s${index}`, d: 'M0 5H27' })), `${name} `, values[index])));
  const scale = h('div', { class: 'scale', 'aria-hidden': 'true' }, h('span'), h('span'), h('span'));
  const times = h('div', { class: 'times', 'aria-hidden': 'true' }, h('span'), h('span'));
  const body = h('tbody');
  const table = h('div', { class: 'hidden' }, h('table', {}, h('caption', {}, title),
    h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Time'), names.map(name => h('th', { scope: 'col' }, name)))), body));
  const element = h('figure', { class: 'chart' }, legend, h('div', { class: 'frame' }, scale, picture, times), table);

  function show(data) {
    const known = data.series.flat().filter(value => value !== null);
    const top = niceTop(Math.max(0, ...known), thousand);
    const step = width / Math.max(1, data.times.length - 1);
    data.series.forEach((series, index) => {
      let line = '', isDrawing = false;
      series.forEach((value, at) => {
        if (value === null) { isDrawing = false; return; }
        line += `${isDrawing ? 'L' : 'M'}${(at * step).toFixed(1)} ${(height - value / top * height).toFixed(1)}`;
        isDrawing = true;
      });
      paths[index].setAttribute('d', line);
      values[index].textContent = write(series.findLast(value => value !== null));
    });
    [top, top / 2, 0].forEach((value, index) => { scale.children[index].textContent = write(value); });
    if (data.times.length === 0) return;
    const words = time => clock(time);
    [data.times[0], data.times.at(-1)].forEach((time, index) => { times.children[index].textContent = words(time); });
    picture.querySelector('desc').textContent = names.map((name, index) =>
      `${name}: ${values[index].textContent} now, at most ${write(Math.max(0, ...data.series[index].filter(value => value !== null)))}`).join('; ');
    // A tenth of the points is enough to be read out.
    const every = Math.max(1, Math.ceil(data.times.length / 10));
    body.replaceChildren(...data.times.map((time, at) => at % every === 0 && h('tr', {}, h('th', { scope: 'row' }, words(time)),
      data.series.map(series => h('td', {}, write(series[at]))))).filter(Boolean));
  }
  return { element, show };
}

/// The next of 1, 2, 5, 10 … that is not below a value, of whatever `thousand` makes of its unit: KiB, MiB.
function niceTop(value, thousand) {
  if (value <= 0) return 1;
  const prefix = thousand === 1000 ? 1 : thousand ** Math.max(0, Math.floor(Math.log(value) / Math.log(thousand)));
  const unit = 10 ** Math.floor(Math.log10(value / prefix)) * prefix;
  return [1, 2, 5, 10].find(factor => factor * unit >= value) * unit;
}
