// The incident: a partner breaks, 500 jobs fail, one incident; a canary halts; the partner is mended; the plan completes.

import assert from 'node:assert/strict';
import http from 'node:http';
import { after, before, test } from 'node:test';
import { LOOKS, axe, openTab, screen, startBrowser, startProgram, until } from './harness.mjs';

const JOBS = 500;
let partner, server, browser, isBroken = true;

before(async () => {
  partner = http.createServer((request, response) => {
    request.resume();
    response.writeHead(isBroken ? 422 : 200, { 'content-type': 'text/plain' });
    response.end(isBroken ? 'the field `vat_id` is unknown' : 'thanks');
  });
  await new Promise((done) => partner.listen(0, '127.0.0.1', done));
  const { port } = partner.address();
  const settings = `[handlers.http]\nallow_private = true\nports = [${port}]\n`;
  [server, browser] = await Promise.all([startProgram({ settings }), startBrowser()]);
  const job = (number) => ({
    kind: 'http',
    queue: 'default',
    max_retries: 0,
    payload: { method: 'POST', url: `http://127.0.0.1:${port}/orders`, body: { order: number, country: 'de', plan: number % 2 ? 'basic' : 'team' } },
  });
  const jobs = Array.from({ length: JOBS }, (_, number) => job(number));
  await server.post('/api/v1/jobs/batch', { jobs });
  await until('all of them are dead', async () => {
    const { items } = await server.get('/api/v1/queues');
    return items.reduce((sum, queue) => sum + queue.failed, 0) === JOBS;
  }, 90);
});

after(async () => {
  await browser?.close();
  await server?.stop();
  partner?.close();
});

test('from the alarm to the last job, by clicks alone', async () => {
  const { context, page, wrong } = await openTab(browser, LOOKS[0]);
  await page.goto(server.base);
  // The answer is first: one thing, and what it is.
  assert.match(await page.locator('h1').innerText(), /1 thing needs you/);
  await page.locator('.needs a').first().click();
  assert.match(await page.locator('main').innerText(), /500 jobs of http are dead of this now/);
  assert.match(await page.locator('.common').innerText(), /country = de\s+100 %/);
  assert.deepEqual(await axe(page), []);
  await screen(page, 'story-1-incident');

  await page.getByRole('link', { name: 'Drive 500 jobs again' }).click();
  await page.getByRole('button', { name: 'Count' }).click();
  assert.match(await page.locator('.found').innerText(), /500 would go/);
  assert.match(await page.locator('.will').innerText(), /500 jobs go back to their queues: 1 first, the rest after it succeeds/);
  assert.deepEqual(await axe(page), []);
  await screen(page, 'story-2-dry-run');

  await page.getByRole('button', { name: 'Make the plan' }).click();
  await page.waitForURL(/\/redrives\/[^n]/);
  const plan = page.url();
  assert.match(await page.locator('.done').innerText(), /Nothing is driven before you start it/);
  // Nothing happens on one click: the first one says what will.
  await page.locator('summary', { hasText: 'Start' }).click();
  assert.match(await page.locator('details[open]').innerText(), /500 jobs go back to their queues: 1 first/);
  await page.getByRole('button', { name: 'Start', exact: true }).click();

  // The partner is still broken: the canary halts the plan, and the page says so without being asked.
  await page.getByText('Why it halted').waitFor({ timeout: 60_000 });
  const counts = await page.locator('.counts').innerText();
  assert.match(counts, /Driven\s+1\b/, 'one job was driven, and no other');
  assert.deepEqual(await axe(page), []);
  await screen(page, 'story-3-halted');
  const { items } = await server.get('/api/v1/queues');
  assert.equal(items.reduce((sum, queue) => sum + queue.failed, 0), JOBS, 'none was lost');

  isBroken = false;
  await page.goto(plan);
  await page.locator('summary', { hasText: 'Resume with a canary' }).click();
  await page.getByRole('button', { name: 'Resume with a canary', exact: true }).click();
  await until('the page shows the end of the plan', async () =>
    (await page.locator('.stages [aria-current]').innerText()) === 'done', 90);
  assert.match(await page.locator('.counts').innerText(), new RegExp(`Succeeded\\s+${JOBS}`));
  await screen(page, 'story-4-done');

  await page.goto(server.base);
  assert.match(await page.locator('h1').innerText(), /All is well/);
  await screen(page, 'story-5-well');
  assert.deepEqual(wrong, []);
  await context.close();

  // Every step of it stands in the audit log, as calls of the API.
  const log = await server.get('/api/v1/audit?limit=100');
  const paths = log.items.map((line) => line.route);
  for (const route of ['/api/v1/redrives', '/api/v1/redrives/{id}/start', '/api/v1/redrives/{id}/resume']) {
    assert.ok(paths.includes(route), `${route} is in the audit log`);
  }
});
