import { h, panel } from '../dom.js';
import * as api from '../api.js';
import { table } from '../table.js';
import { date } from '../format.js';

/// What is wrong with the broker now, and has been since its start.
export default function alarms(page) {
  const severity = row => h('span', { class: row.severity === 'critical' ? 'bad' : 'soft' }, row.severity === 'critical' ? '▲ critical' : 'warning');
  const about = [
    { name: 'Severity', cell: severity }, { name: 'Alarm', cell: row => h('span', { class: 'code whole' }, row.name) },
    { name: 'Subject', cell: row => row.of ?? '–' }, { name: 'Message', cell: row => h('span', { class: 'message' }, row.message) }, { name: 'Raised', cell: row => date(row.raised_at) },
  ];
  const known = { name: 'Acknowledged', cell: row => row.acknowledged_at ? `${date(row.acknowledged_at)} by ${row.acknowledged_by}` : '–' };
  const active = table([...about, known, { name: 'Actions', cell: row => row.acknowledged_at ? '' : page.act('Acknowledge', async () => {
    await api.post(api.path('alarms', row.number, 'acknowledge'));
    await reload();
  }, 'plain') }], { caption: 'Active alarms', empty: 'No alarms are active.' });
  const history = table([...about, { name: 'Cleared', cell: row => date(row.cleared_at) }, known],
    { caption: 'Alarm history', empty: 'No alarms were cleared since the broker has started.' });
  const reload = async () => {
    const answers = await Promise.all([api.get('alarms', { state: 'active', limit: 1000 }), api.get('alarms', { state: 'cleared', limit: 200 })]);
    active.show(answers[0].data);
    history.show(answers[1].data);
  };
  page.every(5000, reload);
  page.listen('events', { types: 'alarm' }, { alarm: event => { if (event.change) page.guard(reload); } });
  return [h('div', { class: 'title' }, h('h1', {}, 'Alarms'), h('p', {}, 'Raised when something is wrong with store, disk, memory, queues, clients, bridges, certificates, clocks or cluster; cleared when all has been well for a while.')),
    panel('Active', active.element), panel('History', history.element)];
}
