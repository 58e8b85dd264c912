import { h, ask, field, panel, select } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';
import { date } from '../format.js';

const day = 86400e3;
const lifetimes = [[1, '1 day'], [7, '7 days'], [30, '30 days'], [90, '90 days'], [365, '1 year'], ['', 'no expiry']];

export default function access(page) {
  const title = h('div', { class: 'title' }, h('h1', {}, 'API tokens'), h('p', {}, 'For programs that use the HTTP API, read the metrics or run martlet ctl.'));
  if (!page.isAdmin) return [title, h('p', { class: 'empty' }, 'Only administrators see API tokens.')];
  const tokens = table([
    { name: 'Name', cell: row => row.name }, { name: 'Role', cell: row => row.role },
    { name: 'Expires', cell: row => row.expires_at === null ? h('span', { class: 'warn' }, 'never') : h('span', { class: Date.parse(row.expires_at) < Date.now() ? 'bad' : null }, date(row.expires_at)) },
    { name: 'Actions', cell: row => page.act('Delete', async () => {
      if (await ask({ title: 'Delete the token?', text: 'Programs that use it are refused from now on.', word: row.name, action: 'Delete' }) === null) return;
      await api.remove(api.path('tokens', row.name));
      await list();
    }, 'plain') },
  ], { caption: 'API tokens', empty: 'There are no API tokens.' });
  const list = async () => tokens.show((await api.get('tokens')).data);
  const name = h('input', { required: true, pattern: '[A-Za-z0-9._\\-]{1,64}', title: 'Up to 64 letters, digits and . _ -' }), role = select(['viewer', 'metrics', 'admin']);
  const lifetime = select(lifetimes, 90);
  const made = h('p', { role: 'status' });
  const make = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
    const expires = lifetime.value === '' ? {} : { expires_at: new Date(Date.now() + Number(lifetime.value) * day).toISOString() };
    const token = await api.post('tokens', { name: name.value, role: role.value, ...expires });
    made.replaceChildren('Copy it now, it is not shown again: ', h('code', {}, token.token));
    name.value = '';
    await list();
  }); } }, field('Name', name, 'wide'), field('Role', role), field('Expires in', lifetime), h('button', { class: 'first' }, 'Create token'));
  page.guard(list);
  return [title, panel('Tokens', make, made, tokens.element)];
}
