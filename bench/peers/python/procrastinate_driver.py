"""Procrastinate, asynchronous, with the concurrency that its documentation uses for many short jobs.

Keeps the contract of bench/README.md: one phase, one line of JSON.
"""

import argparse
import asyncio
import json
import logging
import sys
import time
from importlib.metadata import version

import procrastinate
from procrastinate import PsycopgConnector

BATCH = 1000
WARM_UP = 50
LOOK = 0.005
CONCURRENCY = 30
SETTINGS = f"asynchronous worker, {CONCURRENCY} jobs at once, LISTEN/NOTIFY, one process; a finished job is kept"


def read_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("phase")
    parser.add_argument("--url", default="")
    for name, otherwise in [("jobs", 0), ("clients", 1), ("rate", 1), ("limit", 60)]:
        parser.add_argument(f"--{name}", type=int, default=otherwise)
    return parser.parse_args()


def work(sent=0):
    return {"sent": sent, "filling": "x" * 170}


def now_micros():
    return time.time_ns() // 1000


class Driver:
    def __init__(self, arguments):
        self.arguments = arguments
        # Jobs are known by the moment at which they were due to be sent.
        self.acknowledged, self.starts = {}, []
        pool = {"min_size": 1, "max_size": CONCURRENCY + 2}
        self.app = procrastinate.App(connector=PsycopgConnector(conninfo=arguments.url, **pool))

        @self.app.task(name="work", queue="default")
        async def run(sent, filling):
            self.starts.append((sent, now_micros()))

        self.task = run

    async def setup(self):
        await self.app.schema_manager.apply_schema_async()
        return {}

    async def timed(self, count, producer):
        began = time.perf_counter()
        await asyncio.gather(*(producer() for _ in range(self.arguments.clients)))
        return {"jobs": count, "seconds": time.perf_counter() - began}

    async def enqueue_bulk(self):
        left = self.arguments.jobs

        async def producer():
            nonlocal left
            while left > 0:
                count = min(BATCH, left)
                left -= count
                await self.task.batch_defer_async(*(work() for _ in range(count)))

        return await self.timed(self.arguments.jobs, producer)

    async def enqueue_single(self):
        each = self.arguments.jobs // self.arguments.clients

        async def producer():
            for _ in range(each):
                await self.task.defer_async(**work())

        return await self.timed(each * self.arguments.clients, producer)

    def start_worker(self):
        options = {"concurrency": CONCURRENCY, "install_signal_handlers": False, "wait": True}
        return asyncio.create_task(self.app.run_worker_async(**options))

    async def stop_worker(self, worker):
        worker.cancel()
        await asyncio.wait([worker], timeout=10)

    async def all_started(self):
        began = time.perf_counter()
        while len(self.starts) < self.arguments.jobs and time.perf_counter() - began < self.arguments.limit:
            await asyncio.sleep(LOOK)
        return len(self.starts)

    async def unfinished(self):
        sql = "select exists (select from procrastinate_jobs where status in ('todo', 'doing')) as some"
        return (await self.app.connector.execute_query_one_async(sql))["some"]

    async def drain(self):
        began = time.perf_counter()
        worker = self.start_worker()
        ran = await self.all_started()
        seconds = time.perf_counter() - began
        # The handlers have run; now the endings have to be stored. Whoever is stopped early is not waited for.
        while ran == self.arguments.jobs and await self.unfinished():
            await asyncio.sleep(LOOK)
            # The time of the look that finds nothing is ours: it grows with what the engine keeps.
            seconds = time.perf_counter() - began
        await self.stop_worker(worker)
        return {"jobs": ran, "seconds": seconds}

    async def send(self, job):
        await self.task.defer_async(**job)
        self.acknowledged[job["sent"]] = now_micros()

    async def latency(self):
        worker = self.start_worker()
        await asyncio.sleep(0.5)
        begin, begin_micros = time.perf_counter() + 0.05, now_micros() + 50_000
        sent = []
        for number in range(self.arguments.jobs):
            due = number / self.arguments.rate
            early = begin + due - time.perf_counter()
            if early > 0:
                await asyncio.sleep(early)
            job = work(begin_micros + int(due * 1e6))
            sent.append(asyncio.create_task(self.send(job)))
        await asyncio.gather(*sent)
        await self.all_started()
        # A handler that was faster than the acknowledgement has not let its job wait.
        waits = [max(0, at - self.acknowledged.get(job, job)) for job, at in self.starts[WARM_UP:]]
        await self.stop_worker(worker)
        return {"waits_us": waits}


async def answer(arguments):
    driver = Driver(arguments)
    async with driver.app.open_async():
        return await getattr(driver, arguments.phase)()


def main():
    logging.disable(logging.CRITICAL)
    arguments = read_arguments()
    if arguments.phase == "version":
        said = {"version": version("procrastinate"), "settings": SETTINGS}
    elif arguments.phase in ("setup", "enqueue_bulk", "enqueue_single", "drain", "latency"):
        said = asyncio.run(answer(arguments))
    else:
        sys.exit(f"error: no phase {arguments.phase}")
    print(json.dumps(said, separators=(",", ":")))


main()
