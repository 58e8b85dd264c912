// Elements from values. Nothing here reads markup: what clients call themselves is text, always.

export function h(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'class') element.className = value;
    else if (name === 'value' || name === 'checked' || name === 'disabled' || name === 'selected') element[name] = value;
    else element.setAttribute(name, value === true ? '' : value);
  }
  element.append(...children.flat(9).filter(child => child !== null && child !== undefined && child !== false));
  return element;
}

export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export const panel = (title, ...children) =>
  h('section', { class: 'panel' }, h('header', {}, h('h2', {}, title)), ...children);

export const facts = pairs =>
  h('dl', { class: 'facts' }, pairs.filter(pair => pair && pair[1] !== undefined && pair[1] !== null)
    .map(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));

export const field = (name, input, type = '') => h('label', { class: type }, name, input);

/// Text to copy, as lines of a configuration file. Where the browser gives pages no clipboard, the text is selected.
export function copyable(text, label = 'Lines to copy') {
  const lines = h('pre', { class: 'payload', tabindex: 0, 'aria-label': label }, text);
  const button = h('button', { type: 'button', onclick: async () => {
    try {
      await navigator.clipboard.writeText(lines.textContent);
      button.textContent = 'Copied';
    } catch {
      getSelection().selectAllChildren(lines);
      button.textContent = 'Selected: press Ctrl+C';
    }
  } }, 'Copy');
  return h('div', { class: 'copyable' }, lines, button);
}

/// A choice: options are values, or pairs of a value and the words for it.
export const select = (options, chosen, properties = {}) => h('select', properties, options.map(option => {
  const [value, words] = [option].flat();
  return h('option', { value, selected: value === chosen }, words ?? value);
}));

/// Says something to those who see and those who hear.
export function tell(words) {
  const note = h('p', {}, words);
  document.getElementById('notes').append(note);
  setTimeout(() => note.remove(), 6000);
}

/// Asks before something that cannot be taken back. `word` has to be typed; without one a click is enough. Resolves to the form's values or null.
export function ask({ title, text, word, action, fields = [] }) {
  return new Promise(resolve => {
    const input = word === undefined ? null : h('input', { autocomplete: 'off', spellcheck: 'false', name: 'word' });
    const go = h('button', { class: word === undefined ? 'first' : 'danger', value: 'go', disabled: input !== null }, action);
    input?.addEventListener('input', () => { go.disabled = input.value !== word; });
    const form = h('form', { method: 'dialog' }, h('h2', {}, title), text && h('p', {}, text), fields,
      input && field(['Type ', h('b', {}, word), ' to confirm'], input),
      h('div', { class: 'row' }, h('button', { value: '', formnovalidate: true }, 'Cancel'), go));
    const dialog = h('dialog', { 'aria-label': title }, form);
    dialog.addEventListener('close', () => {
      const values = dialog.returnValue === 'go' ? Object.fromEntries(new FormData(form)) : null;
      dialog.remove();
      resolve(values);
    });
    // Return in a text field presses the first button, which would be Cancel.
    form.addEventListener('keydown', event => {
      if (event.key !== 'Enter' || event.target.tagName !== 'INPUT') return;
      event.preventDefault();
      if (!go.disabled && form.reportValidity()) dialog.close('go');
    });
    document.body.append(dialog);
    dialog.showModal();
    (form.querySelector('input, select') ?? go).focus();
  });
}
