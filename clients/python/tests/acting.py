"""A worker as a program of its own: the tests start, stop and kill it.

Its handlers do what the payload says, run by run, and write down what they did in the file named by ACTING_DIARY.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

from backstop import Cancel, Client, Invalid, Job, Permanent, RateLimited, ReportedFailure, RetryIn, Snooze, Transient
from backstop import Worker


def note(job: Job, what: str) -> None:
    """One line, in one write, so that lines of several processes never mix."""
    with open(os.environ["ACTING_DIARY"], "a", encoding="utf-8") as diary:
        diary.write(f"{what} {job.id} {job.run}\n")


def stepping(job: Job) -> int:
    """The code of a step: its result says in which run it was called."""
    note(job, "stepping")
    return job.run


def act(job: Job) -> Any:
    """Does what the payload says for this run; the last word repeats."""
    script = job.payload["script"]
    word, _, number = script[min(job.run, len(script)) - 1].partition(" ")
    amount = float(number or 0)
    note(job, "start")
    job.log(f"run {job.run} does {word}")
    if word == "work":
        time.sleep(amount)
    elif word == "wait":
        if job.wait_canceled(amount):
            note(job, "canceled")
            return None
    elif word == "error":
        raise KeyError("no such customer")
    elif word == "permanent":
        raise Permanent("a bad address cannot be fixed")
    elif word == "invalid":
        raise Invalid("no address at all")
    elif word == "transient":
        raise Transient("smtp", retry_in=amount)
    elif word == "retry_in":
        raise RetryIn(amount, "the server says when")
    elif word == "snooze":
        raise Snooze(amount)
    elif word == "limited":
        raise RateLimited(amount)
    elif word == "report":
        raise ReportedFailure({"missing": 3})
    elif word == "stubborn":
        time.sleep(amount)
    elif word == "step":
        stepped = job.step("first", lambda: stepping(job))
        job.wait_canceled(amount)
        return {"stepped in": stepped, "ended in": job.run}
    elif word == "cancel":
        raise Cancel("no longer needed")
    elif word == "odd":
        return {1, 2, 3}
    elif word == "huge":
        return "x" * (17 << 20)
    elif word == "late":
        job.wait_canceled(amount)
        raise RuntimeError("stopped in the middle")
    note(job, "end")
    return {"done": word}


def main() -> None:
    """Serves the queue that the tests name."""
    queue, lease, concurrency, prefetch = sys.argv[1:5]
    worker = Worker(
        Client(os.environ["BACKSTOP_SERVER"], os.environ.get("BACKSTOP_TOKEN")),
        [queue],
        concurrency=int(concurrency),
        prefetch=int(prefetch),
        lease=float(lease),
        code_version="1.2.3",
        grace=10,
    )
    worker.handler("act")(act)
    worker.run()


if __name__ == "__main__":
    main()
