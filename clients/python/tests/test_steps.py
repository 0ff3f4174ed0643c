"""Durable steps: what was stored is answered, and changed code is a dead letter."""

from __future__ import annotations

import signal
import unittest
from typing import Any, List

from backstop import Job
from tests.test_handlers import InProcess
from tests.test_worker import PATIENCE, Case, eventually


class Stepping(InProcess):
    """Handlers in threads of this process; a payload has the names of the steps, one line a run."""

    def play(self, *runs: str, **options: Any) -> Any:
        """Plays the runs of one job; answers what was called, and how it ended."""
        called: List[str] = []
        worker = self.worker()

        @worker.handler("act")
        def act(job: Job) -> Any:
            def call(name: str) -> str:
                called.append(name)
                if name.endswith("?"):
                    raise KeyError(name)
                return f"{name}{job.run}"

            script = job.payload["script"]
            results = []
            for name in script[min(job.run, len(script)) - 1].split():
                if name == "!":
                    raise KeyError("the handler fails")
                if name == "huge":
                    results.append(job.step(name, lambda: "x" * 70_000))
                elif name == "odd":
                    results.append(job.step(name, lambda: {1, 2}))
                else:
                    results.append(job.step(name.rstrip("?"), lambda: call(name)))
            return results

        self.work(worker)
        job = self.submit(*runs, **options)
        self.client.wait(job, PATIENCE)
        return called, self.client.get(job, reveal=True)

    def test_a_success_is_stored_once(self) -> None:
        called, job = self.play("z a !", "z a m?", "z a m")
        self.assertEqual(called, ["z", "a", "m?", "m"])
        self.assertEqual((job["status"], job["result"]), ("succeeded", ["z1", "a1", "m3"]))
        self.assertEqual([(step["name"], step["run"]) for step in job["steps"]], [("z", 1), ("a", 1), ("m", 3)])

    def test_changed_code_is_a_dead_letter(self) -> None:
        for second, told in (
            ("a c", "step `b` at index 1 is stored, and the code calls step `c`"),
            ("b a", "step `b` at index 1 is stored, and the code calls step `b` at index 0"),
            ("a", "step `b` at index 1 is stored, and the code called only 1 and ended"),
        ):
            with self.subTest(second=second):
                _, job = self.play("a b !", second)
                self.assertEqual((job["status"], job["error_type"], job["runs"]), ("failed", "StepsChanged", 2))
                self.assertIn(told, job["last_error"])

    def test_what_cannot_be_stored_is_a_dead_letter(self) -> None:
        for word, told in (("huge", "result"), ("odd", "is not valid JSON"), ("a a", "is called twice")):
            with self.subTest(word=word):
                _, job = self.play(word)
                self.assertEqual((job["status"], job["error_type"], job["runs"]), ("failed", "StepRefused", 1))
                self.assertIn(told, job["last_error"])


    def test_a_dead_letter_names_the_step_that_its_run_died_at(self) -> None:
        for script, step in (("a?", 0), ("a b?", 1), ("a b !", 2), ("a a", 1), ("!", 0)):
            with self.subTest(script=script):
                _, job = self.play(script, max_retries=0)
                letter = self.client.call("GET", f"/api/v1/dead-letters/{job['id']}?envelope=true")["envelope"]
                self.assertEqual(letter["transitionKey"], f"{job['id']}:{step}:1")


class Killed(Case):
    """A worker that is killed between a step and the end of its run."""

    def test_a_step_of_a_killed_worker_is_not_called_again(self) -> None:
        doomed = self.start(lease=1)
        job = self.submit("step 60", "step 0")
        eventually("the step is stored", lambda: bool(self.client.get(job).get("steps")))
        doomed.send_signal(signal.SIGKILL)
        doomed.wait(PATIENCE)
        self.start()
        self.assertEqual(self.ended(job)["result"], {"stepped in": 1, "ended in": 2})
        self.assertEqual(self.said("stepping", job), 1)


if __name__ == "__main__":
    unittest.main()
