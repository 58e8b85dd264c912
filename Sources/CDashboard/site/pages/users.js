import { h, ask, field, panel, tell } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';

const kinds = ['publishClientSend', 'publishClientReceive', 'subscribePattern', 'subscribeLiteral', 'unsubscribePattern', 'unsubscribeLiteral'];

/// Clients, groups and roles of dynamic security: a command each, by the same messages as on $CONTROL.
export default function users(page) {
  const title = h('div', { class: 'title' }, h('h1', {}, 'Users'), h('p', {}, 'Who may log in by dynamic security, and what they may do.'));
  if (!page.isAdmin) return [title, h('p', { class: 'empty' }, 'Only administrators see users, groups and roles.')];

  async function perform(...commands) {
    const { responses } = await api.post('security/commands', { commands });
    const refused = responses.find(response => response.error);
    if (refused) throw new Error(`${refused.command}: ${refused.error}.`);
    return responses.map(response => response.data);
  }
  const change = command => page.guard(async () => { await perform(command); await list(); });
  const remove = (command, name, what) => page.act('Delete', async () => {
    if (await ask({ title: `Delete the ${what}?`, text: 'Whoever it concerns is disconnected.', word: Object.values(name)[0], action: 'Delete' }) === null) return;
    await perform({ command, ...name });
    await list();
  }, 'plain');
  /// A button that asks for values, and gives them to a command.
  const act = (words, title, fields, command) => page.act(words, async () => {
    const values = await ask({ title, action: words, fields });
    if (values === null) return;
    await perform(command(values));
    await list();
  }, 'plain');
  const names = rows => rows.join(', ') || '–';
  const input = (name, more = {}) => h('input', { name, required: true, ...more });

  const clients = table([
    { name: 'User name', cell: row => row.username },
    { name: 'Client Identifier', cell: row => row.clientid ?? 'any' },
    { name: 'Roles', cell: row => names(row.roles.map(role => role.rolename)) },
    { name: 'Groups', cell: row => names(row.groups.map(group => group.groupname)) },
    { name: 'Connected from', cell: row => names((row.connections ?? []).map(connection => connection.address)) },
    { name: '', cell: row => h('div', { class: 'row' },
      act('Password', `Password of ${row.username}`, [field('New password', input('password', { type: 'password', autocomplete: 'new-password' }))],
        ({ password }) => ({ command: 'setClientPassword', username: row.username, password })),
      act('Add role', `A role for ${row.username}`, [field('Role', input('rolename'))],
        ({ rolename }) => ({ command: 'addClientRole', username: row.username, rolename })),
      row.roles.length > 0 && act('Take role', `Take a role from ${row.username}`, [field('Role', h('select', { name: 'rolename' },
        row.roles.map(role => h('option', { value: role.rolename }, role.rolename))))],
        ({ rolename }) => ({ command: 'removeClientRole', username: row.username, rolename })),
      page.act(row.disabled ? 'Enable' : 'Disable', () => change({ command: row.disabled ? 'enableClient' : 'disableClient', username: row.username }), 'plain'),
      remove('deleteClient', { username: row.username }, 'user')) },
  ], { caption: 'Users', empty: 'There are no users.' });

  const groups = table([
    { name: 'Group', cell: row => row.groupname },
    { name: 'Roles', cell: row => names(row.roles.map(role => role.rolename)) },
    { name: 'Users', number: true, cell: row => String(row.clients.length) },
    { name: '', cell: row => h('div', { class: 'row' },
      act('Add user', `A user for ${row.groupname}`, [field('User name', input('username'))],
        ({ username }) => ({ command: 'addGroupClient', groupname: row.groupname, username })),
      act('Add role', `A role for ${row.groupname}`, [field('Role', input('rolename'))],
        ({ rolename }) => ({ command: 'addGroupRole', groupname: row.groupname, rolename })),
      remove('deleteGroup', { groupname: row.groupname }, 'group')) },
  ], { caption: 'Groups', empty: 'There are no groups.' });

  const roles = table([
    { name: 'Role', cell: row => row.rolename },
    { name: 'Rules', cell: row => row.acls.length === 0 ? '–' : h('ul', { class: 'plain' }, row.acls.map(acl =>
      h('li', {}, `${acl.allow ? 'allow' : 'deny'} ${acl.acltype} `, h('span', { class: 'code' }, acl.topic), ' ',
        page.act('Remove', () => change({ command: 'removeRoleACL', rolename: row.rolename, acltype: acl.acltype, topic: acl.topic }), 'plain')))) },
    { name: '', cell: row => h('div', { class: 'row' },
      act('Add rule', `A rule for ${row.rolename}`, [
        field('What', h('select', { name: 'acltype' }, kinds.map(kind => h('option', { value: kind }, kind)))),
        field('Topic', input('topic')), field('Says', h('select', { name: 'allow' }, ['allow', 'deny'].map(word => h('option', { value: word }, word))))],
        ({ acltype, topic, allow }) => ({ command: 'addRoleACL', rolename: row.rolename, acltype, topic, allow: allow === 'allow' })),
      remove('deleteRole', { rolename: row.rolename }, 'role')) },
  ], { caption: 'Roles', empty: 'There are no roles.' });

  async function list() {
    const all = { verbose: true, count: 500 };
    const [some, teams, rights] = await perform({ command: 'listClients', ...all }, { command: 'listGroups', ...all }, { command: 'listRoles', ...all });
    clients.show(some.clients);
    groups.show(teams.groups);
    roles.show(rights.roles);
    if (some.totalCount > some.clients.length) tell(`The first ${some.clients.length} of ${some.totalCount} users are shown.`);
  }
  /// A form that makes something of a name, and for a user of a password.
  function maker(words, member, command, withPassword) {
    const name = h('input', { required: true }), password = h('input', { type: 'password', autocomplete: 'new-password', required: true });
    return h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
      await perform({ command, [member]: name.value, ...withPassword ? { password: password.value } : {} });
      name.value = password.value = '';
      await list();
    }); } }, field('Name', name, 'wide'), withPassword && field('Password', password), h('button', { class: 'first' }, words));
  }
  const content = h('div');
  page.guard(async () => {
    const { options } = await api.get('config');
    if (!options.some(option => option.name.includes('plugin') && option.value?.includes('mosquitto_dynamic_security'))) {
      content.replaceChildren(h('p', { class: 'empty' }, 'This broker has no dynamic security: see plugin mosquitto_dynamic_security in its configuration.'));
      return;
    }
    content.replaceChildren(panel('Users', maker('Make a user', 'username', 'createClient', true), clients.element),
      panel('Groups', maker('Make a group', 'groupname', 'createGroup'), groups.element), panel('Roles', maker('Make a role', 'rolename', 'createRole'), roles.element));
    await list();
  });
  return [title, content];
}
