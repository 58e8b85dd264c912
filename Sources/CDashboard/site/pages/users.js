import { h, ask, copyable, field, panel, select, tell } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';

const kinds = ['publishClientSend', 'publishClientReceive', 'subscribePattern', 'subscribeLiteral', 'unsubscribePattern', 'unsubscribeLiteral'];
const names = rows => rows.join(', ') || '–';
const input = (name, more = {}) => h('input', { name, required: true, ...more });
/// What a rule asks beside its topic, in words.
const conditions = acl => [acl.qos && ` QoS ${acl.qos.join(', ')}`, acl.retain !== undefined && (acl.retain ? ' retained' : ' not retained'), acl.from && ` from ${acl.from.join(', ')}`];
/// What stands before all topics of whom a row is about, under its name.
const mountPoint = row => row.mountpoint && h('div', { class: 'soft' }, 'topics below ', h('span', { class: 'code' }, row.mountpoint));
const newPassword = () => field('New password', input('password', { type: 'password', autocomplete: 'new-password' }));

/// Users of password_file, in one panel.
function fileUsers(page) {
  const place = h('div', { class: 'stack' });
  const several = files => files.length > 1;
  async function list() {
    const answer = await api.get('files/users');
    if (answer.files.length === 0) {
      place.replaceChildren(h('p', { class: 'empty' }, 'No listener has a password_file. With these two lines in the configuration, and a restart, users log in with a password:'),
        copyable('password_file /etc/martlet/users\nallow_anonymous false'));
      return;
    }
    const users = table([
      { name: 'User name', cell: row => row.username },
      { name: 'Hash', cell: row => row.hash }, { name: 'File', cell: row => h('span', { class: 'code' }, `${row.file}:${row.line}`) },
      { name: 'Actions', cell: row => h('div', { class: 'row' },
        page.act('Set password', async () => {
          const values = await ask({ title: `Password of ${row.username}`, text: 'Clients that are connected with the old password are disconnected.', action: 'Set password', fields: [newPassword()] });
          if (values === null) return;
          await api.put(api.path('files', 'users', row.username), { password: values.password, file: row.file });
          tell(`${row.username} has a new password.`);
          await list();
        }, 'plain'),
        h('a', { href: `#/rules?username=${encodeURIComponent(row.username)}` }, 'Rules'),
        page.act('Delete', async () => {
          if (await ask({ title: 'Delete the user?', text: 'Clients that are connected under this name are disconnected.', word: row.username, action: 'Delete' }) === null) return;
          await api.remove(api.path('files', 'users', row.username), { file: row.file });
          await list();
        }, 'plain')) },
    ], { caption: 'Users of password_file', empty: 'There are no users.' });
    users.show(answer.data);
    const name = h('input', { required: true }), password = h('input', { type: 'password', autocomplete: 'new-password', required: true });
    const file = select(answer.files.map(each => each.path));
    const form = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
      await api.post('files/users', { username: name.value, password: password.value, file: file.value });
      tell(`${name.value} can log in now.`);
      await list();
    }); } }, field('User name', name, 'wide'), field('Password', password), several(answer.files) && field('File', file), h('button', { class: 'first' }, 'Create user'));
    place.replaceChildren(...answer.files.filter(each => each.trouble).map(each => h('p', { class: 'bad' }, each.trouble)), form, users.element,
      h('p', { class: 'soft' }, answer.files.map(each => `${each.path}: ${each.listeners.join(', ')}`).join('; ')));
  }
  page.guard(list);
  return panel('Password file', place);
}

/// Clients, groups and roles of dynamic security: a command each, by the same messages as on $CONTROL.
function dynamic(page) {
  async function perform(...commands) {
    const { responses } = await api.post('security/commands', { commands });
    const refused = responses.find(response => response.error);
    if (refused) throw new Error(`${refused.command}: ${refused.error}.`);
    return responses.map(response => response.data);
  }
  const change = command => page.guard(async () => { await perform(command); await list(); });
  const remove = (command, name, what) => page.act('Delete', async () => {
    if (await ask({ title: `Delete the ${what}?`, text: 'Clients that it concerns are disconnected.', word: Object.values(name)[0], action: 'Delete' }) === null) return;
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

  const mount = (name, row, command) => act('Mount point', `Mount point of ${Object.values(name)[0]}`,
    [field('Before all topics', h('input', { name: 'mountpoint', value: row.mountpoint ?? '', placeholder: 'tenants/%u/' }))],
    ({ mountpoint }) => ({ command, ...name, mountpoint }));

  const clients = table([
    { name: 'User name', cell: row => [row.username, mountPoint(row), row.connections?.length > 0 && h('div', { class: 'soft' }, `from ${names(row.connections.map(connection => connection.address))}`)] },
    { name: 'Client ID', cell: row => row.clientid ?? 'any' },
    { name: 'Roles', cell: row => names(row.roles.map(role => role.rolename)) },
    { name: 'Groups', cell: row => names(row.groups.map(group => group.groupname)) },
    { name: 'Actions', cell: row => h('div', { class: 'row wraps' },
      act('Set password', `Password of ${row.username}`, [newPassword()],
        ({ password }) => ({ command: 'setClientPassword', username: row.username, password })),
      act('Add role', `Add a role to ${row.username}`, [field('Role', input('rolename'))],
        ({ rolename }) => ({ command: 'addClientRole', username: row.username, rolename })),
      row.roles.length > 0 && act('Remove role', `Remove a role from ${row.username}`, [field('Role', select(row.roles.map(role => role.rolename), undefined, { name: 'rolename' }))],
        ({ rolename }) => ({ command: 'removeClientRole', username: row.username, rolename })),
      mount({ username: row.username }, row, 'modifyClient'),
      page.act(row.disabled ? 'Enable' : 'Disable', () => change({ command: row.disabled ? 'enableClient' : 'disableClient', username: row.username }), 'plain'),
      remove('deleteClient', { username: row.username }, 'user')) },
  ], { caption: 'Users of dynamic security', empty: 'There are no users.' });

  const groups = table([
    { name: 'Group', cell: row => [row.groupname, mountPoint(row)] },
    { name: 'Roles', cell: row => names(row.roles.map(role => role.rolename)) },
    { name: 'Users', number: true, cell: row => String(row.clients.length) },
    { name: 'Actions', cell: row => h('div', { class: 'row' },
      act('Add user', `Add a user to ${row.groupname}`, [field('User name', input('username'))],
        ({ username }) => ({ command: 'addGroupClient', groupname: row.groupname, username })),
      act('Add role', `Add a role to ${row.groupname}`, [field('Role', input('rolename'))],
        ({ rolename }) => ({ command: 'addGroupRole', groupname: row.groupname, rolename })),
      mount({ groupname: row.groupname }, row, 'modifyGroup'),
      remove('deleteGroup', { groupname: row.groupname }, 'group')) },
  ], { caption: 'Groups', empty: 'There are no groups.' });

  const roles = table([
    { name: 'Role', cell: row => [row.rolename, mountPoint(row)] },
    { name: 'Rules', cell: row => row.acls.length === 0 ? '–' : h('ul', { class: 'plain' }, row.acls.map(acl =>
      h('li', {}, `${acl.allow ? 'allow' : 'deny'} ${acl.acltype} `, h('span', { class: 'code' }, acl.topic), conditions(acl), ' ',
        page.act('Remove', () => change({ command: 'removeRoleACL', rolename: row.rolename, acltype: acl.acltype, topic: acl.topic, qos: acl.qos ?? null, retain: acl.retain ?? null, from: acl.from ?? null }), 'plain')))) },
    { name: 'Actions', cell: row => h('div', { class: 'row' },
      act('Add rule', `Add a rule to ${row.rolename}`, [
        field('Type', select(kinds, undefined, { name: 'acltype' })), field('Topic', input('topic')), field('Permission', select(['allow', 'deny'], undefined, { name: 'allow' })),
        field('QoS', select([['', 'any'], ['0', '0'], ['0,1', '0 or 1'], ['1', '1'], ['1,2', '1 or 2'], ['2', '2']], undefined, { name: 'qos' })), field('Retained', select([['', 'either'], ['true', 'yes'], ['false', 'no']], undefined, { name: 'retain' })),
        field('From', h('input', { name: 'from', placeholder: 'any address or network' }))],
        ({ acltype, topic, allow, qos, retain, from }) => ({ command: 'addRoleACL', rolename: row.rolename, acltype, topic, allow: allow === 'allow',
          ...qos ? { qos: qos.split(',').map(Number) } : {}, ...retain ? { retain: retain === 'true' } : {}, ...from.trim() ? { from: from.trim().split(/[ ,]+/) } : {} })),
      mount({ rolename: row.rolename }, row, 'modifyRole'),
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
  /// A form that creates something with a name, and for a user with a password.
  function maker(words, member, command, withPassword) {
    const name = h('input', { required: true }), password = h('input', { type: 'password', autocomplete: 'new-password', required: true });
    return h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
      await perform({ command, [member]: name.value, ...withPassword ? { password: password.value } : {} });
      name.value = password.value = '';
      await list();
    }); } }, field('Name', name, 'wide'), withPassword && field('Password', password), h('button', { class: 'first' }, words));
  }
  const content = h('div', { class: 'stack' });
  page.guard(async () => {
    const { options } = await api.get('config');
    if (!options.some(option => option.name.includes('plugin') && option.value?.includes('mosquitto_dynamic_security'))) {
      content.replaceChildren(panel('Dynamic security', h('p', { class: 'empty' }, 'Dynamic security is off. It has users, groups and roles that change while the broker runs. These two lines in the configuration, and a restart, switch it on:'),
        copyable('plugin mosquitto_dynamic_security.so\nplugin_opt_config_file /var/lib/martlet/dynamic-security.json'),
        h('p', { class: 'soft' }, 'The first start creates the file with the user admin, and its password in the file of the same name that ends in .pw.')));
      return;
    }
    content.replaceChildren(panel('Dynamic security: users', maker('Create user', 'username', 'createClient', true), clients.element),
      panel('Groups', maker('Create group', 'groupname', 'createGroup'), groups.element), panel('Roles', maker('Create role', 'rolename', 'createRole'), roles.element));
    await list();
  });
  return content;
}

export default function users(page) {
  const title = h('div', { class: 'title' }, h('h1', {}, 'Users'), h('p', {}, 'Who may log in, by password file and by dynamic security.'));
  if (!page.isAdmin) return [title, h('p', { class: 'empty' }, 'Only administrators see users, groups and roles.')];
  return [title, fileUsers(page), dynamic(page)];
}
