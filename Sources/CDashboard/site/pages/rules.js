import { h, ask, copyable, field, panel, select, tell } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';

const accesses = [['read', 'read (subscribe)'], ['write', 'write (publish)'], ['readwrite', 'read and write'], ['deny', 'deny']];
const whom = row => row.for === 'user' ? row.username : row.for === 'anonymous' ? h('span', { class: 'soft' }, 'without user name') : h('span', { class: 'soft' }, 'everybody (pattern)');

/// The first certificate of a file, as the Base64 that stands in it; nothing where none is chosen.
async function certificate(input) {
  if (input.files.length === 0) return '';
  const text = await input.files[0].text();
  return (/-----BEGIN CERTIFICATE-----([^-]*)-----END/.exec(text)?.[1] ?? text).replace(/\s/g, '');
}
const certificateInput = () => h('input', { type: 'file', accept: '.pem,.crt,.cer' });
/// Who somebody is by a certificate, in words.
const client = may => [may.username ?? 'without a user name', may.groups.length > 0 && `groups ${may.groups.join(', ')}`, may.roles.length > 0 && `roles ${may.roles.join(', ')}`,
  ...may.attributes.map(each => `${each.name}=${each.value}`), may.mount_point && `topics below ${may.mount_point}`].filter(Boolean).join('; ');

/// "May X do Y?", answered by what is in force.
function check(page, listeners) {
  const given = name => page.parameters.get(name) ?? '';
  const inputs = {
    username: h('input', { value: given('username'), placeholder: 'none' }), clientid: h('input', { value: given('clientid'), placeholder: 'any' }), address: h('input', { value: given('address'), placeholder: 'any' }),
    attributes: h('input', { value: given('attributes'), placeholder: 'floor=2,site=a' }), qos: select([['', 'any'], '0', '1', '2'], given('qos')), retain: select([['', 'either'], ['true', 'yes'], ['false', 'no']], given('retain')),
    groups: h('input', { value: given('groups'), placeholder: 'none' }), roles: h('input', { value: given('roles'), placeholder: 'none' }),
    action: select(['publish', 'subscribe', 'receive'], given('action')), topic: h('input', { value: given('topic'), required: true, placeholder: 'home/lamp' }),
    listener: select(listeners.filter(row => row.protocol !== 'httpapi').map(row => row.name), given('listener')),
  };
  const shown = certificateInput();
  const answer = h('p', { class: 'answer', role: 'status' }), about = h('p', { class: 'soft' });
  const form = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
    const asked = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value]));
    page.keep(asked);
    const may = await api.get('may', { ...asked, certificate: await certificate(shown) });
    answer.className = `answer ${may.allowed ? 'good' : 'bad'}`;
    answer.textContent = [may.reason, may.remark && 'A login may bring rules of its own, which are asked first: see below.'].filter(Boolean).join(' ');
    about.textContent = shown.files.length > 0 || may.mount_point ? client(may) : '';
  }); } }, field('User name', inputs.username), field('Client ID', inputs.clientid), field('Address', inputs.address), field('Attributes', inputs.attributes), field('Groups', inputs.groups), field('Roles', inputs.roles), field('Certificate', shown), field('Action', inputs.action), field('QoS', inputs.qos), field('Retained', inputs.retain),
    field('Topic or filter', inputs.topic, 'wide'), inputs.listener.children.length > 1 && field('Listener', inputs.listener), h('button', { class: 'first' }, 'Check'));
  return panel('May a client do this?', form, answer, about);
}

/// Which source of logins decides about a user, asked as CONNECT would ask.
function login(page, listeners) {
  const inputs = {
    username: h('input', { placeholder: 'none' }), password: h('input', { type: 'password', autocomplete: 'off', placeholder: 'none' }),
    clientid: h('input', { placeholder: 'any' }), address: h('input', { placeholder: 'this one' }),
    action: select([['', 'only log in'], 'publish', 'subscribe', 'receive']), topic: h('input', { placeholder: 'home/lamp' }),
    listener: select(listeners.filter(row => row.protocol !== 'httpapi').map(row => row.name)),
  };
  const shown = certificateInput();
  const answer = h('p', { class: 'answer', role: 'status' }), about = h('p', { class: 'soft' });
  const steps = table([
    { name: 'Source', cell: step => step.source }, { name: 'Answer', cell: step => step.answer }, { name: 'Reason', cell: step => step.reason },
    { name: 'Milliseconds', number: true, cell: step => (step.took_us / 1000).toFixed(1) },
  ], { caption: 'Sources of logins in the order in which they were asked', empty: 'Nobody was asked.' });
  steps.element.hidden = true;
  const form = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
    inputs.topic.required = inputs.action.value !== '';
    if (!form.reportValidity()) return;
    const trial = Object.fromEntries(Object.entries(inputs).map(([name, input]) => [name, input.value]).filter(([, value]) => value !== ''));
    const found = await api.post('logins/explain', shown.files.length > 0 ? { ...trial, certificate: await certificate(shown) } : trial);
    about.textContent = [shown.files.length > 0 && client(found), found.may?.reason].filter(Boolean).join('. ');
    answer.className = `answer ${found.result === 'allowed' ? 'good' : 'bad'}`;
    answer.textContent = found.reason;
    steps.element.hidden = false;
    steps.show(found.steps);
  }); } }, field('User name', inputs.username), field('Password or token', inputs.password), field('Client ID', inputs.clientid), field('Address', inputs.address), field('Certificate', shown), field('Then', inputs.action), field('Topic or filter', inputs.topic),
    inputs.listener.children.length > 1 && field('Listener', inputs.listener), h('button', { class: 'first' }, 'Ask'));
  return panel('Who lets a client in?', form, answer, about, steps.element);
}

function files(page) {
  const place = h('div', { class: 'stack' });
  async function list() {
    const answer = await api.get('files/rules');
    if (answer.files.length === 0) {
      place.replaceChildren(h('p', { class: 'empty' }, 'No listener has an acl_file, so that these rules do not limit anybody. This line in the configuration, and a restart, bring one:'), copyable('acl_file /etc/martlet/acl'));
      return;
    }
    const rules = table([
      { name: 'User', cell: whom }, { name: 'Access', cell: row => [h('span', { class: row.access === 'deny' ? 'bad' : null }, row.access), row.conditions && h('div', { class: 'soft code' }, row.conditions)] },
      { name: 'Topic', cell: row => h('span', { class: 'code' }, row.topic) }, { name: 'Line', cell: row => h('span', { class: 'code' }, `${row.file}:${row.line}`) },
      { name: 'Actions', cell: row => h('div', { class: 'row' },
        page.act('Edit', async () => {
          const values = await ask({ title: 'Edit the rule', text: row.text, action: 'Save', fields: [field('Access', select(accesses, row.access, { name: 'access' })), field('Conditions', h('input', { name: 'conditions', value: row.conditions ?? '', placeholder: 'none' })), field('Topic', h('input', { name: 'topic', required: true, value: row.topic }))] });
          if (values === null) return;
          await api.put(api.path('files', 'rules', row.line), { file: row.file, text: row.text, access: values.access, conditions: values.conditions, topic: values.topic });
          tell('The rule is changed and in force.');
          await list();
        }, 'plain'),
        page.act('Delete', async () => {
          if (await ask({ title: 'Delete the rule?', text: row.text, action: 'Delete' }) === null) return;
          await api.remove(api.path('files', 'rules', row.line), { file: row.file, text: row.text });
          tell('The rule is deleted.');
          await list();
        }, 'plain')) },
    ], { caption: 'Rules of acl_file', empty: 'There are no rules: nobody may do anything.' });
    rules.show(answer.data);
    const kind = select([['user', 'a user'], ['anonymous', 'clients without user name'], ['everybody', 'everybody (pattern)']]);
    const name = h('input', { required: true, value: page.parameters.get('username') ?? '' }), access = select(accesses), conditions = h('input', { placeholder: 'none' }), topic = h('input', { required: true, placeholder: 'home/#' });
    const file = select(answer.files.map(each => each.path));
    const named = field('User name', name);
    const settle = () => { named.hidden = kind.value !== 'user'; name.required = kind.value === 'user'; topic.placeholder = kind.value === 'everybody' ? 'devices/%c/#' : 'home/#'; };
    kind.addEventListener('change', settle);
    settle();
    const form = h('form', { class: 'row', onsubmit: event => { event.preventDefault(); page.guard(async () => {
      await api.post('files/rules', { for: kind.value, ...kind.value === 'user' ? { username: name.value } : {}, access: access.value, conditions: conditions.value, topic: topic.value, file: file.value });
      tell('The rule is in force.');
      await list();
    }); } }, field('For', kind), named, field('Access', access), field('Conditions', conditions), field('Topic', topic, 'wide'), answer.files.length > 1 && field('File', file), h('button', { class: 'first' }, 'Add rule'));
    place.replaceChildren(...answer.files.filter(each => each.trouble).map(each => h('p', { class: 'bad' }, each.trouble)), form, rules.element,
      h('p', { class: 'soft' }, 'In a pattern %u is the user name, %c the client ID and %{client_attrs.NAME} what a login says of the client. A rule that denies comes before those that allow. Conditions are qos<=1, retain=no, from=10.0.0.0/8 and the like, with commas between.'));
  }
  page.guard(list);
  return panel('Rules of acl_file', place);
}

export default async function rules(page) {
  const title = h('div', { class: 'title' }, h('h1', {}, 'Rules'), h('p', {}, 'Who may publish and subscribe to what. The rules of dynamic security are on the page ', h('a', { href: '#/users' }, 'Users'), '.'));
  if (!page.isAdmin) return [title, h('p', { class: 'empty' }, 'Only administrators see rules.')];
  const listeners = (await api.get('listeners')).data;
  return [title, check(page, listeners), login(page, listeners), files(page)];
}
