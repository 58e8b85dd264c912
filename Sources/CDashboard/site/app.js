import { h, tell } from './dom.js';
import * as api from './api.js';
import { seconds } from './format.js';

// In four groups: what happens, why, who may, and what the broker is made of. Each: what the address has, the title, the file.
const groups = [
  ['Monitor', [['', 'Overview', 'overview'], ['clients', 'Clients', 'clients'], ['topics', 'Topics', 'topics'], ['retained', 'Retained', 'retained']]],
  ['Diagnose', [['alarms', 'Alarms', 'alarms'], ['trouble', 'Diagnostics', 'trouble'], ['log', 'Log', 'log'], ['trace', 'Trace', 'trace'], ['publish', 'Publish and watch', 'publish']]],
  ['Access', [['users', 'Users', 'users'], ['rules', 'Rules', 'rules'], ['bans', 'Bans', 'bans'], ['access', 'API tokens', 'access'], ['audit', 'Audit', 'audit']]],
  ['System', [['listeners', 'Listeners', 'listeners'], ['cluster', 'Cluster', 'cluster'], ['bridges', 'Bridges', 'bridges'], ['configuration', 'Configuration', 'configuration']]],
];
const names = groups.flatMap(([, pages]) => pages);
const main = document.getElementById('main'), menu = document.getElementById('pages'), pause = document.getElementById('pause');
let session = null, leave = [], generation = 0, isPaused = false;

pause.addEventListener('click', () => {
  isPaused = !isPaused;
  pause.setAttribute('aria-pressed', isPaused);
  pause.textContent = isPaused ? 'Paused' : 'Pause';
});

/// What a page may use: it ends with the page.
function context(segments, parameters) {
  const mine = ++generation;
  const isHere = () => mine === generation;
  const guard = work => Promise.resolve().then(work).catch(error => { if (isHere()) failed(error); });
  return {
    segments, parameters, session, isHere, guard,
    isAdmin: session.role === 'admin',
    /// Does something now and every so often, unless the reader has paused or looks elsewhere. Never twice at once.
    every(milliseconds, work) {
      let isAtWork = false;
      const turn = async () => {
        if (isAtWork) return;
        isAtWork = true;
        await guard(work);
        isAtWork = false;
      };
      const timer = setInterval(() => { if (!isPaused && !document.hidden) turn(); }, milliseconds);
      leave.push(() => clearInterval(timer));
      return turn();
    },
    /// Listens to a stream of events; while the reader has paused they pass by.
    listen(where, query, handlers, isConnected) {
      const quiet = Object.fromEntries(Object.entries(handlers).map(([name, handle]) => [name, (value, event) => { if (!isPaused) handle(value, event); }]));
      const end = api.stream(where, query, quiet, isConnected);
      leave.push(end);
      return end;
    },
    onleave: work => leave.push(work),
    /// A button for administrators; others see it, and why it does nothing.
    act(words, work, kind = '') {
      const may = session.role === 'admin';
      return h('button', { type: 'button', class: kind, disabled: !may, title: may ? null : 'Only administrators may do this.',
        onclick: () => guard(work) }, words);
    },
    /// Puts what is looked for into the address, so that it can be given to others.
    keep(values) {
      const kept = new URLSearchParams(Object.entries(values).filter(([, value]) => value));
      history.replaceState(null, '', `#/${segments.map(encodeURIComponent).join('/')}${kept.size ? '?' + kept : ''}`);
    },
  };
}

function failed(error) {
  if (error instanceof api.Refusal && error.status === 401) return login(error);
  console.debug(error);
  tell(error.message);
}

async function show() {
  if (location.hash.startsWith('#token=')) return enter(location.hash.slice(7));
  const [where, query] = location.hash.replace(/^#\/?/, '').split('?');
  const segments = where === '' ? [] : where.split('/').map(decodeURIComponent);
  leave.splice(0).forEach(end => end());
  const parameters = new URLSearchParams(query);
  const known = names.find(([name]) => name === (segments[0] ?? '')) ?? names[0];
  const here = context(segments, parameters);
  for (const link of document.querySelectorAll('#pages a')) {
    if (link.dataset.name !== known[0]) { link.removeAttribute('aria-current'); continue; }
    link.setAttribute('aria-current', 'page');
    // On a phone the pages are a row that scrolls.
    menu.scrollLeft = link.offsetLeft - 60;
  }
  try {
    const page = await import(segments[0] === 'clients' && segments[1] !== undefined ? './pages/client.js' : `./pages/${known[2]}.js`);
    if (!here.isHere()) return;
    const title = segments[1] === undefined ? known[1] : segments[1];
    document.title = `${title} · Martlet`;
    main.replaceChildren(...[await page.default(here)].flat());
  } catch (error) {
    failed(error);
  }
  if (document.activeElement === document.body || document.activeElement?.closest('#pages')) main.focus({ preventScroll: true });
}

async function who() {
  session = await api.get('session');
  const place = document.getElementById('who');
  const isKnown = session.by === 'session';
  place.replaceChildren(h('span', { class: 'soft' }, session.name && session.name !== session.role ? `${session.name}, ${session.role ?? 'no role'} ` : `${session.role ?? 'not logged in'} `),
    isKnown ? h('button', { type: 'button', onclick: logout }, 'Log out') : h('button', { type: 'button', onclick: () => login() }, 'Log in'));
  return session.role === 'viewer' || session.role === 'admin';
}

async function logout() {
  await api.remove('session').catch(failed);
  location.reload();
}

/// An administrator's one-time link.
async function enter(token) {
  history.replaceState(null, '', '#/');
  try {
    await api.post('session', { token });
  } catch (error) {
    tell(error.message);
  }
  start();
}

function login(error) {
  leave.splice(0).forEach(end => end());
  generation += 1;
  const problem = h('p', { class: 'error', role: 'alert' }, error && session?.name ? error.message : '');
  const name = h('input', { name: 'username', autocomplete: 'username', autocapitalize: 'none', spellcheck: 'false' });
  const password = h('input', { name: 'password', type: 'password', autocomplete: 'current-password' });
  const token = h('input', { name: 'token', type: 'password', autocomplete: 'off', spellcheck: 'false', placeholder: 'mrt_…' });
  const form = h('form', { class: 'panel' }, h('h1', {}, 'Log in'),
    h('p', { class: 'soft' }, 'Use a user with a role (', h('code', {}, 'martlet_http_user'), '), an API token, or the link that ', h('code', {}, 'martlet ctl dashboard'), ' prints.'),
    h('label', {}, 'User name', name), h('label', {}, 'Password', password), h('label', {}, 'or API token', token),
    problem, h('div', { class: 'row' }, h('button', { class: 'first' }, 'Log in')));
  form.addEventListener('submit', async event => {
    event.preventDefault();
    try {
      await api.post('session', token.value ? { token: token.value.trim() } : { username: name.value, password: password.value });
      start();
    } catch (refusal) {
      problem.textContent = refusal.message;
    }
  });
  document.title = 'Log in · Martlet';
  main.replaceChildren(form);
  name.focus();
}

/// The page of the cluster is there where there is one.
function showCluster(isThere) { menu.querySelector('[data-name=cluster]').hidden = !isThere; }

/// Whether the menu goes on to the right, where it is a row.
function tellMore() { menu.parentElement.classList.toggle('more', menu.scrollLeft + menu.clientWidth < menu.scrollWidth - 4); }

/// How many alarms are active, beside their page's name.
function showAlarms(count) {
  const link = document.querySelector('#pages [data-name=alarms]');
  link?.replaceChildren('Alarms', ...count ? [' ', h('span', { class: 'badge', title: `${count} active` }, count)] : []);
}

async function tellHealth() {
  const health = document.getElementById('health');
  try {
    const broker = await api.get('broker');
    showCluster(broker.cluster !== null);
    showAlarms(broker.alarms);
    document.getElementById('node').textContent = `${broker.node} · ${broker.version} · up ${seconds(broker.uptime_s)}`;
    health.className = `health ${broker.ready ? 'good' : 'bad'}`;
    health.textContent = broker.ready ? '● ready' : broker.drain ? `▲ ${broker.drain.state}${broker.drain.state === 'draining' ? `, ${broker.drain.connections_left} left` : ''}` : broker.live ? '▲ not ready' : '▲ not live';
  } catch (error) {
    health.className = 'health bad';
    health.textContent = error.status === 0 ? '▲ no answer' : '';
  }
}

async function start() {
  let may = false;
  try { may = await who(); } catch (error) { tell(error.message); }
  if (!may && !location.hash.startsWith('#token=')) return login();
  await Promise.all([show(), may && tellHealth()]);
}

menu.append(...groups.map(([group, pages]) => h('div', { role: 'group', 'aria-label': group }, h('span', { class: 'group', 'aria-hidden': 'true' }, group),
  pages.map(([name, title]) => h('a', { href: `#/${name}`, 'data-name': name, hidden: name === 'cluster' }, title)))));
menu.addEventListener('scroll', tellMore, { passive: true });
addEventListener('resize', tellMore);
tellMore();
document.getElementById('onwards').addEventListener('click', () => menu.scrollBy({ left: menu.clientWidth * .7 }));
addEventListener('hashchange', show);
setInterval(() => { if (!isPaused && !document.hidden && session?.role) tellHealth(); }, 10000);
start();
