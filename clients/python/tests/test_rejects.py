"""Rejected items: told in batches, counted once, and no failure of the job."""

from __future__ import annotations

import unittest
from typing import Any

from backstop import Job
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


if __name__ == "__main__":
    unittest.main()
