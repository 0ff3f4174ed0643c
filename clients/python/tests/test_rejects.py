"""Rejected items: told in batches, counted once, and no failure of the job."""

from __future__ import annotations

import unittest
from typing import Any, Dict, List

from backstop import Job, NotDone, Permanent, Transient
from backstop.rejects import LONGEST_WAIT, ItemTries
from tests.test_handlers import InProcess
from tests.test_worker import PATIENCE


class Rejecting(InProcess):
    """A handler that rejects items; its first run fails."""

    def test_an_item_is_told_once_and_the_run_goes_on(self) -> None:
        worker = self.worker()

        @worker.handler("act")
        def act(job: Job) -> Any:
            for row in range(150):
                job.saw()
                if row % 10 == 0:
                    job.reject({"row": row}, ValueError(f"row {row} has no name"), keep=row == 0)
            job.reject("all of them", "no header", key="header", count=7, retries=2)
            if job.run == 1:
                job.flush_rejects()
                raise KeyError("the first run fails")
            return "done"

        self.work(worker)
        job = self.submit("x", max_retries=1)
        self.client.wait(job, PATIENCE)
        shown = self.client.get(job, reveal=True)
        self.assertEqual((shown["status"], shown["result"], shown["attempt"]), ("succeeded", "done", 1))
        self.assertEqual(shown["rejects"], {"stored": 22, "run": 2, "rejected": 22, "seen": 150})
        rejects = self.client.call("GET", f"/api/v1/rejects?job={job}&limit=100")["items"]
        self.assertEqual(len(rejects), 16)
        self.assertEqual((rejects[0]["error_type"], rejects[0]["item"]), ("ValueError", {"row": 0}))
        self.assertNotIn("item", rejects[1])
        last = rejects[-1]
        self.assertEqual((last["scope"], last["count"], last["retries"], last["run"]), ("stream", 7, 2, 1))
        groups = self.client.call("GET", "/api/v1/reject-groups")["items"]
        self.assertEqual(sorted(group["items"] for group in groups if group["kind"] == "act"), [7, 15])

    def test_a_run_learns_that_it_has_rejected_too_much(self) -> None:
        worker, told = self.worker(), []

        @worker.handler("picky")
        def picky(job: Job) -> None:
            rejected = 0
            while job.over_limit is None and rejected < 10_000:
                job.reject(rejected, "no name")
                rejected += 1
            told.append((rejected, job.over_limit))

        self.work(worker)
        job = self.client.submit("picky", {}, queue=self.queue, max_retries=0).id
        self.client.wait(job, PATIENCE)
        self.assertEqual((self.client.get(job)["status"], told[0][0]), ("failed", 100))
        self.assertIn("100", told[0][1])

    def told(self, job: str) -> List[Dict[str, Any]]:
        """The rejects of a job, as they are kept."""
        return self.client.call("GET", f"/api/v1/rejects?job={job}&limit=100")["items"]

    def test_the_step_goes_along_by_itself(self) -> None:
        # W9
        worker = self.worker()

        @worker.handler("sort")
        def act(job: Job) -> None:
            job.reject("before", "no name")
            job.step("load", lambda: job.reject("in a step", "no name"))
            job.effect("send", "key", lambda: job.reject("in an effect", "no name"), policy="retry_safe")
            with self.assertRaises(KeyError):
                job.step("bad", self.fails)
            job.reject("behind", "no name")
            job.reject("named", "no name", step="other")

        self.work(worker)
        job = self.client.submit("sort", {}, queue=self.queue, max_retries=0).id
        self.assertEqual(self.client.wait(job, PATIENCE)["status"], "succeeded")
        self.assertEqual([one.get("step") for one in self.told(job)], [None, "load", "send", None, "other"])

    def fails(self) -> None:
        """The code of a step that never succeeds."""
        raise KeyError("no such customer")

    def test_an_item_is_tried_again_before_it_is_rejected(self) -> None:
        # W9
        worker, calls = self.worker(), {}

        def load(row: Any) -> Any:
            calls[row] = calls.get(row, 0) + 1
            if row == "late" and calls[row] == 3:
                return "loaded"
            if row in ("late", "bad"):
                raise ValueError(f"{row} has no name")
            if row == "hopeless":
                raise NotDone("it was refused") from Permanent("never")
            if row == "away":
                raise Transient("smtp", retry_in=0)
            return row

        @worker.handler("try")
        def act(job: Job) -> Any:
            rows = ["good", "late", "bad", "hopeless"]
            got = job.step("load", lambda: [job.item(row, load, retries=2, wait=0.001, keep=True) for row in rows])
            self.assertEqual(got, ["good", "loaded", None, None])
            if job.run == 1:
                job.item("away", load, retries=2)

        self.work(worker)
        job = self.client.submit("try", {}, queue=self.queue, max_retries=0).id
        self.client.wait(job, PATIENCE)
        self.assertEqual(calls, {"good": 1, "late": 3, "bad": 3, "hopeless": 1, "away": 1})
        names = ("item", "error", "error_type", "step", "retries", "retry_limit", "final")
        self.assertEqual(
            [tuple(one.get(name) for name in names) for one in self.told(job)],
            [
                ("bad", "bad has no name", "ValueError", "load", 2, 2, True),
                ("hopeless", "never", "Permanent", "load", 0, 2, True),
            ],
        )
        runs = [one["cause"] for one in reversed(self.client.attempts(job))]
        self.assertEqual(runs, ["rejected", "succeeded"], "that was not about the item: the run ended by it")

    def test_what_was_seen_after_the_last_reject_counts_too(self) -> None:
        # W9
        worker = self.worker()

        @worker.handler("fussy")
        def fussy(job: Job) -> None:
            job.saw()
            job.reject("bad", "no name")
            job.flush_rejects()
            job.saw(199)

        self.work(worker)
        job = self.client.submit("fussy", {}, queue=self.queue, max_retries=0).id
        self.assertEqual(self.client.wait(job, PATIENCE)["status"], "succeeded", "half a percent, and not all")
        shown = self.client.get(job)["rejects"]
        self.assertEqual((shown["rejected"], shown["seen"]), (1, 200))


class Tries(unittest.TestCase):
    """When an item is tried again."""

    def test_waits_double_up_to_a_limit_and_end(self) -> None:
        # W9
        tries = ItemTries(9, 0.1)
        waits = [tries.failed(ValueError("bad"), False) for _ in range(9)]
        self.assertEqual(waits[:3] + waits[7:], [0.1, 0.2, 0.4, LONGEST_WAIT, LONGEST_WAIT])
        self.assertIsNone(tries.failed(ValueError("bad"), False))
        self.assertEqual(tries.told(), {"retries": 9, "retry_limit": 9})
        self.assertIsNone(ItemTries(9, 0.1).failed(ValueError("bad"), True), "the run stops")
        self.assertIsNone(ItemTries(-1, 0.1).failed(ValueError("bad"), False))


if __name__ == "__main__":
    unittest.main()
