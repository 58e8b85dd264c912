import { h, ask, field, panel } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';
import { date } from '../format.js';

export default function access(page) {
  const locked = { disabled: !page.isAdmin, title: page.isAdmin ? null : 'Only administrators may do this.' };
  const tokens = table([
    { name: 'Name', cell: row => row.name }, { name: 'Role', cell: row => row.role }, { name: 'Until', cell: row => row.expires_at ? date(row.expires_at) : 'for ever' },
    { name: '', cell: row => page.act('Delete', async () => {
      if (await ask({ title: 'Delete the token?', text: 'Who uses it is refused at once.', word: row.name, action: 'Delete' }) === null) return;
      await api.remove(api.path('tokens', row.name));
      await list();
    }, 'plain') },
  ], { caption: 'Tokens', empty: 'There are no tokens.' });
  const list = async () => { if (page.isAdmin) tokens.show((await api.get('tokens')).data); };
  const name = h('input', { required: true, pattern: '[A-Za-z0-9._\\-]{1,64}' }), role = h('select', {}, ['viewer', 'metrics', 'admin'].map(value => h('option', { value }, value)));
  const made = h('p', { role: 'status' });
  const make = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
    const token = await api.post('tokens', { name: name.value, role: role.value });
    made.replaceChildren('Shown once: ', h('code', {}, token.token));
    name.value = '';
    await list();
  }); } }, field('Name', name, 'wide'), field('Role', role), h('button', { class: 'first', ...locked }, 'Make a token'));
  page.guard(list);
  return [h('div', { class: 'title' }, h('h1', {}, 'Access')),
    panel('Tokens', page.isAdmin ? [make, made, tokens.element] : h('p', { class: 'empty' }, 'Only administrators see tokens.'))];
}
