"""Effects: what may have happened is called again, looked up or left to a person, and steps keep their places."""

from __future__ import annotations

import unittest
import uuid
from typing import Any, Dict, List, Optional

from backstop import EffectUnknown, Job, NotDone, Permanent
from backstop.steps import Steps
from tests.test_handlers import InProcess
from tests.test_worker import PATIENCE, eventually


class Effects(InProcess):
    """A handler charges once; `runs` says how, run by run. What the outside has seen is in `outside`."""

    def play(self, *runs: str, **options: Any) -> Dict[str, Any]:
        self.calls: List[str] = []
        self.outside: List[str] = []
        # The worker of an earlier play must not take this job.
        self.queue = f"effects-{uuid.uuid4().hex[:12]}"
        worker = self.worker()

        def charge(word: str, key: str) -> str:
            self.calls.append(word)
            if word == "declined":
                raise NotDone("the card was declined")
            if word == "declined for good":
                raise NotDone("no card") from Permanent("the card was declined for good")
            self.outside.append(key)
            if word == "breaks":
                raise ConnectionError("the connection broke")
            return f"receipt {len(self.outside)}"

        def look() -> Optional[str]:
            self.calls.append("look")
            return "seen" if self.outside else None

        @worker.handler("act")
        def act(job: Job) -> Any:
            word, _, policy = runs[min(job.run, len(runs)) - 1].partition("/")
            key = "order-8" if word == "other key" else "order-7"
            if word == "lost":
                # As a run that dies before it calls.
                job._client.effect(job.lease, "charge", key, "ask", 0)
                raise KeyError("it dies")
            looks = look if policy == "verify" else None
            chosen: Any = policy or None
            made = job.effect("charge", key, lambda: charge(word, key), policy=chosen, verify=looks)
            if word == "fails after":
                raise KeyError("the handler fails")
            return made

        self.work(worker)
        self.job = self.submit("x", **options)
        self.client.wait(self.job, PATIENCE)
        return self.client.get(self.job, reveal=True)

    def test_an_outcome_is_stored_once(self) -> None:
        # W8
        job = self.play("fails after", "well")
        self.assertEqual((job["status"], job["result"], self.calls), ("succeeded", "receipt 1", ["fails after"]))
        step = {"index": 0, "name": "charge", "run": 1, "state": "done", "key": "order-7"}
        self.assertEqual(job["steps"], [step])

    def test_what_may_have_happened_follows_its_policy(self) -> None:
        # W8
        for runs, result, calls in (
            (("breaks/retry_safe", "well/retry_safe"), "receipt 2", ["breaks", "well"]),
            (("breaks/verify", "well/verify"), "seen", ["breaks", "look"]),
            (("lost", "well/verify"), "receipt 1", ["look", "well"]),
            (("declined", "well"), "receipt 1", ["declined", "well"]),
            (("declined/verify", "well/verify"), "receipt 1", ["declined", "well"]),
        ):
            with self.subTest(runs=runs):
                job = self.play(*runs)
                self.assertEqual((job["status"], job["result"], self.calls), ("succeeded", result, calls))

    def test_what_is_unknown_stops_for_a_person(self) -> None:
        # W8
        job = self.play("breaks", "well")
        self.assertEqual((job["status"], job["error_type"], job["runs"]), ("failed", "EffectUnknown", 2))
        self.assertIn("effect `charge` with key `order-7` may have happened: run 1 began it", job["last_error"])
        self.assertEqual(self.calls, ["breaks"], "it is not called again by itself")
        self.assertIn("effect `charge` with key `order-7`", self.client.explain(self.job)["next"])
        self.client.retry(self.job)
        self.assertEqual(self.client.wait(self.job, PATIENCE)["status"], "succeeded")
        self.assertEqual(self.calls, ["breaks", "well"], "a person has looked")

    def test_what_the_outside_has_not_seen_is_begun_again(self) -> None:
        # W8: also after a person has driven the job again.
        mark = {"index": 0, "name": "charge", "run": 1, "state": "unknown", "key": "order-7"}
        self.assertEqual(self.play("lost", "breaks/verify", max_retries=0)["steps"], [mark])
        self.client.retry(self.job)
        self.assertEqual(self.client.wait(self.job, PATIENCE)["status"], "failed")
        self.assertEqual(self.calls, ["look", "breaks"])
        self.assertEqual(self.client.get(self.job)["steps"], [{**mark, "run": 2}], "the second run may have done it")

    def test_a_key_that_changes_is_a_dead_letter(self) -> None:
        # W7, W8
        job = self.play("breaks/retry_safe", "other key/retry_safe")
        self.assertEqual((job["error_type"], self.calls), ("StepsChanged", ["breaks"]))
        self.assertIn("effect `charge` with key `order-7` at index 0 is stored, and the code calls", job["last_error"])

    def test_what_did_not_happen_says_what_becomes_of_the_run(self) -> None:
        # W8
        job = self.play("declined for good")
        self.assertEqual((job["status"], job["runs"]), ("failed", 1))
        self.assertIn("declined for good", job["last_error"])
        self.assertEqual(job["steps"][0]["state"], "not_done")

    def test_a_policy_that_cannot_be_followed_is_refused_at_once(self) -> None:
        job = Job(self.client, _body({}, []), "nobody")
        with self.assertRaises(ValueError):
            job.effect("charge", "k", lambda: 1, policy="verify")
        with self.assertRaises(ValueError):
            job.effect("charge", "k", lambda: 1, policy="ask", verify=lambda: None)


class Places(InProcess):
    """Steps, effects and waits of one job have one order."""

    def test_a_server_that_tells_no_history_is_told_no_places(self) -> None:
        # W7: it would refuse them.
        steps = Steps({"fetch": 7}, None)
        calls = [steps.begin("fetch"), steps.begin("send")]
        self.assertEqual([(call.is_stored, call.result) for call in calls], [(True, 7), (False, None)])
        self.assertEqual([call.place for call in calls] + [steps.begin_wait("paid")], [None, None, None])
        steps.ended()

    def test_a_handler_that_goes_on_after_steps_that_do_not_fit_has_failed(self) -> None:
        # W7, W8
        for second, error_type in (("swallow", "StepsChanged"), ("unknown", "EffectUnknown")):
            with self.subTest(second=second):
                self.queue = f"places-{uuid.uuid4().hex[:12]}"
                worker, called = self.worker(), []

                @worker.handler("act")
                def act(job: Job) -> str:
                    def note(word: str) -> None:
                        called.append(f"{word}{job.run}")

                    if job.run == 1:
                        job.step("fetch", lambda: note("fetch"))
                        job._client.effect(job.lease, "charge", "k", "ask", 1)
                        raise KeyError("the first run fails")
                    try:
                        job.step("fetch", lambda: note("fetch"))
                        if second == "unknown":
                            job.effect("charge", "k", lambda: note("charge"))
                        job.step("else", lambda: note("else"))
                    except Permanent:
                        pass
                    return "all is well"

                self.work(worker)
                job = self.submit("x")
                self.client.wait(job, PATIENCE)
                shown = self.client.get(job)
                self.assertEqual((shown["status"], shown["error_type"], shown["runs"]), ("failed", error_type, 2))
                self.assertEqual(called, ["fetch1"])

    def test_a_step_that_failed_before_a_wait_keeps_its_place(self) -> None:
        # W7, W10
        worker, called = self.worker(), []
        key = f"{self.queue}/paid"

        @worker.handler("act")
        def act(job: Job) -> Any:
            def fetch() -> int:
                called.append(job.run)
                if job.run == 1:
                    raise KeyError("not yet")
                return job.run

            try:
                fetched: Any = job.step("fetch", fetch)
            except KeyError:
                fetched = None
            came = job.signal(key, 600)
            return [fetched, came, job.step("send", lambda: job.run)]

        self.work(worker)
        job = self.submit("x")
        eventually("it waits", lambda: self.client.get(job)["status"] == "waiting")
        self.client.send_signal(key, {"by": "ann"})
        self.assertEqual(self.client.wait(job, PATIENCE)["status"], "succeeded")
        shown = self.client.get(job, reveal=True)
        self.assertEqual((shown["result"], called), ([2, {"by": "ann"}, 2], [1, 2]))
        places = [(step["index"], step["name"]) for step in shown["steps"]]
        self.assertEqual(places, [(0, "fetch"), (1, f"signal:{key}"), (2, "send")])

    def test_names_are_checked_before_the_function_runs(self) -> None:
        # W7: no server is asked.
        history = [{"index": 1, "name": "b", "run": 1, "state": "done"}]
        job = Job(self.client, _body({"b": 7}, history), "nobody")
        with self.assertRaises(EffectUnknown):
            job._steps.fail(EffectUnknown("told first"))
        with self.assertRaises(Permanent):
            job.step("b", self.fail)
        self.assertEqual(str(job._steps.problem), "told first", "the first problem counts")


def _body(steps: Dict[str, Any], history: List[Dict[str, Any]]) -> Dict[str, Any]:
    """A claimed job, as far as a run reads it."""
    names = ("id", "kind", "queue", "payload", "attempt", "runs")
    lease = {"token": "lt1.none", "fence": 1}
    return {**{name: None for name in names}, "lease": lease, "steps": steps, "step_history": history}


if __name__ == "__main__":
    unittest.main()
