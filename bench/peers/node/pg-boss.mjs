// pg-boss with batches that follow each other without a pause. Whether NOTIFY wakes its workers is for the queue to choose:
// without it enqueue is faster, because PostgreSQL lets transactions that notify commit one after the other only.

import { PgBoss } from "pg-boss";
import { contend, tally, url, versionOf } from "./contest.mjs";

const QUEUE = "work";
const BATCH = 500;
const WORKERS = 4;
const notify = process.env.CONTEST_NOTIFY === "1";

const settings = `work() with batchSize 500, burstWhenBatchFull, 4 local workers, ${
  notify ? "notify" : "polled every 0.5 s"
}; a finished job is kept`;

await contend(versionOf("pg-boss"), settings, async (phase) => {
  const works = phase === "drain" || phase === "latency";
  const boss = new PgBoss({
    connectionString: url,
    useListenNotify: notify && works,
    supervise: works,
    schedule: false,
    migrate: phase === "setup",
  });
  boss.on("error", (error) => process.stderr.write(`${error}\n`));
  await boss.start();
  return {
    setup: () => boss.createQueue(QUEUE, { notify }),
    addMany: (all) => boss.insert(QUEUE, all.map((data) => ({ data }))),
    addOne: (data) => boss.send(QUEUE, data),
    startWorker: () => {
      const options = {
        batchSize: BATCH,
        localConcurrency: WORKERS,
        burstWhenBatchFull: true,
        pollingIntervalSeconds: 0.5,
        notifyPollingIntervalSeconds: 0.5,
      };
      return boss.work(QUEUE, options, async (batch) => {
        for (const job of batch) tally.started(job.data.sent);
      });
    },
    unfinished: async () => {
      const sql = `select exists (select from pgboss.job where name = '${QUEUE}' and state < 'completed') as some`;
      const { rows } = await boss.getDb().executeSql(sql);
      return rows[0].some ? 1 : 0;
    },
    close: () => boss.stop({ graceful: true, timeout: 2000 }),
  };
});
