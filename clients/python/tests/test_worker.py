"""Workers as they run in the world: as processes that are stopped and killed."""

from __future__ import annotations

import http.client
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import uuid
from typing import Any, Callable, Dict, List, Set
from urllib.parse import urlsplit

from backstop import ApiError, Client

URL = os.environ["BACKSTOP_SERVER"]
ENDED = ("succeeded", "failed", "canceled")
#: Longer than anything here takes; a test that waits so long has failed.
PATIENCE = 60.0


def eventually(what: str, check: Callable[[], bool]) -> None:
    """Looks until it is so."""
    until = time.monotonic() + PATIENCE
    while not check():
        if time.monotonic() > until:
            raise AssertionError(f"it never came to this: {what}")
        time.sleep(0.02)


class Case(unittest.TestCase):
    """A queue of its own for each test, and workers that are gone when it ends."""

    def setUp(self) -> None:
        self.client = Client(URL, os.environ.get("BACKSTOP_TOKEN"))
        self.addCleanup(self.client.close)
        self.queue = f"py-{uuid.uuid4().hex[:12]}"
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.diary = os.path.join(folder.name, "diary")
        open(self.diary, "w", encoding="utf-8").close()
        self.workers: List["subprocess.Popen[bytes]"] = []
        self.addCleanup(self.kill_all)

    def start(self, lease: float = 30, concurrency: int = 4, prefetch: int = 0) -> "subprocess.Popen[bytes]":
        """A worker in a process of its own."""
        words = [sys.executable, "-m", "tests.acting", self.queue, str(lease), str(concurrency), str(prefetch)]
        worker = subprocess.Popen(words, env={**os.environ, "ACTING_DIARY": self.diary})
        self.workers.append(worker)
        return worker

    def kill_all(self) -> None:
        for worker in self.workers:
            if worker.poll() is None:
                worker.kill()
            worker.wait()

    def submit(self, *script: str, **options: Any) -> str:
        quick = {"policy": "fixed", "base_ms": 50, "cap_ms": 50, "jitter": "none"}
        payload = {"script": list(script)}
        return self.client.submit("act", payload, queue=self.queue, backoff=quick, **options).id

    def ended(self, job: str) -> Dict[str, Any]:
        eventually(f"job {job} has ended", lambda: self.client.get(job)["status"] in ENDED)
        return self.client.get(job, reveal=True)

    def lines(self) -> List[List[str]]:
        with open(self.diary, encoding="utf-8") as diary:
            return [line.split() for line in diary]

    def said(self, what: str, job: str) -> int:
        return sum(1 for line in self.lines() if line[:2] == [what, job])


class Endings(Case):
    """Every way in which a handler can end a run."""

    def test_what_handlers_return_and_raise(self) -> None:
        self.start()
        table = {
            ("work 0",): ("succeeded", ["succeeded"]),
            ("odd",): ("succeeded", ["succeeded"]),
            ("huge",): ("failed", ["permanent"]),
            ("permanent",): ("failed", ["permanent"]),
            ("invalid",): ("failed", ["invalid"]),
            ("cancel",): ("canceled", ["canceled"]),
            ("error", "work 0"): ("succeeded", ["error", "succeeded"]),
            ("error", "error", "error"): ("failed", ["error"] * 3),
            ("snooze 0.05", "transient 0.05", "work 0"): ("succeeded", ["snoozed", "rejected", "succeeded"]),
            ("limited 0.05", "work 0"): ("succeeded", ["rate_limited", "succeeded"]),
            ("report",): ("failed", ["permanent"]),
            ("retry_in 0.1", "work 0"): ("succeeded", ["error", "succeeded"]),
        }
        jobs = {script: self.submit(*script, max_retries=2) for script in table}
        for script, (status, causes) in table.items():
            with self.subTest(script=script):
                self.assertEqual(self.ended(jobs[script])["status"], status)
                runs = list(reversed(self.client.attempts(jobs[script])))
                self.assertEqual([run["cause"] for run in runs], causes)
                self.assertTrue(all(run["code_version"] == "1.2.3" for run in runs))
                self.assertIn(f"run 1 does {script[0].split()[0]}", runs[0]["output"])
        self.assertEqual(self.client.get(jobs[("work 0",)], reveal=True)["result"], {"done": "work"})
        failed = self.client.attempts(jobs[("error", "error", "error")])[0]
        self.assertEqual(failed["error_type"], "KeyError")
        self.assertIn("acting.py", failed["output"], "the tail of the traceback is kept")
        reported = self.client.get(jobs[("report",)], reveal=True)
        self.assertEqual((reported["terminal_reason"], reported["result"]), ("reported_failure", {"missing": 3}))
        huge = self.client.attempts(jobs[("huge",)])[0]
        self.assertEqual(huge["error_type"], "ResultTooLarge")
        self.assertIn("bulk_body", huge["error"])
        self.assertIn("could not be kept", self.client.attempts(jobs[("odd",)])[0]["output"])

    def test_a_run_that_has_used_its_time_is_told_and_says_so(self) -> None:
        self.start()
        job = self.submit("late 30", timeout_ms=200, max_retries=0)
        self.assertEqual(self.ended(job)["status"], "failed")
        self.assertEqual(self.client.attempts(job)[0]["cause"], "timeout")

    def test_a_job_that_is_called_off_while_it_runs_is_told(self) -> None:
        self.start(lease=1)
        job = self.submit("wait 30")
        eventually("it runs", lambda: self.said("start", job) == 1)
        self.assertTrue(self.client.cancel(job, "not needed")["changed"])
        eventually("its handler knows", lambda: self.said("canceled", job) == 1)
        runs = self.client.attempts(job)
        self.assertEqual([run["cause"] for run in runs], ["canceled"])
        self.assertEqual(self.client.get(job)["status"], "canceled")


class Stopping(Case):
    """SIGTERM: what runs is finished, the rest goes back."""

    def test_a_stop_finishes_what_runs_and_hands_back_the_rest(self) -> None:
        worker = self.start(concurrency=1, prefetch=3)
        running = self.submit("work 1")
        eventually("it runs", lambda: self.said("start", running) == 1)
        others = [self.submit("work 0") for _ in range(3)]
        eventually("they are held", lambda: all(self.client.get(job)["status"] == "running" for job in others))
        worker.send_signal(signal.SIGTERM)
        self.assertEqual(worker.wait(PATIENCE), 0)
        self.assertEqual(self.client.get(running)["status"], "succeeded")
        for job in others:
            self.assertEqual(self.client.get(job)["attempt"], 0)
            self.assertEqual([run["cause"] for run in self.client.attempts(job)], ["interrupted"])
        self.start()
        for job in others:
            self.assertEqual(self.ended(job)["status"], "succeeded")


    def test_a_second_signal_hands_back_what_runs(self) -> None:
        worker = self.start(lease=1)
        job = self.submit("stubborn 60", "work 0")
        eventually("it runs", lambda: self.said("start", job) == 1)
        # Two signals of one kind may be counted as one.
        worker.send_signal(signal.SIGTERM)
        worker.send_signal(signal.SIGINT)
        self.assertEqual(worker.wait(PATIENCE), 0)
        run = self.client.attempts(job)[0]
        self.assertEqual((run["cause"], self.client.get(job)["attempt"]), ("interrupted", 0))
        self.assertIn("run 1 does stubborn", run["output"])
        self.start()
        self.assertEqual(self.ended(job)["status"], "succeeded")


class Dying(Case):
    """SIGKILL: nothing is lost, and everything ends once."""

    def test_jobs_of_killed_workers_come_back_and_end_once(self) -> None:
        seed = random.randrange(1 << 30)
        print(f"seed {seed}", file=sys.stderr)
        dice = random.Random(seed)
        jobs = {self.submit(f"work {dice.uniform(0.05, 0.5):.2f}") for _ in range(40)}
        for _ in range(3):
            self.start(lease=1)
        for _ in range(6):
            starts = len(self.lines())
            eventually("more has begun", lambda: len(self.lines()) > starts + 2 or self.all_ended(jobs))
            alive = [worker for worker in self.workers if worker.poll() is None]
            victim = dice.choice(alive)
            victim.send_signal(signal.SIGKILL)
            victim.wait()
            self.start(lease=1)
        eventually("all have ended", lambda: self.all_ended(jobs))
        crashes = 0
        for job in jobs:
            causes = [run["cause"] for run in self.client.attempts(job)]
            self.assertEqual(self.client.get(job)["status"], "succeeded", f"{job}: {causes}, seed {seed}")
            self.assertEqual(causes.count("succeeded"), 1, f"{job}: {causes}, seed {seed}")
            self.assertEqual(causes[0], "succeeded", "nothing follows its end")
            self.assertGreaterEqual(self.said("end", job), 1)
            crashes += causes.count("crash")
        self.assertGreater(crashes, 0, f"no run was hit, seed {seed}")

    def all_ended(self, jobs: Set[str]) -> bool:
        rows = self.client.jobs(queue=self.queue, limit=1000)
        return {row["id"] for row in rows if row["status"] in ENDED} >= jobs


class Protocol(Case):
    """The calls themselves, over real connections."""

    def claim(self, **options: Any) -> List[Dict[str, Any]]:
        return self.client.claim("tester", [self.queue], ["act"], **options)

    def test_a_stale_end_is_refused_and_a_repeated_one_is_not(self) -> None:
        job = self.submit("work 0")
        first = self.claim(lease_ms=1000)[0]
        done = {"lease": first["lease"]["token"], "outcome": {"type": "succeeded", "result": "late"}}
        eventually("it came back", lambda: self.client.get(job)["status"] == "pending")
        answer = self.client.finish([done])[0]
        self.assertEqual((answer["ok"], answer["error"]["code"]), (False, "stale_lease"))
        second = self.claim(wait_ms=10_000)[0]
        self.assertGreater(second["lease"]["fence"], first["lease"]["fence"])
        mine = {"lease": second["lease"]["token"], "outcome": {"type": "succeeded", "result": "in time"}}
        for _ in range(2):
            self.assertEqual(self.client.finish([mine])[0], {"ok": True, "status": "succeeded"})
        self.assertFalse(self.client.finish([done])[0]["ok"])
        self.assertEqual(self.client.get(job, reveal=True)["result"], "in time")

    def test_lines_are_kept_with_the_run_that_said_them(self) -> None:
        job = self.submit("work 0")
        lease = self.claim()[0]["lease"]["token"]
        self.client.log(lease, ["one", "two"])
        outcome = {"type": "interrupted", "logs": ["three"]}
        self.assertEqual(self.client.finish([{"lease": lease, "outcome": outcome}])[0]["status"], "pending")
        self.assertEqual(self.client.attempts(job)[0]["output"], "one\ntwo\nthree\n")
        with self.assertRaises(ApiError) as refused:
            self.client.log(lease, ["late"])
        self.assertEqual(refused.exception.code, "stale_lease")

    def test_whoever_hangs_up_takes_nothing(self) -> None:
        parts = urlsplit(URL)
        for _ in range(5):
            connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
            body = {"worker": "gone", "queues": [self.queue], "kinds": ["act"], "wait_ms": 60_000}
            headers = {"Content-Type": "application/json"}
            if "BACKSTOP_TOKEN" in os.environ:
                headers["Authorization"] = f"Bearer {os.environ['BACKSTOP_TOKEN']}"
            connection.request("POST", "/api/v1/work/claim", json.dumps(body), headers)
            time.sleep(0.1)
            connection.close()
        time.sleep(0.2)
        for _ in range(5):
            job = self.submit("work 0")
            claimed = self.claim(wait_ms=2_000)
            self.assertEqual([one["id"] for one in claimed], [job])
            outcome = {"lease": claimed[0]["lease"]["token"], "outcome": {"type": "succeeded"}}
            self.assertTrue(self.client.finish([outcome])[0]["ok"])

    def test_work_that_arrives_ends_a_wait(self) -> None:
        found: List[Dict[str, Any]] = []

        def wait() -> None:
            found.extend(self.claim(wait_ms=30_000))
            self.client.close()

        waiter = threading.Thread(target=wait)
        since = time.monotonic()
        waiter.start()
        time.sleep(0.3)
        job = self.submit("work 0")
        waiter.join(PATIENCE)
        self.assertEqual([one["id"] for one in found], [job])
        self.assertLess(time.monotonic() - since, 10)

    def test_refusals_carry_their_code(self) -> None:
        with self.assertRaises(ApiError) as refused:
            self.claim(limit=0)
        self.assertEqual((refused.exception.status, refused.exception.code), (422, "invalid"))
        with self.assertRaises(ApiError) as refused:
            Client("http://127.0.0.1:1").queues()
        self.assertTrue(refused.exception.is_passing)
        with self.assertRaises(ApiError) as refused:
            self.client.get(str(uuid.uuid4()))
        self.assertEqual(refused.exception.status, 404)

    def test_many_jobs_are_stored_in_one_call(self) -> None:
        jobs = [{"kind": "act", "queue": self.queue, "payload": {"script": ["work 0"]}} for _ in range(10)]
        ids = [answer["id"] for answer in self.client.submit_many(jobs)]
        self.assertEqual(len(set(ids)), 10)
        self.assertIn("id", self.client.explain(ids[0]))
        self.start()
        for job in ids:
            self.assertEqual(self.ended(job)["status"], "succeeded")


if __name__ == "__main__":
    unittest.main()
