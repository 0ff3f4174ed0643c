"""Waiting for signals: the run ends, and the next one has what came."""

from __future__ import annotations

import unittest
from typing import Any, List

from backstop import Job, Waiting
from tests.test_handlers import InProcess
from tests.test_worker import PATIENCE, eventually


class Waits(InProcess):
    """Handlers in threads of this process."""

    def waiting(self, key: str, timeout: Any, called: List[int]) -> str:
        """A job that waits for a key after a step."""
        worker = self.worker()

        @worker.handler("act")
        def act(job: Job) -> Any:
            drafted = job.step("draft", lambda: job.run)
            called.append(job.run)
            return {"drafted in": drafted, "came": job.signal(key, timeout)}

        self.work(worker)
        return self.submit("x")

    def test_what_was_sent_comes_with_the_next_run(self) -> None:
        called: List[int] = []
        key = f"{self.queue}/approved"
        job = self.waiting(key, 600, called)
        eventually("it waits", lambda: self.client.get(job)["status"] == "waiting")
        told = self.client.get(job)
        self.assertEqual((told["waiting_for"]["reason"], told["waiting_for"]["key"]), ("signal", key))
        self.assertIn(job, [row["job"] for row in self.client.signals(waiting=True)])
        for _ in range(2):
            sent = self.client.send_signal(key, {"by": "ann"}, id="once")
            self.assertEqual((sent["delivered"], sent["kept"]), (1, False))
        self.assertEqual(self.client.wait(job, PATIENCE)["status"], "succeeded")
        result = self.client.get(job, reveal=True)["result"]
        self.assertEqual(result, {"drafted in": 1, "came": {"by": "ann"}})
        self.assertEqual(called, [1, 2])

    def test_the_time_is_up(self) -> None:
        job = self.waiting(f"{self.queue}/never", 0.1, [])
        self.assertEqual(self.client.wait(job, PATIENCE)["status"], "succeeded")
        self.assertEqual(self.client.get(job, reveal=True)["result"], {"drafted in": 1, "came": None})

    def test_a_handler_may_raise_its_wait_itself(self) -> None:
        # W10, W7: such a wait has no place among the steps that the code calls.
        worker = self.worker()
        keys = [f"{self.queue}/first", f"{self.queue}/second"]

        @worker.handler("act")
        def act(job: Job) -> Any:
            for key in keys:
                if key not in job.signals:
                    raise Waiting(key)
            return [job.signals[key] for key in keys]

        self.work(worker)
        job = self.submit("x")
        for number, key in enumerate(keys):
            self.client.send_signal(key, number)
        self.assertEqual(self.client.wait(job, PATIENCE)["status"], "succeeded")
        self.assertEqual(self.client.get(job, reveal=True)["result"], [0, 1])

    def test_a_resume_token_lets_it_go_on(self) -> None:
        key = f"{self.queue}/approved"
        job = self.waiting(key, 600, [])
        eventually("it waits", lambda: self.client.get(job)["status"] == "waiting")
        made = self.client.resume_token(job, key)
        answer = self.client.call("POST", made["url"], {"payload": 7})
        self.assertEqual(answer, {"delivered": 1, "kept": False})
        self.client.wait(job, PATIENCE)
        self.assertEqual(self.client.get(job, reveal=True)["result"]["came"], 7)


if __name__ == "__main__":
    unittest.main()
