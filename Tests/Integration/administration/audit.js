// What a reader of WCAG 2.2 AA would object to on a page, as lines of text. Run in the page; returns a list.
const problems = [];
const seen = element => {
  const style = getComputedStyle(element), box = element.getBoundingClientRect();
  return style.visibility !== 'hidden' && style.display !== 'none' && box.width > 1 && box.height > 1 && !element.closest('[hidden]');
};
const where = element => `<${element.tagName.toLowerCase()}${element.className && typeof element.className === 'string' ? '.' + element.className.split(' ').join('.') : ''}> ${element.textContent.trim().slice(0, 40)}`;

// Colours as the browser paints them, by painting them.
const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true });
const painted = new Map();
function paint(colour) {
  if (!painted.has(colour)) {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    painted.set(colour, Array.from(canvas.getImageData(0, 0, 1, 1).data));
  }
  return painted.get(colour);
}
function luminance([red, green, blue]) {
  const part = value => { const share = value / 255; return share <= 0.04045 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4; };
  return 0.2126 * part(red) + 0.7152 * part(green) + 0.0722 * part(blue);
}
function ground(element) {
  for (let at = element; at; at = at.parentElement) {
    const colour = paint(getComputedStyle(at).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
}
const contrast = (one, other) => { const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b); return (high + 0.05) / (low + 0.05); };

// 1.4.3: text stands out from its ground.
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const element = texts.currentNode.parentElement;
  if (texts.currentNode.textContent.trim() === '' || !seen(element) || element.closest('button:disabled, script, noscript, .skip:not(:focus)')) continue;
  const style = getComputedStyle(element), size = parseFloat(style.fontSize);
  const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
  const ratio = contrast(paint(style.color), ground(element));
  if (ratio < (isLarge ? 3 : 4.5)) problems.push(`1.4.3 contrast ${ratio.toFixed(2)}: ${where(element)}`);
}
// 1.4.11: so do the edges of what can be typed into.
for (const element of document.querySelectorAll('input:not([type=checkbox]), select, textarea')) {
  if (!seen(element)) continue;
  const ratio = contrast(paint(getComputedStyle(element).borderTopColor), ground(element.parentElement));
  if (ratio < 3) problems.push(`1.4.11 edge ${ratio.toFixed(2)}: ${where(element)}`);
}
// 4.1.2 and 2.4.4: whatever can be used has a name.
function name(element) {
  return element.getAttribute('aria-label') ?? (element.labels?.[0]?.textContent || element.textContent || element.alt || element.title);
}
for (const element of document.querySelectorAll('a, button, input, select, textarea, [role=img], [role=region]')) {
  const title = element.tagName === 'svg' ? element.querySelector('title')?.textContent : name(element);
  if (seen(element) && !title?.trim()) problems.push(`4.1.2 no name: ${element.outerHTML.slice(0, 120)}`);
}
for (const image of document.images) if (!image.hasAttribute('alt')) problems.push(`1.1.1 no text: ${image.src}`);
// 1.3.1: tables have heads, headings follow each other, and there is one of the page.
for (const table of document.querySelectorAll('table')) if (!table.querySelector('th[scope=col]')) problems.push(`1.3.1 a table without heads: ${where(table)}`);
const levels = Array.from(document.querySelectorAll('main h1, main h2, main h3')).map(heading => Number(heading.tagName[1]));
if (levels.filter(level => level === 1).length !== 1) problems.push('1.3.1 not one h1');
levels.forEach((level, at) => { if (at > 0 && level > levels[at - 1] + 1) problems.push(`1.3.1 h${levels[at - 1]} is followed by h${level}`); });
if (!document.documentElement.lang) problems.push('3.1.1 no language');
if (!document.title) problems.push('2.4.2 no title');
for (const landmark of ['header', 'nav', 'main']) if (!document.querySelector(landmark)) problems.push(`1.3.1 no ${landmark}`);
// 4.1.1 of old, and what labels hang on.
const ids = Array.from(document.querySelectorAll('[id]')).map(element => element.id);
for (const id of new Set(ids.filter((value, at) => ids.indexOf(value) !== at))) problems.push(`a second #${id}`);
// 2.5.8: what is pressed is not too small.
for (const element of document.querySelectorAll('button, select, input')) {
  const box = element.getBoundingClientRect();
  if (seen(element) && (element.closest('label') ?? element).getBoundingClientRect().height < 24) problems.push(`2.5.8 ${Math.round(box.height)} px high: ${where(element)}`);
}
// 2.4.3: nothing jumps the queue.
for (const element of document.querySelectorAll('[tabindex]')) if (element.tabIndex > 0) problems.push(`2.4.3 tabindex ${element.tabIndex}: ${where(element)}`);
// 1.4.10: nothing but tables is wider than the screen.
if (document.documentElement.scrollWidth > innerWidth) problems.push(`1.4.10 ${document.documentElement.scrollWidth} px on a screen of ${innerWidth}`);
return problems;
