import { h, ask, panel } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';

export default async function configuration(page) {
  if (!page.isAdmin) return [h('div', { class: 'title' }, h('h1', {}, 'Configuration')), h('p', { class: 'empty' }, 'Only administrators see the configuration.')];
  const found = h('div', { role: 'status' }), file = h('p'), isAll = h('input', { type: 'checkbox', onchange: () => show() });
  const rows = table([
    { name: 'Option', cell: row => h('span', { class: 'code' }, row.name) }, { name: 'Value', cell: row => h('span', { class: 'code' }, row.value ?? '–') },
    { name: 'Listener', cell: row => row.listener ?? '–' }, { name: 'Source', cell: row => row.default ? h('span', { class: 'soft' }, 'default') : `${row.file?.split('/').at(-1) ?? ''}:${row.line ?? ''}` },
    { name: 'Takes effect', cell: row => row.reloads ? 'at reload' : 'at restart' },
  ], { caption: 'Options', empty: 'All options have their defaults.' });
  let options = [];
  const show = () => rows.show(options.filter(row => isAll.checked || !row.default));
  async function load() {
    const config = await api.get('config');
    options = config.options;
    file.textContent = config.file ?? 'Started without a configuration file.';
    show();
  }
  const tellResult = (result, well) => found.replaceChildren(h('p', { class: result.ok ? 'good' : 'bad' }, result.ok ? well : 'There are errors:'),
    ...result.diagnostics.map(line => h('p', { class: line.severity === 'error' ? 'bad' : 'warn' }, `${line.file ? `${line.file}:${line.line ?? ''}: ` : ''}${line.message}`)));
  const check = async () => tellResult(await api.post('config/check'), 'The configuration file is OK.');
  async function reload() {
    if (await ask({ title: 'Reload the configuration?', action: 'Reload' }) === null) return;
    const result = await api.post('config/reload');
    tellResult(result, 'Reloaded.');
    await load();
  }
  page.guard(load);
  return [h('div', { class: 'title' }, h('h1', {}, 'Configuration'), h('span', { class: 'spring' }), page.act('Check file', check), page.act('Reload', reload, 'first')),
    h('section', { class: 'panel' }, file, found, h('label', { class: 'tick' }, isAll, 'Show defaults'), rows.element)];
}
