"""The client and the worker for asyncio, against the same server."""

from __future__ import annotations

import asyncio
import os
import signal
import time
import unittest
import uuid
from typing import Any, Dict, List, Optional

from backstop import ApiError, AsyncClient, AsyncJob, AsyncWorker, Client, NotDone, Permanent, Snooze
from backstop import Transient
from tests.test_worker import PATIENCE, URL

QUICK = {"policy": "fixed", "base_ms": 50, "cap_ms": 50, "jitter": "none"}


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
        # A name of its own: one worker with all that fails on purpose here would be paused (H8).
        options.setdefault("name", self.queue)
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
        job = await self.submit("steps", backoff=QUICK)
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

    async def test_what_was_sent_comes_with_the_next_run(self) -> None:
        # W10, W7
        called: List[int] = []
        key = f"{self.queue}/approved"
        job = await self.waiting(key, 600, called)
        told = await self.reached(job, "waiting")
        self.assertEqual((told["waiting_for"]["reason"], told["waiting_for"]["key"]), ("signal", key))
        self.assertEqual(told["attempt"], 0, "a wait costs nothing")
        self.assertIn(job, [row["job"] for row in await self.client.signals(waiting=True)])
        for _ in range(2):
            sent = await self.client.send_signal(key, {"by": "ann"}, id="once")
            self.assertEqual((sent["delivered"], sent["kept"]), (1, False))
        self.assertEqual((await self.ended(job))["status"], "succeeded")
        result = (await self.client.get(job, reveal=True))["result"]
        self.assertEqual(result, {"drafted in": 1, "came": {"by": "ann"}, "sent in": 2})
        self.assertEqual(called, [1, 2])
        causes = [run["cause"] for run in await self.client.attempts(job)]
        self.assertEqual(causes, ["succeeded", "waiting"])

    async def test_a_signal_that_was_sent_before_is_kept(self) -> None:
        # W10
        key = f"{self.queue}/early"
        sent = await self.client.send_signal(key)
        self.assertEqual((sent["delivered"], sent["kept"]), (0, True))
        self.assertIn(key, [row["key"] for row in await self.client.signals()])
        job = await self.waiting(key, 600, [])
        await self.ended(job)
        self.assertEqual((await self.client.get(job, reveal=True))["result"]["came"], {}, "nothing came with it")

    async def test_the_time_of_a_wait_is_up(self) -> None:
        # W10
        job = await self.waiting(f"{self.queue}/never", 0.1, [])
        self.assertEqual((await self.ended(job))["status"], "succeeded")
        self.assertIsNone((await self.client.get(job, reveal=True))["result"]["came"])

    async def test_a_resume_token_lets_it_go_on(self) -> None:
        # W10
        key = f"{self.queue}/approved"
        job = await self.waiting(key, 600, [])
        await self.reached(job, "waiting")
        made = await self.client.resume_token(job, key)
        answer = await self.client._run(lambda: self.client._client.call("POST", made["url"], {"payload": 7}))
        self.assertEqual(answer, {"delivered": 1, "kept": False})
        await self.ended(job)
        self.assertEqual((await self.client.get(job, reveal=True))["result"]["came"], 7)

    async def waiting(self, key: str, timeout: float, called: List[int]) -> str:
        """A job that waits for a key between two steps."""
        worker = self.worker()

        @worker.handler("act")
        async def act(job: AsyncJob) -> Any:
            async def run() -> int:
                return job.run

            drafted = await job.step("draft", run)
            called.append(job.run)
            came = job.signal(key, timeout)
            return {"drafted in": drafted, "came": came, "sent in": await job.step("send", run)}

        await self.work(worker)
        return await self.submit("x")

    async def reached(self, job: str, status: str) -> Dict[str, Any]:
        """Looks until a job is so."""
        until = time.monotonic() + PATIENCE
        while (found := await self.client.get(job))["status"] != status:
            self.assertLess(time.monotonic(), until, found)
            await asyncio.sleep(0.02)
        return found

    async def test_an_item_is_rejected_once_and_the_run_goes_on(self) -> None:
        # W9
        worker = self.worker()

        @worker.handler("aio-rejects")
        async def act(job: AsyncJob) -> str:
            for row in range(150):
                job.saw()
                if row % 10 == 0:
                    await job.reject({"row": row}, ValueError(f"row {row} has no name"), keep=row == 0)
            await job.reject("all of them", "no header", key="header", count=7, retries=2)
            if job.run == 1:
                await job.flush_rejects()
                raise KeyError("the first run fails")
            return "done"

        await self.work(worker)
        stored = await self.client.submit("aio-rejects", {}, queue=self.queue, max_retries=1, backoff=QUICK)
        job = stored.id
        await self.ended(job)
        shown = await self.client.get(job, reveal=True)
        self.assertEqual((shown["status"], shown["result"], shown["attempt"]), ("succeeded", "done", 1))
        self.assertEqual(shown["rejects"], {"stored": 22, "run": 2, "rejected": 22, "seen": 150})

    async def test_an_item_is_tried_again_before_it_is_rejected(self) -> None:
        # W9
        worker, calls = self.worker(), []

        async def load(row: str) -> str:
            calls.append(row)
            if row == "bad":
                raise ValueError("no name")
            if row == "away":
                raise Transient("smtp", retry_in=0)
            return row

        @worker.handler("aio-try")
        async def act(job: AsyncJob) -> Any:
            async def rows() -> List[Any]:
                return [await job.item(row, load, retries=1, wait=0.001) for row in ("good", "bad")]

            async def others() -> None:
                await job.reject("other", "no name")

            # Each in a task of its own: neither takes the step of the other for its own.
            got, _ = await asyncio.gather(job.step("load", rows), job.step("others", others))
            self.assertEqual(got, ["good", None])
            await job.reject("behind", "no name")
            if job.run == 1:
                await job.item("away", load, retries=3)

        await self.work(worker)
        job = (await self.client.submit("aio-try", {}, queue=self.queue, max_retries=0)).id
        await self.ended(job)
        self.assertEqual(sorted(calls), ["away", "bad", "bad", "good"])
        path = f"/api/v1/rejects?job={job}&limit=100"
        told = Client(URL, os.environ.get("BACKSTOP_TOKEN")).call("GET", path)["items"]
        found = sorted((one.get("step") or "", one["retries"], one["retry_limit"], one["final"]) for one in told)
        self.assertEqual(found, [("", 0, 0, True), ("load", 1, 1, True), ("others", 0, 0, True)])

    async def test_a_run_that_fails_loses_no_reject(self) -> None:
        # W9
        worker = self.worker()

        @worker.handler("aio-fails")
        async def act(job: AsyncJob) -> None:
            await job.reject("bad", "no name")
            raise Permanent("a bad file")

        await self.work(worker)
        job = (await self.client.submit("aio-fails", {}, queue=self.queue)).id
        self.assertEqual((await self.ended(job))["status"], "failed")
        self.assertEqual((await self.client.get(job))["rejects"]["stored"], 1)

    async def test_what_was_seen_after_the_last_reject_counts_too(self) -> None:
        # W9
        worker = self.worker()

        @worker.handler("fussy")
        async def fussy(job: AsyncJob) -> None:
            job.saw()
            await job.reject("bad", "no name")
            await job.flush_rejects()
            job.saw(199)

        await self.work(worker)
        job = (await self.client.submit("fussy", {}, queue=self.queue, max_retries=0)).id
        self.assertEqual((await self.ended(job))["status"], "succeeded", "half a percent, and not all")

    async def test_effects_follow_their_policy(self) -> None:
        # W8
        calls: List[str] = []
        worker = self.worker()

        @worker.handler("act")
        async def act(job: AsyncJob) -> Any:
            word = job.payload["word"]

            async def charge() -> str:
                calls.append(f"{word} {job.run}")
                if job.run == 1:
                    raise NotDone("declined") if word == "not done" else ConnectionError("the connection broke")
                return f"receipt {job.run}"

            async def look() -> Optional[str]:
                return "seen" if word == "verify" else None

            if word in ("verify", "unseen"):
                return await job.effect("charge", "order-7", charge, verify=look)
            return await job.effect("charge", "order-7", charge, "retry_safe" if word == "safe" else None)

        await self.work(worker)
        table = {
            "safe": ("succeeded", "receipt 2", ["safe 1", "safe 2"]),
            "verify": ("succeeded", "seen", ["verify 1"]),
            "unseen": ("succeeded", "receipt 2", ["unseen 1", "unseen 2"]),
            "not done": ("succeeded", "receipt 2", ["not done 1", "not done 2"]),
            "ask": ("failed", None, ["ask 1"]),
        }
        for word, (status, result, called) in table.items():
            calls.clear()
            job = await self.submit(word, backoff=QUICK)
            self.assertEqual((await self.ended(job))["status"], status, word)
            shown = await self.client.get(job, reveal=True)
            self.assertEqual((shown.get("result"), calls), (result, called), word)
        self.assertEqual((shown["error_type"], shown["runs"]), ("EffectUnknown", 2))
        self.assertIn("effect `charge` with key `order-7` may have happened", shown["last_error"])

    async def test_changed_code_is_a_dead_letter(self) -> None:
        # W7
        worker = self.worker()

        @worker.handler("act")
        async def act(job: AsyncJob) -> Any:
            async def run() -> int:
                return job.run

            names = ["left", "right"] if job.run == 1 else ["left"] if job.payload["word"] == "few" else ["else"]
            # Side by side: their order is that of the calls.
            await asyncio.gather(*(job.step(name, run) for name in names), return_exceptions=True)
            if job.run == 1:
                raise KeyError("the first run fails")
            return "all is well"

        await self.work(worker)
        for word, told in (
            ("few", "step `right` at index 1 is stored, and the code called only 1 and ended"),
            ("other", "step `left` at index 0 is stored, and the code calls step `else`"),
        ):
            job = await self.submit(word, backoff=QUICK)
            await self.ended(job)
            shown = await self.client.get(job)
            self.assertEqual((shown["status"], shown["error_type"], shown["runs"]), ("failed", "StepsChanged", 2))
            self.assertIn(told, shown["last_error"])

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

    async def test_what_outlasts_the_grace_is_handed_back(self) -> None:
        for hurried in (False, True):
            with self.subTest(hurried=hurried):
                worker, running = self.worker(grace=PATIENCE if hurried else 0.05, lease=600), asyncio.Event()

                @worker.handler("act")
                async def act(job: AsyncJob) -> None:
                    running.set()
                    await asyncio.sleep(PATIENCE * 10)

                work = asyncio.ensure_future(worker.run())
                job = await self.submit("wait")
                await asyncio.wait_for(running.wait(), PATIENCE)
                for _ in range(2 if hurried else 1):
                    os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.wait_for(work, PATIENCE / 2)
                view = await self.client.get(job)
                self.assertEqual((view["status"], view["attempt"], view["crashes"]), ("pending", 0, 0))
                self.assertEqual([run["cause"] for run in await self.client.attempts(job)], ["interrupted"])
                await self.client.cancel(job)

    async def test_a_handler_that_exits_ends_its_job_alone(self) -> None:
        worker = self.worker(concurrency=1)

        @worker.handler("act")
        async def act(job: AsyncJob) -> str:
            if job.payload["word"] == "exit":
                raise SystemExit(3)
            return "done"

        await self.work(worker)
        exits, works = await self.submit("exit", max_retries=0), await self.submit("work")
        self.assertEqual((await self.ended(works))["status"], "succeeded")
        failed = await self.ended(exits)
        self.assertEqual((failed["status"], failed["error_type"]), ("failed", "HandlerExited"))

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
