"""Steps of workflows and jobs of batches, against a real server."""

from __future__ import annotations

from typing import Any

from backstop import Job
from tests.test_handlers import InProcess
from tests.test_worker import eventually


class Flowing(InProcess):
    """Handlers in threads of this process."""

    def test_results_flow_to_the_next_step(self) -> None:
        worker = self.worker()

        @worker.handler("reserve")
        def reserve(job: Job) -> Any:
            assert job.workflow is not None and job.inputs == {}
            return {"room": job.payload["order"] + 5}

        @worker.handler("charge")
        def charge(job: Job) -> Any:
            return f"charged for room {job.inputs['reserve']['room']}"

        self.work(worker)
        nodes = [
            {"name": "reserve", "kind": "reserve", "queue": self.queue, "payload": {"order": 7}},
            {"name": "charge", "kind": "charge", "queue": self.queue, "after": ["reserve"]},
            {"name": "sorry", "kind": "sorry", "queue": self.queue, "after": ["charge"], "when": "failure"},
        ]
        stored = self.client.submit_workflow("order", nodes, key=self.queue)
        again = self.client.submit_workflow("order", nodes, key=self.queue)
        self.assertEqual((again["id"], again["deduplicated"]), (stored["id"], True))
        workflow = stored["id"]
        eventually("it has ended", lambda: self.client.workflow(workflow)["status"] != "running")
        seen = self.client.workflow(workflow)
        statuses = [(node["status"], node.get("reason")) for node in seen["nodes"]]
        self.assertEqual(statuses, [("succeeded", None), ("succeeded", None), ("canceled", "not_taken")])
        charged = self.client.get(seen["nodes"][1]["job"], reveal=True)
        self.assertEqual(charged["result"], "charged for room 12")

    def test_a_worker_answers_the_predicates_of_branches(self) -> None:
        # W2
        worker, asked, sent = self.worker(), [], []

        @worker.handler("weigh")
        def weigh(job: Job) -> Any:
            return {"kg": job.payload["kg"]}

        @worker.handler("predicate:heavy")
        def heavy(job: Job) -> bool:
            asked.append(job.inputs["weigh"]["kg"])
            return bool(job.inputs["weigh"]["kg"] > 30)

        @worker.handler("send")
        def send(job: Job) -> None:
            assert job.workflow is not None
            sent.append((job.inputs["weigh"]["kg"], job.workflow["node"]))

        self.work(worker)

        def branch(name: str, when: Any) -> Any:
            return {"name": name, "kind": "send", "queue": self.queue, "after": ["weigh"], "when": when}

        for kg, node in ((40, "truck"), (3, "post")):
            nodes = [
                {"name": "weigh", "kind": "weigh", "queue": self.queue, "payload": {"kg": kg}},
                branch("truck", {"predicate": "heavy"}),
                branch("post", "always"),
            ]
            stored = self.client.submit_workflow("parcel", nodes, branches={"weigh": "first_match"})
            workflow = stored["id"]
            eventually("it has ended", lambda: self.client.workflow(workflow)["status"] != "running")
            seen = self.client.workflow(workflow)
            self.assertEqual(seen["status"], "succeeded")
            reasons = {row["name"]: row.get("reason") for row in seen["nodes"] if row["name"] != "weigh"}
            taken = {name: None if name == node else "not_taken" for name in ("truck", "post")}
            self.assertEqual(reasons, taken)
            self.assertEqual(sent[-1], (kg, node))
        self.assertEqual((asked, len(sent)), ([40, 3], 2))

    def test_a_batch_ends_when_it_is_sealed_and_all_its_jobs_have(self) -> None:
        worker = self.worker()

        @worker.handler("letter")
        def letter(job: Job) -> None:
            if job.payload["number"] == 2:
                raise ValueError("no such street")

        self.work(worker)
        letters = [
            {"kind": "letter", "queue": self.queue, "payload": {"number": number}, "max_retries": 0}
            for number in range(4)
        ]
        batch = self.client.submit_batch("letters", letters[:2], open=True, failures_at_most=1)["id"]
        self.assertEqual(self.client.add_to_batch(batch, letters[2:])["total"], 4)
        self.client.seal_batch(batch)
        eventually("it has ended", lambda: self.client.batch(batch)["status"] != "running")
        seen = self.client.batch(batch)
        self.assertEqual((seen["status"], seen["succeeded"], seen["failed"]), ("succeeded", 3, 1))
