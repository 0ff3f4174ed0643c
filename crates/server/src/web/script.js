// What the page does beyond links and forms: it looks for changes and puts them in place, copies ids, and opens the
// palette. Without it everything can be read. Nothing here makes markup of its own: it moves what the server made.
(() => {
  'use strict';
  const every = Number(document.body.dataset.every || 0);
  const status = document.querySelector('.connection');

  const isBusy = (place) =>
    place.contains(document.activeElement) && document.activeElement !== document.body
      || place.querySelector('details[open]')
      || (!getSelection().isCollapsed && place.contains(getSelection().anchorNode));

  // Puts what is new into a place that is there, unless somebody is using it.
  const renew = (place, fresh) => {
    if (place.innerHTML === fresh.innerHTML || isBusy(place)) return;
    place.replaceChildren(...fresh.cloneNode(true).childNodes);
    place.className = fresh.className;
  };

  const renewPlaces = (fresh) => {
    for (const place of document.querySelectorAll('[data-live]')) {
      const other = fresh.querySelector(`[data-live="${CSS.escape(place.dataset.live)}"]`);
      if (other) renew(place, other);
    }
  };

  // Rows that are known change in place; new ones wait behind a button, so that nothing moves under a finger.
  const renewRows = (fresh) => {
    for (const rows of document.querySelectorAll('[data-rows]')) {
      const other = fresh.querySelector(`[data-rows="${CSS.escape(rows.dataset.rows)}"]`);
      const isEmpty = fresh.querySelector(`[data-empty="${CSS.escape(rows.dataset.rows)}"]`);
      if (!other && !isEmpty) continue;
      const known = new Map([...rows.children].map((row) => [row.dataset.key, row]));
      const told = new Map([...(other?.children || [])].map((row) => [row.dataset.key, row]));
      const added = [...told.keys()].filter((key) => !known.has(key)).length;
      const pushed = pushedOff([...known.keys()], told, added > 0 && fresh.querySelector('a[rel="next"]'));
      for (const [key, row] of known) {
        row.classList.toggle('gone', !told.has(key) && !pushed.has(key));
        if (told.has(key)) renew(row, told.get(key));
      }
      offer(rows, other, added);
    }
  };

  // Rows at the end that new ones have moved to the next page: they are still there, only not on this one.
  const pushedOff = (keys, told, isFull) => {
    const pushed = new Set();
    if (!isFull) return pushed;
    for (let at = keys.length - 1; at >= 0 && !told.has(keys[at]); at -= 1) pushed.add(keys[at]);
    return pushed;
  };

  // Where it said that there is nothing yet, what has come takes that place: nothing moves but an empty note.
  const fill = (fresh) => {
    for (const note of document.querySelectorAll('[data-empty]')) {
      const rows = fresh.querySelector(`[data-rows="${CSS.escape(note.dataset.empty)}"]`);
      if (rows && !isBusy(note)) note.replaceWith((rows.closest('.wide') || rows).cloneNode(true));
    }
  };

  const offer = (rows, other, added) => {
    const box = rows.closest('.wide') || rows;
    let more = box.previousElementSibling;
    if (!more || !more.classList.contains('more')) more = null;
    if (!added) { if (more) more.remove(); return; }
    if (!more) {
      more = document.createElement('button');
      more.className = 'more';
      box.before(more);
    }
    more.textContent = `${added} new`;
    more.onclick = () => { rows.replaceChildren(...other.cloneNode(true).children); more.remove(); };
  };

  // What was said of a change belongs to that change, and not to whoever opens or reloads the address later.
  const done = document.querySelector('[data-said]');
  if (done) {
    setTimeout(() => {
      const here = new URL(location.href);
      here.searchParams.delete('done');
      history.replaceState(null, '', here);
      done.classList.add('past');
    }, 15000);
  }

  // A button that is pressed twice asks once.
  document.addEventListener('submit', (event) => {
    const form = event.target;
    if (form.method !== 'post') return;
    if (form.dataset.sent) { event.preventDefault(); return; }
    form.dataset.sent = 'yes';
    setTimeout(() => delete form.dataset.sent, 5000);
  });

  let looking = false;
  const look = async () => {
    if (looking || document.hidden) return;
    looking = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: 'text/html' }, cache: 'no-store' });
      if (answer.redirected && new URL(answer.url).pathname === '/login') { location.reload(); return; }
      if (!answer.ok) throw new Error(String(answer.status));
      const fresh = new DOMParser().parseFromString(await answer.text(), 'text/html');
      renewPlaces(fresh);
      fill(fresh);
      renewRows(fresh);
      if (status) status.hidden = true;
    } catch {
      if (status) status.hidden = false;
    } finally {
      looking = false;
    }
  };
  if (every) {
    setInterval(look, every);
    document.addEventListener('visibilitychange', look);
  }

  // On a narrow screen the navigation is a line that scrolls: where one is should be in sight.
  document.querySelector('.places [aria-current]')?.scrollIntoView({ inline: 'center', block: 'nearest' });

  const toast = (text) => {
    const note = document.createElement('p');
    note.className = 'toast';
    note.setAttribute('role', 'status');
    note.textContent = text;
    document.body.append(note);
    setTimeout(() => note.remove(), 1500);
  };
  const copy = async (text) => {
    try { await navigator.clipboard.writeText(text); toast('Copied'); } catch { toast('The browser does not let us copy'); }
  };
  document.addEventListener('click', (event) => {
    const place = event.target.closest('[data-copy]');
    if (place && getSelection().isCollapsed) copy(place.dataset.copy);
  });

  const palette = document.querySelector('.palette');
  const open = () => {
    if (!palette || palette.open) return;
    palette.showModal();
    palette.querySelector('input').select();
  };
  document.addEventListener('keydown', (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') { event.preventDefault(); open(); return; }
    const typing = event.target.closest('input, textarea, select');
    if (typing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === '/') { event.preventDefault(); document.querySelector('.find input').focus(); }
    if (event.key === 'c') {
      const id = document.querySelector('[data-copy-main]');
      if (id) copy(id.dataset.copy);
    }
  });
  if (palette) {
    const input = palette.querySelector('input');
    const lines = [...palette.querySelectorAll('li')];
    const shown = () => lines.filter((line) => !line.hidden);
    input.addEventListener('input', () => {
      const wanted = input.value.trim().toLowerCase();
      for (const line of lines) line.hidden = !line.textContent.toLowerCase().includes(wanted);
    });
    palette.addEventListener('keydown', (event) => {
      const links = shown().map((line) => line.firstElementChild);
      const place = links.indexOf(document.activeElement);
      if (event.key === 'ArrowDown') { event.preventDefault(); (links[place + 1] || links[0] || input).focus(); }
      if (event.key === 'ArrowUp') { event.preventDefault(); (links[place - 1] || input).focus(); }
      if (event.key === 'Enter' && event.target === input && input.value.trim() && shown().length === 1) {
        event.preventDefault();
        location.assign(links[0].href);
      }
    });
    palette.addEventListener('click', (event) => { if (event.target === palette) palette.close(); });
  }
})();
