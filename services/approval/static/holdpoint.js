// Keys, and news of what a page shows. Every page works without this file: each key follows a link, ticks a box, or puts the focus
// on a button that is there already. Nothing here decides anything by itself.
'use strict';
(() => {
  const find = (selector) => document.querySelector(selector);
  const rows = () => [...document.querySelectorAll('tr[data-id]')];
  const rowAt = () => document.activeElement.closest('tr[data-id]');
  const focus = (element) => { if (element) { element.focus(); element.scrollIntoView({ block: 'nearest' }); } return Boolean(element); };

  // Single keys can be switched off (WCAG 2.1.4). Where nothing can be kept, they are on.
  const kept = () => { try { return localStorage.getItem('holdpoint-keys') !== 'off'; } catch { return true; } };
  const keep = (on) => { try { localStorage.setItem('holdpoint-keys', on ? 'on' : 'off'); } catch { /* for this page only */ } };
  let on = kept();

  const move = (step) => {
    const all = rows();
    const at = all.indexOf(rowAt());
    const row = all[at < 0 ? (step > 0 ? 0 : all.length - 1) : Math.min(Math.max(at + step, 0), all.length - 1)];
    return focus(row && row.querySelector('a'));
  };
  const tick = () => {
    const row = rowAt();
    const box = row && row.querySelector('input[type=checkbox]');
    if (box) box.checked = !box.checked;
    return Boolean(box);
  };
  const together = () => {
    const button = find('#together');
    const any = find('tr[data-id] input[type=checkbox]:checked');
    if (button && any) button.click();
    return Boolean(button && any);
  };
  const next = () => {
    const link = find('a[rel=next]');
    const id = location.pathname.match(/^\/approvals\/([0-9a-f-]{36})/);
    location.assign(link && !link.closest('.pages') ? link.href : '/next' + (id ? '?not=' + id[1] : ''));
    return true;
  };
  const queue = () => { location.assign('/'); return true; };
  const help = () => { const dialog = find('#keys'); if (dialog && !dialog.open) dialog.showModal(); return Boolean(dialog); };
  const keys = {
    j: () => move(1), k: () => move(-1), x: tick, b: together, n: next, q: queue, '?': help,
    '/': () => focus(find('#q')), r: () => focus(find('#reason')), a: () => focus(find('button[value=approve]')),
    ArrowDown: () => Boolean(rowAt()) && move(1), ArrowUp: () => Boolean(rowAt()) && move(-1),
  };
  const typing = (element) => element.isContentEditable || element.matches('textarea, select, input:not([type=checkbox])');

  document.addEventListener('keydown', (event) => {
    if (!on || event.defaultPrevented || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.shiftKey && event.key !== '?') return;
    const at = event.target instanceof Element ? event.target : document.body;
    if (at.closest('dialog')) return;
    if (typing(at)) {
      if (event.key === 'Escape') at.blur();
      return;
    }
    if (Object.hasOwn(keys, event.key) && keys[event.key]()) event.preventDefault();
  });

  const button = find('#keys-button');
  if (button && find('#keys')) {
    button.hidden = false;
    button.addEventListener('click', help);
    find('#keys-on').checked = on;
    find('#keys-on').addEventListener('change', (event) => { on = event.target.checked; keep(on); });
  }

  // A page that can change asks every ten seconds whether it has, while somebody can see it. What is on it stays where it is.
  const main = find('#content[data-live]');
  const news = find('#news');
  if (!main || !news) return;
  const every = 10000;
  let etag = main.dataset.etag;
  const tell = (text, label) => {
    news.textContent = text + ' ';
    const link = document.createElement('a');
    link.href = main.dataset.live.replace(/^\/queue\/state/, '/').replace(/\/state$/, '');
    link.textContent = label;
    news.append(link);
  };
  const changes = (now) => {
    const before = Object.fromEntries(rows().filter((row) => row.dataset.mark).map((row) => [row.dataset.id, row.dataset.mark]));
    const ids = new Set([...Object.keys(before), ...Object.keys(now)]);
    return [...ids].filter((id) => before[id] !== now[id]).length;
  };
  const ask = async () => {
    if (document.hidden) return true;
    const answer = await fetch(main.dataset.live, { headers: { 'If-None-Match': '"' + etag + '"' }, cache: 'no-store' });
    if (answer.status === 401) { tell('You are signed out.', 'Sign in'); return false; }
    if (answer.status === 304) news.replaceChildren();
    if (answer.status !== 200) return true;
    const now = await answer.json();
    if (now.text) {
      tell(now.text, 'Show it as it is now');
      return false;
    }
    const n = changes(now.rows);
    if (n === 0) news.replaceChildren();
    else tell(n === 1 ? '1 change –' : n + ' changes –', n === 1 ? 'show it' : 'show them');
    return true;
  };
  const watch = () => setTimeout(() => { ask().catch(() => true).then((more) => { if (more) watch(); }); }, every);
  watch();
  document.addEventListener('visibilitychange', () => { if (!document.hidden) ask().catch(() => true); });
})();
