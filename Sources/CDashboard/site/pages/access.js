import { h, ask, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { pagedTable, table } from '../table.js';
import { date } from '../format.js';

const kinds = { clientid: 'client', username: 'user name', peerhost: 'address', peerhost_net: 'network' };

export default function access(page) {
  const bans = pagedTable([
    { name: 'Who', cell: row => h('span', { class: 'code' }, row.who) }, { name: 'Is a', cell: row => kinds[row.as] }, { name: 'Why', cell: row => row.reason || '–' },
    { name: 'By', cell: row => row.by }, { name: 'Since', cell: row => date(row.at) }, { name: 'Until', cell: row => row.until ? date(row.until) : 'for ever' },
    { name: '', cell: row => page.act('Lift', async () => { await api.remove(api.path('bans', row.as, row.who)); await bans.reload(); }, 'plain') },
  ], { caption: 'Bans', empty: 'Nobody is banned.' }, (_, cursor) => api.get('bans', { cursor }));
  const kind = h('select', {}, Object.entries(kinds).map(([value, words]) => h('option', { value }, words)));
  const who = h('input', { required: true }), why = h('input'), hours = h('input', { type: 'number', min: 1, placeholder: 'for ever' });
  const locked = { disabled: !page.isAdmin, title: page.isAdmin ? null : 'Only administrators may do this.' };
  const ban = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
    await api.post('bans', { as: kind.value, who: who.value, reason: why.value, ...hours.value ? { until: new Date(Date.now() + hours.value * 3600e3).toISOString() } : {} });
    who.value = why.value = hours.value = '';
    await bans.reload();
  }); } }, field('Ban a', kind), field('Name', who, 'wide'), field('Why', why, 'wide'), field('Hours', hours), h('button', { class: 'danger', ...locked }, 'Ban'));

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
  page.guard(bans.reload);
  page.guard(list);
  return [h('div', { class: 'title' }, h('h1', {}, 'Access')), panel('Bans', ban, bans.element),
    panel('Tokens', page.isAdmin ? [make, made, tokens.element] : h('p', { class: 'empty' }, 'Only administrators see tokens.'))];
}
