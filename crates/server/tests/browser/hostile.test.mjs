// Five hundred texts that would run if any field were written as markup, in every field that takes a text, on every view.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LOOKS, openTab, screen, startBrowser, startProgram, until } from './harness.mjs';
import { failed } from './filling.mjs';

const COUNT = 500;
const TABS = 4;
let server, browser;

// Made of where a text may stand, what would run there, and how it is disguised; the same 500 every time.
const hostileTexts = () => {
  const run = 'window.hacked=1;alert(1)';
  const openings = ['', '">', "'>", '</title>', '</textarea>', '</script>', '</style>', '-->', ']]>', '</pre></code>', '\u202e', '{{', '${', '&lt;'];
  const elements = [
    `<script>${run}</script>`, `<img src=x onerror="${run}">`, `<svg onload="${run}">`, `<svg><script>${run}</script></svg>`,
    `<body onload="${run}">`, `<input autofocus onfocus="${run}">`, `<details open ontoggle="${run}">`, `<video><source onerror="${run}">`,
    `<iframe srcdoc="<script>parent.hacked=1</script>">`, `<iframe src="javascript:${run}">`, `<a href="javascript:${run}">x</a>`,
    `<form action="javascript:${run}"><button>x</button></form>`, `<math><mi xlink:href="javascript:${run}">`, `<style>@import 'javascript:${run}'</style>`,
    `<meta http-equiv="refresh" content="0;url=javascript:${run}">`, `<base href="//evil.example/">`, `<object data="javascript:${run}">`,
    `<embed src="javascript:${run}">`, `<link rel=stylesheet href="javascript:${run}">`, `<template><script>${run}</script></template>`,
    `" onmouseover="${run}" x="`, `' onfocus='${run}' autofocus x='`, ` onclick=${run} `, `javascript:${run}`, `JaVaScRiPt:${run}`,
    `data:text/html,<script>parent.hacked=1</script>`, `<ScRiPt>${run}</sCrIpT>`, `<img/src=x/onerror=${run}>`, `<img src=x onerror\n=\n"${run}">`,
    `<svg/onload=${run}//`, `<noscript><p title="</noscript><img src=x onerror=${run}>">`, `<xss contenteditable onfocus=${run} autofocus>`,
    `<marquee onstart=${run}>`, `<!--><img src=x onerror=${run}>`, `<![CDATA[<script>${run}</script>]]>`, `constructor.constructor('${run}')()`,
  ];
  const texts = [];
  for (let at = 0; texts.length < COUNT; at += 1) {
    const opening = openings[Math.floor(at / elements.length) % openings.length];
    const element = elements[at % elements.length];
    const coded = at >= openings.length * elements.length;
    texts.push(coded ? `${element.replaceAll('<', '&#60;')}${element} ${at}` : `${opening}${element}`);
  }
  return texts;
};

before(async () => {
  [server, browser] = await Promise.all([startProgram(), startBrowser()]);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

// As a name or key takes it: short, and without control characters, which the API refuses there.
const within = (text, most) => text.replaceAll('\n', ' ').slice(0, most).trim();

const store = async (texts) => {
  const jobs = texts.map((text, at) => ({
    kind: 'hostile', queue: 'hostile', max_retries: 0, tags: [within(text, 60)], business_key: within(`${at} ${text}`, 200),
    correlation_id: within(text, 200), params: { note: text }, payload: { [text]: text, at, list: [text] },
  }));
  for (let at = 0; at < jobs.length; at += 100) await server.post('/api/v1/jobs/batch', { jobs: jobs.slice(at, at + 100) });
  let ended = 0;
  await until('all of them have failed', async () => {
    const claimed = await server.post('/api/v1/work/claim', { worker: within(texts[1], 60), queues: ['hostile'], kinds: ['hostile'], limit: 100 });
    const results = claimed.jobs.map((job) => {
      const text = texts[job.payload.at];
      return { lease: job.lease.token, outcome: { ...failed(text, within(text, 100)), logs: undefined } };
    });
    if (results.length > 0) await server.post('/api/v1/work/finish', { results });
    ended += results.length;
    return ended === COUNT;
  }, 60);
  for (const [at, text] of texts.slice(0, 40).entries()) {
    await server.post('/api/v1/rules', { id: `r${at}`, note: text, matches: { error_type: within(text, 100) }, action: 'permanent', enabled: false });
    await server.post('/api/v1/signals', { key: within(`${at}${text}`, 100).replaceAll('\n', ' '), payload: text }).catch(() => {});
    await server.post('/api/v1/workflows', { name: within(text, 100).replaceAll('\n', ' '), nodes: [{ name: within(`s${text}`, 60).replaceAll('\n', ' '), kind: 'hostile', queue: 'elsewhere' }] }).catch(() => {});
  }
  await server.post('/api/v1/queues/hostile/pause', { note: texts[2] });
};

const views = async () => {
  const paths = ['/', '/redrives', '/redrives/new', '/rejects', '/parked', '/queues', '/workflows', '/signals', '/schedules', '/workers',
    '/bridges', '/handoffs', '/circuits', '/limits', '/rules', '/archive', '/alerts', '/webhooks', '/tokens', '/audit', '/jobs/new',
    '/batches', '/retry-budgets', '/retention'];
  for (const list of ['jobs', 'incidents', 'workflows']) {
    let cursor = '';
    do {
      const page = await server.get(`/api/v1/${list}?limit=50${cursor && `&cursor=${encodeURIComponent(cursor)}`}`);
      paths.push(`/${list}${cursor && `?cursor=${encodeURIComponent(cursor)}`}`);
      for (const one of page.items) paths.push(`/${list}/${one.id ?? one.fingerprint}`);
      cursor = page.next_cursor ?? '';
    } while (cursor);
  }
  return paths;
};

// What a page of ours never has, whatever is stored.
const STRANGE = 'img, iframe, object, embed, video, base, marquee, math, style, template, link:not([rel=stylesheet]):not([rel=icon]), meta[http-equiv]';

// Reads pages with the browser's own parser, which is what decides what a text becomes, and looks at every element.
const readAll = (page, paths) => page.evaluate(async ([paths, strange]) => {
  const wrong = [];
  for (const where of paths) {
    const answer = await fetch(where);
    const parsed = new DOMParser().parseFromString(await answer.text(), 'text/html');
    const handlers = [...parsed.querySelectorAll('*')].flatMap((one) => [...one.attributes])
      .filter(({ name, value }) => name.startsWith('on') || name === 'style' || (['href', 'action', 'src'].includes(name) && !value.startsWith('/') && !value.startsWith('#')));
    const found = { scripts: parsed.scripts.length, strange: parsed.querySelectorAll(strange).length, handlers: handlers.map(({ name, value }) => `${name}=${value}`) };
    if (answer.status >= 500 || found.scripts !== 1 || found.strange > 0 || found.handlers.length > 0) wrong.push({ where, status: answer.status, ...found });
  }
  return wrong;
}, [paths, STRANGE]);

// Opens pages as a person does: whatever can run, runs.
const openAll = async (paths) => {
  const tab = await openTab(browser, LOOKS[0]);
  const wrong = [];
  for (const where of paths) {
    await tab.page.goto(server.base + where);
    if (await tab.page.evaluate(() => Boolean(window.hacked))) wrong.push({ where, ran: true });
    wrong.push(...tab.wrong.splice(0).filter((line) => !line.includes('status of 4')).map((line) => ({ where, line })));
  }
  await tab.context.close();
  return wrong;
};

// In equal shares, one for each tab.
const shares = (paths) => Array.from({ length: TABS }, (_, tab) => paths.filter((_, at) => at % TABS === tab));

test('500 hostile texts in every field, on every view: none runs', async () => {
  const texts = hostileTexts();
  assert.equal(new Set(texts).size, COUNT, 'all of them differ');
  await store(texts);
  const paths = [...await views(), ...texts.map((text) => `/find?q=${encodeURIComponent(within(text, 250))}`)];
  assert.ok(paths.length > 2 * COUNT, `${paths.length} views`);
  const tab = await openTab(browser, LOOKS[0]);
  await tab.page.goto(`${server.base}/incidents`);
  assert.match(await tab.page.locator('main').innerText(), /<script>window\.hacked=1/, 'they are there, as text');
  await screen(tab.page, 'hostile-incidents');
  // The check itself finds what it is for.
  const caught = await tab.page.evaluate(([texts, strange]) => texts.filter((text) => {
    const parsed = new DOMParser().parseFromString(`<a title="${text}">${text}</a>`, 'text/html');
    return parsed.scripts.length > 0 || parsed.querySelectorAll(strange).length > 0
      || [...parsed.querySelectorAll('*')].some((one) => [...one.attributes].some(({ name, value }) => name.startsWith('on') || /^javascript:/i.test(value)));
  }).length, [texts, STRANGE]);
  assert.ok(caught > COUNT * 0.8, `${caught} of ${COUNT} would be found`);
  const wrong = await Promise.all(shares(paths).map((some) => readAll(tab.page, some)));
  assert.deepEqual(wrong.flat(), []);
  await tab.context.close();
  // All lists and every tenth of the rest in full, with their script and their policy.
  const opened = paths.filter((where, at) => where.split('/').length === 2 && !where.startsWith('/find') || at % 10 === 0);
  const ran = await Promise.all(shares(opened).map(openAll));
  assert.deepEqual(ran.flat(), []);
});
