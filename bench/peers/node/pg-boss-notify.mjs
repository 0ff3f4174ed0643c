// pg-boss on a queue whose workers NOTIFY wakes.

process.env.CONTEST_NOTIFY = "1";
await import("./pg-boss.mjs");
