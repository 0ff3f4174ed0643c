// A real program on a store of its own, and a real browser: what every test of the page begins with.

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import net from 'node:net';
import path from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { chromium } from 'playwright-core';

const PROGRAM = process.env.BACKSTOP_PROGRAM;
const FOLDER = process.env.BACKSTOP_BROWSER_FOLDER;
const SCREENS = process.env.BACKSTOP_SCREENS;
if (!PROGRAM || !FOLDER || !SCREENS) throw new Error('run `cargo xtask page`: it says where everything is');
mkdirSync(SCREENS, { recursive: true });

const AXE = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');

// The looks in which every view is taken.
export const LOOKS = [
  { name: 'light', colorScheme: 'light', viewport: { width: 1280, height: 900 } },
  { name: 'dark', colorScheme: 'dark', viewport: { width: 1280, height: 900 } },
  { name: 'phone', colorScheme: 'light', viewport: { width: 360, height: 780 } },
];

export const freePort = () => new Promise((found, failed) => {
  const socket = net.createServer();
  socket.once('error', failed);
  socket.listen(0, '127.0.0.1', () => {
    const { port } = socket.address();
    socket.close(() => found(port));
  });
});

// Waits until something holds; a test never goes on by the clock alone.
export const until = async (what, check, seconds = 30) => {
  const end = Date.now() + seconds * 1000;
  let last;
  while (Date.now() < end) {
    try {
      last = await check();
      if (last) return last;
    } catch (problem) {
      last = problem;
    }
    await pause(50);
  }
  throw new Error(`${what}: not within ${seconds} s; the last answer was ${last}`);
};

export const startProgram = async ({ settings = '', words = [] } = {}) => {
  const folder = mkdtempSync(path.join(FOLDER, 'store-'));
  const port = await freePort();
  writeFileSync(path.join(folder, 'backstop.toml'), settings);
  const child = spawn(PROGRAM, ['up', '--listen', `127.0.0.1:${port}`, ...words], {
    cwd: folder,
    env: { ...process.env, BACKSTOP_STORE: `sqlite:${path.join(folder, 'jobs.db')}` },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  child.stdout.on('data', (text) => { said += text; });
  child.stderr.on('data', (text) => { said += text; });
  const base = `http://127.0.0.1:${port}`;
  const server = { base, folder, child, said: () => said };
  server.call = async (method, where, body, token) => {
    const headers = { ...(body === undefined ? {} : { 'content-type': 'application/json' }) };
    if (token) headers.authorization = `Bearer ${token}`;
    const answer = await fetch(base + where, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${where}: ${answer.status} ${text}`);
    return text ? JSON.parse(text) : null;
  };
  server.get = (where, token) => server.call('GET', where, undefined, token);
  server.post = (where, body = {}, token) => server.call('POST', where, body, token);
  server.stop = async () => {
    const gone = new Promise((done) => child.once('exit', done));
    child.kill('SIGTERM');
    const late = setTimeout(() => child.kill('SIGKILL'), 10_000);
    await gone;
    clearTimeout(late);
    rmSync(folder, { recursive: true, force: true });
  };
  await until(`the server answers; it said: ${said}`, async () => (await fetch(`${base}/health/live`)).ok, 60);
  return server;
};

export const startBrowser = () => chromium.launch({
  executablePath: process.env.BACKSTOP_CHROMIUM || '/usr/bin/chromium',
  args: [
    // Chromium refuses its sandbox to root, and to root alone.
    ...(process.getuid() === 0 ? ['--no-sandbox'] : []),
    '--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync',
  ],
});

// A tab that remembers whatever went wrong in it.
export const openTab = async (browser, look = LOOKS[0], more = {}) => {
  const context = await browser.newContext({ colorScheme: look.colorScheme, viewport: look.viewport, ...more });
  const page = await context.newPage();
  const wrong = [];
  page.on('pageerror', (problem) => wrong.push(`script: ${problem.message}`));
  page.on('console', (line) => { if (line.type() === 'error') wrong.push(`console: ${line.text()}`); });
  page.on('dialog', (dialog) => { wrong.push(`dialog: ${dialog.message()}`); dialog.dismiss(); });
  return { context, page, wrong };
};

// What axe finds; the page must give it nothing to find. Its own script is let in past the page's policy.
export const axe = async (page) => {
  const found = await page.evaluate(async (source) => {
    // eslint-disable-next-line no-new-func
    if (!window.axe) (0, eval)(source);
    const { violations } = await window.axe.run(document, { resultTypes: ['violations'] });
    return violations.map(({ id, nodes }) => `${id}: ${nodes.slice(0, 3).map((node) => `${node.target} ${node.failureSummary}`).join(' | ')}`);
  }, AXE);
  return found;
};

// True when the page is wider than the window: something would be cut off or move under the finger.
export const isTooWide = (page) => page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);

export const screen = (page, name) => page.screenshot({ path: path.join(SCREENS, `${name}.png`), fullPage: true });
