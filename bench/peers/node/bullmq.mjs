// BullMQ on Redis; what a crash may cost is the server's setting `appendfsync`.

import { Queue, Worker } from "bullmq";
import IORedis from "ioredis";
import { contend, tally, url, versionOf } from "./contest.mjs";

const QUEUE = "work";
const CONCURRENCY = 100;

const settings = "addBulk, 100 jobs at once, one process; a finished job is removed";

await contend(versionOf("bullmq"), settings, async () => {
  const connect = () => new IORedis(url, { maxRetriesPerRequest: null });
  const connections = [connect()];
  const queue = new Queue(QUEUE, { connection: connections[0], defaultJobOptions: { removeOnComplete: true } });
  await queue.waitUntilReady();
  let worker;
  return {
    setup: async () => {},
    addMany: (all) => queue.addBulk(all.map((data) => ({ name: "work", data }))),
    addOne: (data) => queue.add("work", data),
    startWorker: async () => {
      connections.push(connect());
      const options = { connection: connections[1], concurrency: CONCURRENCY };
      worker = new Worker(QUEUE, async (job) => tally.started(job.data.sent), options);
      worker.on("error", (error) => process.stderr.write(`${error}\n`));
      await worker.waitUntilReady();
    },
    unfinished: async () => {
      const counts = await queue.getJobCounts("wait", "active", "delayed", "prioritized");
      return Object.values(counts).reduce((sum, count) => sum + count, 0);
    },
    close: async () => {
      await worker?.close();
      await queue.close();
      for (const connection of connections) connection.disconnect();
    },
  };
});
