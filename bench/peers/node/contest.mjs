// What the drivers in JavaScript have in common: arguments, the work, and the one line of JSON that they print.
// The contract is in bench/README.md.

import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";

export const BATCH = 1000;
const WARM_UP = 50;
const LOOK_MS = 5;

const [phase, ...options] = process.argv.slice(2);
const given = new Map();
for (let at = 0; at < options.length; at += 2) given.set(options[at].replace(/^--/, ""), options[at + 1]);
const number = (name, otherwise) => Number(given.get(name) ?? otherwise);

export const url = given.get("url") ?? "";
export const jobs = number("jobs", 0);
export const clients = number("clients", 1);
const rate = number("rate", 1);
const limitMs = number("limit", 60) * 1000;

export const nowMicros = () => (performance.timeOrigin + performance.now()) * 1000;
export const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
export const work = (sent = 0) => ({ sent, filling: "x".repeat(170) });

// Counts runs of handlers and how long each job waited. Jobs are known by the moment at which they were due to be sent.
export const tally = {
  runs: 0,
  acks: new Map(),
  starts: [],
  acknowledged(sent) {
    this.acks.set(sent, nowMicros());
  },
  started(sent) {
    this.runs += 1;
    this.starts.push([sent, nowMicros()]);
  },
  // From the acknowledgement; a handler that was faster has not let its job wait.
  waits() {
    const wait = ([sent, at]) => Math.max(0, Math.round(at - (this.acks.get(sent) ?? sent)));
    return this.starts.slice(WARM_UP).map(wait);
  },
};

// The version of an installed package, from its own description.
export const versionOf = (name) =>
  JSON.parse(readFileSync(new URL(`./node_modules/${name}/package.json`, import.meta.url))).version;

async function timed(task) {
  const began = performance.now();
  const count = await task();
  return { jobs: count, seconds: (performance.now() - began) / 1000 };
}

// Stores all jobs: every producer calls `addMany` with one batch after the other.
const bulk = (addMany) =>
  timed(async () => {
    let left = jobs;
    const producer = async () => {
      while (left > 0) {
        const count = Math.min(BATCH, left);
        left -= count;
        await addMany(Array.from({ length: count }, () => work()));
      }
    };
    await Promise.all(Array.from({ length: clients }, producer));
    return jobs;
  });

// Every producer waits for `addOne` before it calls it again.
const single = (addOne) =>
  timed(async () => {
    const each = Math.floor(jobs / clients);
    const producer = async () => {
      for (let at = 0; at < each; at += 1) await addOne(work());
    };
    await Promise.all(Array.from({ length: clients }, producer));
    return each * clients;
  });

// Runs everything that is stored; `unfinished` counts what the store still holds.
async function drain(startWorker, unfinished) {
  const began = performance.now();
  const spent = () => (performance.now() - began) / 1000;
  await startWorker();
  while (tally.runs < jobs && spent() * 1000 < limitMs) await pause(LOOK_MS);
  let seconds = spent();
  // The handlers have run; now the endings have to be stored. Whoever is stopped early is not waited for.
  if (tally.runs < jobs) return { jobs: tally.runs, seconds };
  while ((await unfinished()) > 0) {
    await pause(LOOK_MS);
    // The time of the look that finds nothing is ours: it grows with what the engine keeps.
    seconds = spent();
  }
  return { jobs, seconds };
}

// Sends jobs evenly, whether or not those before were acknowledged, and waits until all have started.
async function latency(startWorker, addOne) {
  await startWorker();
  const begin = performance.now() + 50;
  const gap = 1000 / rate;
  const sent = [];
  while (sent.length < jobs) {
    const due = begin + gap * sent.length;
    const now = performance.now();
    if (now < due) {
      await pause(Math.max(0, due - now));
      continue;
    }
    const job = work(Math.round((performance.timeOrigin + due) * 1000));
    sent.push(addOne(job).then(() => tally.acknowledged(job.sent)));
  }
  await Promise.all(sent);
  const ended = performance.now();
  while (tally.runs < jobs && performance.now() - ended < limitMs) await pause(LOOK_MS);
  return { waits_us: tally.waits() };
}

// Runs the phase that was asked for. An engine says how to set up, add, work, count and close.
export async function contend(version, settings, open) {
  let answer = { version, settings };
  if (phase !== "version") {
    const engine = await open(phase);
    if (phase === "setup") answer = (await engine.setup(), {});
    else if (phase === "enqueue_bulk") answer = await bulk(engine.addMany);
    else if (phase === "enqueue_single") answer = await single(engine.addOne);
    else if (phase === "drain") answer = await drain(engine.startWorker, engine.unfinished);
    else if (phase === "latency") answer = await latency(engine.startWorker, engine.addOne);
    else throw new Error(`no phase ${phase}`);
    await Promise.race([engine.close(), pause(5000)]);
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`, () => process.exit(0));
}
