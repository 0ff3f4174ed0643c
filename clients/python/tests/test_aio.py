"""The client and the worker for asyncio, against the same server."""

from __future__ import annotations

import asyncio
import os
import unittest
import uuid
from typing import Any, Dict, List

from backstop import ApiError, AsyncClient, AsyncJob, AsyncWorker, Permanent, Snooze
from tests.test_worker import PATIENCE, URL


class Async(unittest.IsolatedAsyncioTestCase):
    """A queue and a client of its own for each test."""

    async def asyncSetUp(self) -> None:
        self.client = AsyncClient(URL, os.environ.get("BACKSTOP_TOKEN"))
        self.addCleanup(self.client.close)
        self.queue = f"aio-{uuid.uuid4().hex[:12]}"

    async def submit(self, word: str, **options: Any) -> str:
        return (await self.client.submit("act", {"word": word}, queue=self.queue, **options)).id

    async def ended(self, job: str) -> Dict[str, Any]:
        return await self.client.wait(job, PATIENCE)

    def worker(self, **options: Any) -> AsyncWorker:
        return AsyncWorker(self.client, [self.queue], **options)

    async def work(self, worker: AsyncWorker) -> None:
        """Lets a worker run until the test ends."""
        task = asyncio.ensure_future(worker.work())

        async def stop() -> None:
            worker.stop()
            await asyncio.wait_for(task, PATIENCE)

        self.addAsyncCleanup(stop)

    async def test_a_step_that_succeeded_is_stored_once(self) -> None:
        called: List[int] = []
        worker = self.worker()

        @worker.handler("act")
        async def act(job: AsyncJob) -> Any:
            async def call() -> int:
                await asyncio.sleep(0)
                called.append(job.run)
                return job.run

            first = await job.step("first", call)
            if job.run == 1:
                raise KeyError("the handler fails")
            return [first, await job.step("second", call)]

        await self.work(worker)
        quick = {"policy": "fixed", "base_ms": 50, "cap_ms": 50, "jitter": "none"}
        job = await self.submit("steps", backoff=quick)
        await self.ended(job)
        self.assertEqual((await self.client.get(job, reveal=True))["result"], [1, 2])
        self.assertEqual(called, [1, 2])

    async def test_what_handlers_return_and_raise(self) -> None:
        worker = self.worker()

        @worker.handler("act")
        async def act(job: AsyncJob) -> Any:
            await asyncio.sleep(0)
            word = job.payload["word"]
            job.log(f"does {word}")
            if word == "permanent":
                raise Permanent("a bad address")
            if word == "snooze" and job.run == 1:
                raise Snooze(0.01)
            if word == "huge":
                return "x" * (17 << 20)
            if word == "error":
                raise KeyError("no such customer")
            if word == "late":
                await asyncio.sleep(PATIENCE)
            if word == "stops itself":
                raise asyncio.CancelledError
            return {"done": word}

        await self.work(worker)
        table = {
            "well": ("succeeded", ["succeeded"]),
            "permanent": ("failed", ["permanent"]),
            "snooze": ("succeeded", ["snoozed", "succeeded"]),
            "huge": ("failed", ["permanent"]),
            "error": ("failed", ["error"]),
            "late": ("failed", ["timeout"]),
            "stops itself": ("failed", ["error"]),
        }
        with self.assertLogs("backstop", "ERROR") as logged:
            jobs = {word: await self.submit(word, max_retries=0, timeout_ms=500) for word in table}
            for word, (status, causes) in table.items():
                self.assertEqual((await self.ended(jobs[word]))["status"], status, word)
                runs = list(reversed(await self.client.attempts(jobs[word])))
                self.assertEqual([run["cause"] for run in runs], causes, word)
        self.assertEqual((await self.client.get(jobs["well"], reveal=True))["result"], {"done": "well"})
        self.assertTrue(any(jobs["error"] in line and "Traceback" in line for line in logged.output))

    async def test_a_canceled_job_cancels_its_handler(self) -> None:
        worker, told = self.worker(lease=600), asyncio.Event()
        running, seen = asyncio.Event(), []

        @worker.handler("act")
        async def act(job: AsyncJob) -> None:
            running.set()
            try:
                await asyncio.sleep(PATIENCE)
            finally:
                seen.append(job.stop_reason)
                told.set()

        await self.work(worker)
        job = await self.submit("wait")
        await asyncio.wait_for(running.wait(), PATIENCE)
        self.assertTrue((await self.client.cancel(job, "not needed"))["changed"])
        await asyncio.wait_for(told.wait(), PATIENCE)
        self.assertEqual(seen, ["canceled"])
        self.assertEqual((await self.ended(job))["status"], "canceled")

    async def test_lines_are_kept_while_the_run_goes_on(self) -> None:
        job = await self.submit("lines")
        held = (await self.client.claim("lines", [self.queue], ["act"]))[0]
        run = AsyncJob(self.client, held, "lines")
        run.log("one")
        await run._send_lines(5)
        run.log("two")
        self.assertEqual(await run._last_lines(), ["two"], "the first one has been sent")
        outcome = {"type": "interrupted", "logs": ["two"]}
        await self.client.finish([{"lease": run.lease, "outcome": outcome}])
        self.assertEqual((await self.client.attempts(job))[0]["output"], "one\ntwo\n")

    async def test_a_run_learns_that_it_has_rejected_too_much(self) -> None:
        worker, told = self.worker(), []

        @worker.handler("picky")
        async def picky(job: AsyncJob) -> None:
            rejected = 0
            while job.over_limit is None and rejected < 10_000:
                await job.reject(rejected, "no name")
                rejected += 1
            told.append((rejected, job.over_limit))

        await self.work(worker)
        job = (await self.client.submit("picky", {}, queue=self.queue, max_retries=0)).id
        self.assertEqual((await self.ended(job))["status"], "failed")
        self.assertEqual(told[0][0], 100)
        self.assertIn("100", told[0][1])

    async def test_progress_tells_of_a_cancel_at_once(self) -> None:
        worker, seen = self.worker(), []
        running, told = asyncio.Event(), asyncio.Event()

        @worker.handler("act")
        async def act(job: AsyncJob) -> None:
            try:
                while await job.progress(10, "on the way"):
                    running.set()
            finally:
                seen.append(job.stop_reason)
                told.set()

        await self.work(worker)
        job = await self.submit("wait")
        await asyncio.wait_for(running.wait(), PATIENCE)
        await self.client.cancel(job)
        await asyncio.wait_for(told.wait(), PATIENCE)
        self.assertEqual(seen, ["canceled"])

    async def test_a_stop_finishes_what_runs(self) -> None:
        worker, running, go = self.worker(), asyncio.Event(), asyncio.Event()

        @worker.handler("act")
        async def act(job: AsyncJob) -> str:
            running.set()
            await go.wait()
            return "done"

        work = asyncio.ensure_future(worker.work())
        job = await self.submit("wait")
        await asyncio.wait_for(running.wait(), PATIENCE)
        worker.stop()
        go.set()
        await asyncio.wait_for(work, PATIENCE)
        self.assertEqual((await self.client.get(job))["status"], "succeeded")
        left = await self.submit("wait")
        with self.assertRaises(TimeoutError):
            await self.client.wait(left, timeout=0.05)

    async def test_many_run_at_once_and_lists_are_read(self) -> None:
        worker, together = self.worker(concurrency=20), []
        all_there = asyncio.Event()

        @worker.handler("act")
        async def act(job: AsyncJob) -> None:
            together.append(job.id)
            if len(together) == 20:
                all_there.set()
            await all_there.wait()

        await self.work(worker)
        answers = await self.client.submit_many(
            [{"kind": "act", "queue": self.queue, "payload": {"word": "well"}} for _ in range(20)]
        )
        for answer in answers:
            self.assertEqual((await self.ended(answer["id"]))["status"], "succeeded")
        rows: List[str] = [row["id"] async for row in self.client.jobs(queue=self.queue, limit=7)]
        self.assertEqual(set(rows), {answer["id"] for answer in answers})
        with self.assertRaises(ApiError):
            await self.client.get(str(uuid.uuid4()))


if __name__ == "__main__":
    unittest.main()
