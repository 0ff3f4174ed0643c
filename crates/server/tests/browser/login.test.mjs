// Logging in with a token, what it shows and hides, and how it ends.

import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { axe, openTab, screen, startBrowser, startProgram } from './harness.mjs';

let server, browser, admin;

before(async () => {
  [server, browser] = await Promise.all([startProgram(), startBrowser()]);
  await server.post('/api/v1/jobs', { kind: 'nobody.knows', queue: 'mail' });
  const made = await server.post('/api/v1/tokens', { name: 'root', scopes: ['submit', 'read', 'logs', 'operate', 'admin', 'work'] });
  admin = made.token;
});

after(async () => {
  await browser?.close();
  await server?.stop();
});

const logIn = async (page, token) => {
  await page.goto(`${server.base}/queues`);
  assert.match(page.url(), /\/login\?next=%2Fqueues$/);
  await page.getByLabel('Token').fill(token);
  await page.getByRole('button', { name: 'Log in' }).click();
};

test('a reader sees, an operator does, and a revoked token is out', async () => {
  const { token: reader } = await server.post('/api/v1/tokens', { name: 'reader', scopes: ['read'] }, admin);
  const { context, page } = await openTab(browser);
  await page.goto(`${server.base}/login`);
  assert.deepEqual(await axe(page), []);
  await screen(page, 'login');
  await logIn(page, 'bks_wrong');
  assert.match(await page.locator('[role=alert]').innerText(), /This token is not valid/);
  await screen(page, 'login-wrong');
  await logIn(page, reader);
  await page.waitForURL('**/queues');
  assert.equal(await page.locator('form[action="/act"]').count(), 0, 'nothing to press');
  assert.equal(await page.locator('a[href="/tokens"]').count(), 0, 'nothing that leads to tokens');
  const [cookie] = await context.cookies();
  assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Strict']);
  assert.equal(await page.evaluate(() => document.cookie), '', 'no script reads it');

  // The token is revoked elsewhere: the open page notices by itself.
  await server.call('DELETE', '/api/v1/tokens/reader', undefined, admin);
  await page.waitForURL('**/login?next=%2Fqueues');
  await context.close();
});

test('an operator pauses a queue by two clicks and logs out', async () => {
  const { token } = await server.post('/api/v1/tokens', { name: 'operator', scopes: ['read', 'operate'] }, admin);
  const { context, page, wrong } = await openTab(browser);
  await logIn(page, token);
  const row = page.locator('tr[data-key="mail"]');
  await row.locator('summary').click();
  assert.match(await row.locator('details').innerText(), /Nothing is claimed from it until it is resumed/);
  await row.getByLabel('Why').fill('a test');
  await row.getByRole('button', { name: 'Pause', exact: true }).click();
  await page.waitForURL('**/queues?done=queue.pause');
  assert.match(await page.locator('.done').innerText(), /The queue is paused/);
  assert.match(await row.innerText(), /paused a test/);
  await page.getByRole('button', { name: 'Log out' }).click();
  await page.waitForURL('**/login');
  await page.goto(`${server.base}/queues`);
  assert.match(page.url(), /\/login/);
  assert.deepEqual(wrong, []);
  const { items } = await server.get('/api/v1/audit?limit=20', admin);
  assert.ok(items.some((line) => line.who === 'operator' && line.path === '/api/v1/queues/mail/pause'));
  await context.close();
});
