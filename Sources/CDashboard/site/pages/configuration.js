import { h, ask, panel } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';

export default async function configuration(page) {
  if (!page.isAdmin) return [h('div', { class: 'title' }, h('h1', {}, 'Configuration')), h('p', { class: 'empty' }, 'Only administrators see the configuration.')];
  const found = h('div', { role: 'status' }), file = h('p'), isAll = h('input', { type: 'checkbox', onchange: () => show() });
  const rows = table([
    { name: 'Option', cell: row => h('span', { class: 'code' }, row.name) }, { name: 'Value', cell: row => h('span', { class: 'code' }, row.value ?? '–') },
    { name: 'Listener', cell: row => row.listener ?? '–' }, { name: 'From', cell: row => row.default ? h('span', { class: 'soft' }, 'default') : `${row.file?.split('/').at(-1) ?? ''}:${row.line ?? ''}` },
    { name: 'Takes effect', cell: row => row.reloads ? 'at reload' : 'at start' },
  ], { caption: 'Options', empty: 'Everything is as it is by default.' });
  let options = [];
  const show = () => rows.show(options.filter(row => isAll.checked || !row.default));
  async function load() {
    const config = await api.get('config');
    options = config.options;
    file.textContent = config.file ?? 'Started without a configuration file.';
    show();
  }
  const tellResult = (result, well) => found.replaceChildren(h('p', { class: result.ok ? 'good' : 'bad' }, result.ok ? well : 'Not as it stands:'),
    ...result.diagnostics.map(line => h('p', { class: line.severity === 'error' ? 'bad' : 'warn' }, `${line.file ? `${line.file}:${line.line ?? ''}: ` : ''}${line.message}`)));
  const check = async () => tellResult(await api.post('config/check'), 'The file is right.');
  async function reload() {
    if (await ask({ title: 'Read the configuration again?', action: 'Reload' }) === null) return;
    const result = await api.post('config/reload');
    tellResult(result, 'The configuration is in force.');
    await load();
  }
  page.guard(load);
  return [h('div', { class: 'title' }, h('h1', {}, 'Configuration'), h('span', { class: 'spring' }), page.act('Check the file', check), page.act('Reload', reload, 'first')),
    h('section', { class: 'panel' }, file, found, h('label', { class: 'tick' }, isAll, 'Show defaults too'), rows.element)];
}
