// Every view: it answers, reads well without scripts, fits, has nothing for axe, and can be walked by keyboard.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { LOOKS, axe, isTooWide, openTab, screen, startBrowser, startProgram, until } from './harness.mjs';
import { fill } from './filling.mjs';

let server, browser, views;

before(async () => {
  [server, browser] = await Promise.all([startProgram(), startBrowser()]);
  views = await fill(server);
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

for (const look of LOOKS) {
  test(`every view, ${look.name}`, async () => {
    const { context, page, wrong } = await openTab(browser, look);
    for (const [name, where, expected] of views) {
      const answer = await page.goto(server.base + where);
      assert.equal(answer.status(), 200, where);
      assert.match(await page.locator('main').innerText(), expected, where);
      assert.equal(await isTooWide(page), false, `${where} is wider than the window`);
      await screen(page, `${name}-${look.name}`);
      assert.deepEqual(await axe(page), [], where);
      assert.deepEqual(wrong, [], where);
    }
    await context.close();
  });
}

test('every view reads without scripts', async () => {
  const { context, page } = await openTab(browser, LOOKS[0], { javaScriptEnabled: false });
  for (const [, where, expected] of views) {
    await page.goto(server.base + where);
    assert.match(await page.locator('main').innerText(), expected, where);
  }
  await context.close();
});

test('numbers change in place, new rows wait, and a lost connection is said and made good', async () => {
  const { context, page } = await openTab(browser);
  await page.goto(`${server.base}/jobs?tag=live`);
  const rows = page.locator('tbody tr');
  const before = await rows.count();
  await server.post('/api/v1/jobs', { kind: 'nobody.knows', tags: ['live'] });
  const more = page.locator('button.more');
  await more.waitFor();
  assert.equal(await more.innerText(), '1 new');
  assert.equal(await rows.count(), before, 'nothing has moved');
  await more.click();
  assert.equal(await rows.count(), before + 1);

  await page.goto(`${server.base}/queues`);
  await page.evaluate(() => { window.kept = document.querySelector('tbody tr'); });
  const row = page.locator('tr[data-key="default"]');
  const said = await row.innerText();
  await context.setOffline(true);
  await page.locator('.connection:not([hidden])').waitFor();
  await server.post('/api/v1/queues/default/pause', { note: 'a test' });
  await context.setOffline(false);
  await page.locator('.connection').waitFor({ state: 'hidden' });
  await until('the row has changed', async () => (await row.innerText()) !== said);
  assert.ok(await page.evaluate(() => window.kept.isConnected), 'the row is the same one');
  await server.post('/api/v1/queues/default/resume');
  await context.close();
});

test('a list that was empty fills by itself, and rows that are only pushed off do not fade', async () => {
  const { context, page } = await openTab(browser);
  await page.goto(`${server.base}/jobs?tag=later`);
  assert.match(await page.locator('main').innerText(), /No job is like that/);
  await server.post('/api/v1/jobs', { kind: 'nobody.knows', tags: ['later'] });
  await page.locator('tbody tr').first().waitFor();
  assert.equal(await page.locator('p.empty').count(), 0);
  const jobs = Array.from({ length: 59 }, () => ({ kind: 'nobody.knows', tags: ['later'] }));
  await server.post('/api/v1/jobs/batch', { jobs });
  await page.locator('button.more').waitFor();
  await page.locator('button.more').click();
  assert.equal(await page.locator('tbody tr').count(), 50);
  await server.post('/api/v1/jobs', { kind: 'nobody.knows', tags: ['later'] });
  await page.locator('button.more').waitFor();
  assert.equal(await page.locator('tbody tr.gone').count(), 0, 'they are on the next page');
  await context.close();
});

test('the keyboard reaches everything and is trapped nowhere; Ctrl-K goes anywhere', async () => {
  const { context, page } = await openTab(browser);
  await page.goto(`${server.base}/queues`);
  const order = [];
  for (let presses = 0; presses < 80; presses += 1) {
    await page.keyboard.press('Tab');
    order.push(await page.evaluate(() => document.activeElement === document.body ? 'body' : document.activeElement.outerHTML.slice(0, 120)));
    if (order.at(-1) === 'body') break;
  }
  assert.match(order[0], /class="skip"/, 'the first is the way past the navigation');
  assert.ok(order.includes('body'), 'the way leads out again');
  assert.ok(order.some((one) => one.includes('<summary')), 'actions are on the way');
  await page.keyboard.press('Control+k');
  await page.locator('dialog.palette[open]').waitFor();
  await page.keyboard.type('sched');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/schedules');
  await page.keyboard.press('Control+k');
  await page.keyboard.press('Escape');
  assert.equal(await page.locator('dialog.palette[open]').count(), 0);
  await context.close();
});

test('what is found: a job by the beginning of its id, a tag, an error', async () => {
  const { context, page } = await openTab(browser);
  const { items } = await server.get('/api/v1/jobs?tag=live&limit=1');
  await page.goto(`${server.base}/jobs?tag=live`);
  const shown = await page.locator('tbody td code').first().innerText();
  await page.goto(`${server.base}/find?q=${encodeURIComponent(shown)}`);
  assert.match(page.url(), new RegExp(`/jobs/${items[0].id}$`), 'an id as lists show it');
  await page.goto(`${server.base}/find?q=${items[0].id}`);
  assert.match(page.url(), new RegExp(`/jobs/${items[0].id}$`));
  await page.goto(`${server.base}/find?q=live`);
  assert.match(await page.locator('main').innerText(), /Jobs with this tag/);
  await page.goto(`${server.base}/find?q=card+was+declined`);
  assert.match(await page.locator('main').innerText(), /Incidents[\s\S]*the card was declined/);
  await context.close();
});
