import { h, field, panel, select } from '../dom.js';
import * as api from '../api.js';
import { pagedTable } from '../table.js';
import { date } from '../format.js';

const kinds = { clientid: 'client', username: 'user name', peerhost: 'address', peerhost_net: 'network' };

/// Bans one, for some hours or for good.
export const ban = (as, who, reason, hours) =>
  api.post('bans', { as, who, reason, ...hours ? { until: new Date(Date.now() + hours * 3600e3).toISOString() } : {} });

/// Who is banned, with a form to ban others, filled in with what the address names.
export default function bans(page) {
  const rows = pagedTable([
    { name: 'Banned', cell: row => [h('span', { class: 'code' }, row.who), row.address ? ` from ${row.address}${row.user ? ` as ${row.user}` : ''} only` : ''] }, { name: 'Type', cell: row => kinds[row.as] }, { name: 'Reason', cell: row => row.reason || '–' },
    { name: 'Created by', cell: row => row.by }, { name: 'Created', cell: row => date(row.at) }, { name: 'Banned until', cell: row => row.until ? date(row.until) : 'permanent' },
    { name: 'Actions', cell: row => page.act('Remove', async () => { await api.remove(api.path('bans', row.as, row.who)); await rows.reload(); }, 'plain') },
  ], { caption: 'Bans', empty: 'There are no bans.' }, async (_, cursor) => {
    const answer = await api.get('bans', { cursor });
    kept.hidden = answer.kept;
    return answer;
  });
  const kept = h('p', { class: 'soft', hidden: true }, 'This broker has no persistence: bans are lost when it restarts.');
  const kind = select(Object.entries(kinds), page.parameters.get('as'));
  const who = h('input', { required: true, value: page.parameters.get('who') ?? '' }), why = h('input', { maxlength: 1024 });
  const hours = h('input', { type: 'number', min: 1, max: 876000, placeholder: 'permanent' });
  const locked = { disabled: !page.isAdmin, title: page.isAdmin ? null : 'Only administrators may do this.' };
  const form = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
    await ban(kind.value, who.value, why.value, hours.value);
    who.value = why.value = hours.value = '';
    await rows.reload();
  }); } }, field('Type', kind), field('Value', who, 'wide'), field('Reason', why, 'wide'), field('Hours', hours), h('button', { class: 'danger', ...locked }, 'Ban'));
  page.guard(rows.reload);
  page.listen('events', { types: 'ban' }, { ban: () => page.guard(rows.reload) });
  return [h('div', { class: 'title' }, h('h1', {}, 'Bans'), h('p', {}, 'Banned clients are disconnected and refused.')), panel('Create a ban', form), panel('Bans', kept, rows.element)];
}
