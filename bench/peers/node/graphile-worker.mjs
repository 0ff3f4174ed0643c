// graphile-worker with the batching options of its page on performance.

import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";
import { contend, tally, url, versionOf } from "./contest.mjs";

const CONCURRENCY = 24;
const QUIET = new Logger(() => () => {});

const settings =
  "localQueue 500, completeJobBatchDelay 0, failJobBatchDelay 0, 24 jobs at once, one process; a finished job is deleted";

await contend(versionOf("graphile-worker"), settings, async () => {
  const pgPool = new pg.Pool({ connectionString: url, max: 10 });
  const utils = await makeWorkerUtils({ pgPool, logger: QUIET });
  let runner;
  const preset = {
    worker: {
      connectionString: url,
      concurrentJobs: CONCURRENCY,
      maxPoolSize: CONCURRENCY + 1,
      localQueue: { size: 500 },
      completeJobBatchDelay: 0,
      failJobBatchDelay: 0,
    },
  };
  return {
    setup: () => utils.migrate(),
    addMany: (all) => utils.addJobs(all.map((payload) => ({ identifier: "work", payload }))),
    addOne: (payload) => utils.addJob("work", payload),
    startWorker: async () => {
      const taskList = { work: async (payload) => tally.started(payload.sent) };
      runner = await run({ preset, taskList, logger: QUIET, noHandleSignals: true });
    },
    unfinished: async () => {
      const { rows } = await pgPool.query("select exists (select from graphile_worker._private_jobs) as some");
      return rows[0].some ? 1 : 0;
    },
    close: async () => {
      await runner?.stop();
      await utils.release();
      await pgPool.end();
    },
  };
});
