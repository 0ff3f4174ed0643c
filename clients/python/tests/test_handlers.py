"""What handlers are told while they run, and what is told of them; waiting for jobs."""

from __future__ import annotations

import logging
import threading
import time
import unittest
from typing import Any, List, Optional
from unittest import mock

from backstop import Job, Permanent, Snooze, Transient, Worker
from backstop.outcomes import of_exception
from tests.test_worker import PATIENCE, Case, eventually


class InProcess(Case):
    """Workers in threads of this process."""

    def work(self, worker: Worker) -> None:
        """Lets a worker run until the test ends."""
        thread = threading.Thread(target=worker.work)
        thread.start()
        self.addCleanup(thread.join, PATIENCE)
        self.addCleanup(worker.stop)

    def worker(self, **options: Any) -> Worker:
        # A name of its own: one worker with all that fails on purpose here would be paused (H8).
        options.setdefault("name", self.queue)
        return Worker(self.client, [self.queue], grace=5, **options)


class Told(InProcess):
    """A handler learns of a cancel by whatever it asks, long before the next heartbeat."""

    def told_by(self, ask: Any) -> List[Any]:
        told: List[Any] = []
        running = threading.Event()
        worker = self.worker()

        @worker.handler("act")
        def act(job: Job) -> None:
            until = time.monotonic() + PATIENCE
            while ask(job) and time.monotonic() < until:
                running.set()
            told.extend([job.canceled, job.stop_reason])

        with mock.patch("backstop.worker.BEAT_LONGEST", 1000.0):
            self.work(worker)
            job = self.submit("work")
            self.assertTrue(running.wait(PATIENCE))
            self.client.cancel(job, "not needed")
            eventually("its handler was told", lambda: len(told) == 2)
        return told

    def test_by_progress(self) -> None:
        self.assertEqual(self.told_by(lambda job: job.progress(50)), [True, "canceled"])

    def test_by_heartbeat(self) -> None:
        self.assertEqual(self.told_by(lambda job: job.heartbeat()), [True, "canceled"])

    def test_by_the_worker_within_seconds(self) -> None:
        told: List[Any] = []
        running = threading.Event()
        worker = self.worker(lease=600)

        @worker.handler("act")
        def act(job: Job) -> None:
            running.set()
            told.extend([job.wait_canceled(PATIENCE), job.stop_reason])

        self.work(worker)
        job = self.submit("work")
        self.assertTrue(running.wait(PATIENCE))
        self.client.cancel(job)
        eventually("its handler was told", lambda: len(told) == 2)
        self.assertEqual(told, [True, "canceled"])


class Exits(InProcess):
    """A handler that asks its process to end ends its own job, and no more."""

    def test_a_handler_that_exits_ends_its_job_alone(self) -> None:
        worker = self.worker(concurrency=1)

        @worker.handler("act")
        def act(job: Job) -> str:
            if job.payload == {"script": ["exit"]}:
                raise SystemExit(3)
            return "done"

        self.work(worker)
        exits, works = self.submit("exit", max_retries=0), self.submit("work")
        self.client.wait(works, PATIENCE)
        failed = self.client.wait(exits, PATIENCE)
        self.assertEqual((failed["status"], failed["error_type"]), ("failed", "HandlerExited"))


class Marked(unittest.TestCase):
    """What exceptions count as for the circuit of a dependency."""

    def test_the_first_mark_counts_and_one_that_is_ignored_wins(self) -> None:
        def marked(mark: Any, cause: Optional[BaseException] = None) -> BaseException:
            error = RuntimeError("no luck")
            error.backstop_circuit = mark  # type: ignore[attr-defined]
            error.__cause__ = cause
            return error

        round_trip = marked("neutral")
        round_trip.__cause__ = marked("counts", round_trip)
        for error, said in [
            (KeyError("no such customer"), None),
            (marked("counts"), "counts"),
            (marked("neutral", marked("counts")), "neutral"),
            (marked("counts", marked("ignored", marked("neutral"))), "ignored"),
            (marked("open", marked("neutral")), "neutral"),
            (marked(["ignored"]), None),
            (round_trip, "neutral"),
        ]:
            with self.subTest(error=error):
                self.assertEqual(of_exception(error, []).get("circuit"), said)
        ignored = Snooze(1)
        ignored.backstop_circuit = "ignored"  # type: ignore[attr-defined]
        self.assertNotIn("circuit", of_exception(ignored, []), "a snooze is no failure")


class Logged(InProcess):
    """Failures are logged where they happen."""

    def test_failures_are_logged_with_their_traceback(self) -> None:
        worker = self.worker()

        @worker.handler("act")
        def act(job: Job) -> None:
            word = job.payload["script"][0]
            if word == "permanent":
                raise Permanent("a bad address")
            if word == "transient" and job.run == 1:
                raise Transient("smtp", retry_in=0.01)
            if word == "error":
                raise KeyError("no such customer")

        with self.assertLogs("backstop", logging.INFO) as logged:
            self.work(worker)
            jobs = {word: self.submit(word, max_retries=0) for word in ("error", "permanent", "transient")}
            for job in jobs.values():
                self.client.wait(job, PATIENCE)
        of = {word: [one for one in logged.records if job in one.getMessage()] for word, job in jobs.items()}
        self.assertEqual([one.levelno for one in of["error"]], [logging.ERROR])
        self.assertEqual([one.levelno for one in of["permanent"]], [logging.ERROR])
        self.assertEqual([one.levelno for one in of["transient"]], [logging.WARNING])
        text = logging.Formatter().format(of["error"][0])
        self.assertIn("Traceback", text)
        self.assertIn("KeyError: 'no such customer'", text)


class Waiting(InProcess):
    """`wait`, which looks until a job has ended."""

    def test_a_job_is_waited_for(self) -> None:
        job = self.submit("work 0")
        with self.assertRaises(TimeoutError) as late:
            self.client.wait(job, timeout=0.1)
        self.assertIn("is still pending", str(late.exception))
        self.start()
        self.assertEqual(self.client.wait(job, PATIENCE)["status"], "succeeded")
        self.assertEqual(self.client.wait(self.submit("permanent"), PATIENCE)["status"], "failed")


if __name__ == "__main__":
    unittest.main()
