"""A worker: claims jobs, runs their handlers in threads, keeps their leases, and reports how they ended."""

from __future__ import annotations

import logging
import os
import queue
import signal
import socket
import threading
import time
from types import FrameType
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, TypeVar, Union, cast

from .client import ApiError, Body, Client
from .outcomes import HandlerExited, NotDone, Waiting, interrupted, log_failure, of_exception
from .outcomes import result_too_large, succeeded
from .rejects import TOGETHER, ItemTries, RejectRefused, Rejects, meant
from .steps import EffectPolicy, StepCall, Steps, effect_policy

Handler = Callable[["Job"], Any]
H = TypeVar("H", bound=Handler)
T = TypeVar("T")

_log = logging.getLogger("backstop")

#: How long one claim waits for work, in seconds. A stop does not wait for it.
WAIT = 20.0
#: The first and the longest pause while the server is unavailable, in seconds.
PAUSE_FIRST, PAUSE_LONGEST = 0.1, 5.0
#: Lines that are sent with one heartbeat at most.
LINES = 1000
#: How long a stop waits for its last claim to end, in seconds.
HANGING_UP = 2.0
#: The longest time between two heartbeats, in seconds: so soon a running handler is told that its job was canceled.
BEAT_LONGEST = 2.0


class Job:
    """A claimed job, as its handler sees it."""

    def __init__(self, client: Client, body: Body, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._canceled = threading.Event()
        self._lost = False
        self._timed_out = False
        #: Why the handler should stop: `canceled`, `stale_lease` or `timeout`; none while it should go on.
        self.stop_reason: Optional[str] = None
        self._lines: List[str] = []
        self._telling = threading.Lock()
        self.body: Body = body
        self.id: str = body["id"]
        self.kind: str = body["kind"]
        self.queue: str = body["queue"]
        self.payload: Any = body["payload"]
        self.attempt: int = body["attempt"]
        self.run: int = body["runs"]
        self.timeout_ms: Optional[int] = body.get("timeout_ms")
        #: Which fire of which schedule it is: `name` and `fire_time`; none for most jobs.
        self.schedule: Optional[Body] = body.get("schedule")
        #: Which step of which workflow it is: `id` and `node`; none for most jobs.
        self.workflow: Optional[Body] = body.get("workflow")
        #: What the steps before it returned, by their names.
        self.inputs: Body = body.get("inputs") or {}
        self.lease: str = body["lease"]["token"]
        self.fence: int = body["lease"]["fence"]
        #: What its waits for signals came to, by key; none after the time was up.
        self.signals: Body = body.get("signals") or {}
        #: Why the run has rejected too much, once it has: it fails when it ends, so there is no reason to go on.
        self.over_limit: Optional[str] = None
        self._steps = Steps(body.get("steps") or {}, body.get("step_history"))
        self._rejects = Rejects()
        #: One call at a time: what is told by two at once would be told twice.
        self._flushing = threading.Lock()

    @property
    def canceled(self) -> bool:
        """True when the handler should stop: the job was canceled, its lease is lost, or its time is up."""
        return self._canceled.is_set()

    def wait_canceled(self, seconds: Optional[float] = None) -> bool:
        """Waits until the handler should stop, for so many seconds at most, and says whether it should."""
        return self._canceled.wait(seconds)

    def log(self, line: str) -> None:
        """Keeps a line with the run. Lines are sent with the heartbeats, and the rest with the run's end."""
        self._lines.append(line)

    def _send_lines(self, timeout: float) -> None:
        """Sends what was logged since the last time. What cannot be sent now goes with the next heartbeat."""
        with self._telling:
            lines = self._lines[:LINES]
            if not lines or self._lost:
                return
            try:
                self._client.log(self.lease, lines, timeout=timeout)
            except ApiError as error:
                _log.debug("lines of %s were not kept yet: %s", self.id, error)
                return
            del self._lines[: len(lines)]

    def _last_lines(self) -> List[str]:
        """What has not been sent yet."""
        with self._telling:
            lines, self._lines = self._lines, []
            return lines

    def step(self, name: str, function: Callable[[], T]) -> T:
        """Runs `function` once per success: its result, which has to be JSON, is stored, and later runs of the job are
        answered from the store without calling it.

        Names are unique in a job, and the order of the calls is part of what is stored: other names, or another order,
        raise `StepsChanged`, which makes the job a dead letter. What the function raises is raised here, and nothing
        is stored. A server that is unavailable is asked again until the run should stop.
        """
        call = self._steps.begin(name)
        if call.is_stored:
            return cast(T, call.result)
        with self._steps.running(call):
            made = function()
        self.flush_rejects()
        self._tell_step(call, lambda: self._client.step(self.lease, name, made, call.place))
        self._steps.done(call)
        return made

    def effect(
        self,
        name: str,
        key: str,
        function: Callable[[], T],
        policy: Optional[EffectPolicy] = None,
        verify: Optional[Callable[[], Optional[T]]] = None,
    ) -> T:
        """Calls the outside by `function`, which must not happen twice without anybody knowing: that it is about to be
        called is stored before, and its outcome after that. In everything else it is a `step`.

        `key` is what the other side knows the call by; it stays the same over all runs. When a run dies in between, or
        `function` raises anything but `NotDone`, it may have happened. `policy` says what the next run does then:
        `retry_safe` calls it again with the same key; `verify` calls `verify`, which asks the other side and returns
        the outcome, or `None` when it did not happen; `ask`, which is meant when nothing is said, raises
        `EffectUnknown`, and the job stops for a person.
        """
        chosen = effect_policy(policy, verify is not None)
        call = self._steps.begin(name, key)
        if call.is_stored:
            return cast(T, call.result)
        answer = self._tell_step(call, lambda: self._client.effect(self.lease, name, key, chosen, call.place))
        if answer["state"] == "done":
            self._steps.done(call)
            return cast(T, answer["result"])
        made: Optional[T] = None
        if answer["state"] == "verify" and verify is not None:
            with self._steps.running(call):
                made = verify()
            if made is None:
                # From here on this run may have done it.
                begun = (self.lease, name, key, chosen, call.place, True)
                self._tell_step(call, lambda: self._client.effect(*begun))
        if made is None:
            try:
                with self._steps.running(call):
                    made = function()
            except NotDone:
                self._tell_step(call, lambda: self._client.not_done(self.lease, name, call.place))
                raise
        self.flush_rejects()
        self._tell_step(call, lambda: self._client.step(self.lease, name, made, call.place))
        self._steps.done(call)
        return made

    def _tell_step(self, call: StepCall, tell: Callable[[], T]) -> T:
        """Tells of a step until the server has taken or refused it, or the run should stop."""
        pause = PAUSE_FIRST
        while True:
            try:
                return tell()
            except (TypeError, ValueError) as error:
                self._steps.unstorable(call, error)
            except ApiError as error:
                if error.code == "stale_lease":
                    self._lose(self._why_lost())
                    raise
                if not error.is_passing:
                    self._steps.refused(call, error)
                _log.warning("step %s of job %s is kept and told again: %s", call.name, self.id, error)
                if self._canceled.wait(pause):
                    raise
                pause = min(pause * 2, PAUSE_LONGEST)

    def signal(self, key: str, timeout: Optional[float] = None) -> Any:
        """Waits for a signal, for so many seconds at most, and answers what was sent with it: `{}` when that was
        nothing, `None` after the time was up.

        While nobody has sent it, this raises `Waiting`: let it pass, and the run ends. The job waits without a worker,
        charged nothing, and runs again when the signal comes or the time is up. Put what must not be done
        twice before it into steps. A job waits for each key once, and the wait has its place among the steps.
        """
        index = self._steps.begin_wait(key)
        if key in self.signals:
            return self.signals[key]
        raise Waiting(key, timeout, index)

    def reject(self, item: Any, error: Union[str, BaseException], **told: Any) -> None:
        """Tells of an item that could not be handled, and goes on. It is no failure of the job.

        The server keeps a digest that tells the item from others, and the item itself with `keep=True`. `key` stands
        for the item when it does not tell itself from others; `count` says that it stands for several; `retries`,
        `retry_limit` and `final` are kept with it, and so is `step`: the step whose function tells of the item, unless
        another is named. Rejects are told in batches, the last of them before the run ends; a run that rejects more
        than its limit fails, and `over_limit` says so on the way.
        """
        if self._rejects.add(item, error, **told):
            self.flush_rejects()

    def item(
        self,
        item: Any,
        function: Callable[[Any], T],
        retries: int = 0,
        wait: float = 0.1,
        key: Optional[str] = None,
        keep: bool = False,
    ) -> Optional[T]:
        """Calls `function` with an item: its result, or `None` when the item was rejected.

        When it raises, it is called again within the run, up to `retries` times: after `wait` seconds, then after twice
        as long each time, 10 s at most. When that does not help, the item is rejected with what was tried. `Permanent`
        and `Invalid` reject it at once. What is not about the item, such as `Transient`, is raised here: let it pass,
        and the run ends by it. The item counts as seen. Call `item` in a step, not steps in `item`: the name of a step
        is used once in a run, and a second try would use it again.
        """
        self.saw()
        tries = ItemTries(retries, wait)
        while True:
            try:
                return function(item)
            except Exception as error:
                pause, problem = tries.failed(error, self.canceled), meant(error)
            if pause is None:
                self.reject(item, problem, key=key, keep=keep, **tries.told())
                return None
            self._canceled.wait(pause)

    def saw(self, items: int = 1) -> None:
        """Says that the run has looked at so many items more: what a limit in percent is a share of."""
        self._rejects.seen += items

    def flush_rejects(self) -> None:
        """Tells all rejects that wait, as is done before a step is stored: no later run calls its function again. A
        server that is unavailable is asked again until the run should stop.
        """
        self._tell_rejects(is_last=False)

    def _tell_rejects(self, is_last: bool) -> None:
        with self._flushing:
            while self._rejects.has_news(is_last):
                self._tell_batch()

    def _tell_batch(self) -> None:
        pause = PAUSE_FIRST
        batch, seen = self._rejects.waiting[:TOGETHER], self._rejects.seen
        while True:
            try:
                self.over_limit = self._client.reject(self.lease, batch, seen or None)
                break
            except (TypeError, ValueError) as error:
                raise RejectRefused(f"a rejected item is not valid JSON: {error}") from error
            except ApiError as error:
                if error.code == "stale_lease":
                    self._lose(self._why_lost())
                    raise
                if not error.is_passing:
                    raise RejectRefused(f"a reject was refused: {error}") from error
                _log.warning("rejects of job %s are told again: %s", self.id, error)
                if self._canceled.wait(pause):
                    raise
                pause = min(pause * 2, PAUSE_LONGEST)
        self._rejects.seen_told = seen
        del self._rejects.waiting[: len(batch)]

    def _last_rejects(self) -> None:
        """Tells what waits, once: the end of a run that failed does not wait for it."""
        try:
            if self._rejects.waiting and not self._lost:
                self._client.reject(self.lease, self._rejects.waiting, self._rejects.seen or None)
        except (ApiError, TypeError, ValueError) as error:
            _log.warning("rejects of job %s were not kept: %s", self.id, error)

    def progress(self, percent: int, note: Optional[str] = None) -> bool:
        """Says how far the run is, and answers whether it should go on: false when the job was canceled or lost.

        A server that is unavailable is no reason to stop.
        """
        try:
            self._client.progress(self.lease, percent, note)
        except ApiError as error:
            _log.debug("progress of job %s was not kept: %s", self.id, error)
            if error.code == "stale_lease":
                self._lose(self._why_lost())
        return not self.canceled

    def heartbeat(self) -> bool:
        """Renews the lease now, and answers whether the run should go on: false when the job was canceled or lost.

        The worker renews leases by itself; this is for a handler that wants to know at once.
        """
        try:
            lost = self._client.heartbeat(self._worker, [self.lease])["lost"]
        except ApiError as error:
            _log.debug("the lease of job %s was not renewed: %s", self.id, error)
            return not self.canceled
        for one in lost:
            self._lose(str(one.get("reason", "stale_lease")))
        return not self.canceled

    def _why_lost(self) -> str:
        try:
            lost = self._client.heartbeat(self._worker, [self.lease])["lost"]
            return str(lost[0].get("reason", "stale_lease")) if lost else "stale_lease"
        except ApiError:
            return "stale_lease"

    def _time_up(self) -> None:
        self._timed_out = True
        self._stop("timeout")

    def _lose(self, reason: str = "stale_lease") -> None:
        self._lost = True
        self._stop(reason)

    def _stop(self, reason: str) -> None:
        if self.stop_reason is None:
            self.stop_reason = reason
            if reason != "timeout":
                _log.warning("job %s: the run should stop: %s", self.id, reason)
        self._canceled.set()


class Worker:
    """Runs jobs of some queues until it is told to stop.

    ``stop()``, or SIGTERM and SIGINT under ``run()``, lets running handlers finish for ``grace`` seconds and hands
    back what has not been started. What still runs then is told to stop and handed back too, as interrupted: that costs
    the job nothing. A second signal ends the grace at once.
    """

    def __init__(
        self,
        client: Client,
        queues: Sequence[str] = ("default",),
        concurrency: int = 4,
        lease: float = 30.0,
        name: Optional[str] = None,
        code_version: Optional[str] = None,
        grace: float = 25.0,
        prefetch: int = 0,
    ) -> None:
        if not queues:
            raise ValueError("a worker needs at least one queue")
        self._client = client
        self._asking = client.another()
        self._queues = list(queues)
        self._concurrency = max(1, concurrency)
        self._prefetch = max(0, prefetch)
        self._lease = lease
        self._grace = grace
        self._code_version = code_version
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._handlers: Dict[str, Handler] = {}
        self._versions: Dict[str, int] = {}
        self._held: Dict[str, Job] = {}
        self._owned: Set[str] = set()
        self._todo: "queue.SimpleQueue[Optional[Job]]" = queue.SimpleQueue()
        self._asked = 0
        self._lock = threading.Condition()
        self._stop = threading.Event()
        self._gone = threading.Event()

    def handler(self, kind: str, version: int = 1) -> Callable[[H], H]:
        """Registers a handler: ``@worker.handler("send_email")``. What it returns is the job's result."""

        def register(function: H) -> H:
            self._handlers[kind] = function
            self._versions[kind] = version
            return function

        return register

    def run(self) -> None:
        """Works until SIGTERM or SIGINT. Call it from the main thread."""

        def asked(_number: int, _frame: Optional[FrameType]) -> None:
            # No lock is taken: a handler that takes a lock can meet its own thread holding it.
            self._asked += 1

        before = {number: signal.signal(number, asked) for number in (signal.SIGTERM, signal.SIGINT)}
        try:
            self.work()
        finally:
            for number, old in before.items():
                signal.signal(number, old)

    def stop(self) -> None:
        """Asks the worker to stop. It can be called from any thread."""
        self._stop.set()

    def work(self) -> None:
        """Works until ``stop()`` is called."""
        if not self._handlers:
            raise ValueError("a worker needs at least one handler")
        threads = [self._thread("run", self._run_next) for _ in range(self._concurrency)]
        fetch = self._thread("fetch", self._fetch)
        beat = self._thread("beat", self._beat)
        for thread in (*threads, fetch, beat):
            thread.start()
        try:
            while not self._asked and not self._stop.wait(0.1):
                if not fetch.is_alive():
                    raise RuntimeError("the worker cannot go on: its log says why")
        finally:
            self._stop.set()
            self._wind_up(fetch)
            self._gone.set()
            for _ in threads:
                self._todo.put(None)

    def _thread(self, name: str, loop: Callable[[], None]) -> threading.Thread:
        # A handler that never ends must not keep the process alive after its grace.
        return threading.Thread(target=self._and_close, args=(loop,), name=f"backstop-{name}", daemon=True)

    def _and_close(self, loop: Callable[[], None]) -> None:
        """Runs a loop in a thread, whose connections end with it."""
        try:
            loop()
        finally:
            self._client.close()
            self._asking.close()

    # Claiming

    def _fetch(self) -> None:
        kinds: List[Union[str, Body]] = [
            {"kind": kind, "version": version} for kind, version in self._versions.items()
        ]
        pause = PAUSE_FIRST
        while not self._stop.is_set():
            room = self._wait_for_room()
            if room == 0 or self._stop.is_set():
                continue
            try:
                bodies = self._asking.claim(
                    self.name, self._queues, kinds, room, int(WAIT * 1000), int(self._lease * 1000), self._code_version
                )
                pause = PAUSE_FIRST
            except ApiError as error:
                if self._stop.is_set():
                    return
                if not error.is_passing:
                    _log.error("no work can be claimed: %s", error)
                    return
                _log.warning("cannot claim jobs; trying again: %s", error)
                self._stop.wait(pause)
                pause = min(pause * 2, PAUSE_LONGEST)
                continue
            jobs = [Job(self._client, body, self.name) for body in bodies]
            with self._lock:
                self._held.update((job.lease, job) for job in jobs)
            for job in jobs:
                self._todo.put(job)
            if self._stop.is_set():
                self._hand_back()

    def _wait_for_room(self) -> int:
        most = self._concurrency + self._prefetch
        with self._lock:
            if len(self._held) >= most:
                self._lock.wait(0.2)
            return min(500, max(0, most - len(self._held)))

    # Running

    def _run_next(self) -> None:
        while True:
            job = self._todo.get()
            if job is None:
                return
            if not self._own(job):
                continue
            if self._stop.is_set():
                self._finish(job, interrupted([]))
            else:
                self._finish(job, self._outcome(job))

    def _own(self, job: Job) -> bool:
        """True for the first who asks: the one who runs the job or hands it back."""
        with self._lock:
            if job.lease not in self._held or job.lease in self._owned:
                return False
            self._owned.add(job.lease)
            return True

    def _outcome(self, job: Job) -> Body:
        alarm: Optional[threading.Timer] = None
        if job.timeout_ms is not None:
            alarm = threading.Timer(job.timeout_ms / 1000, job._time_up)
            alarm.daemon = True
            alarm.start()
        try:
            result = self._handlers[job.kind](job)
            job._steps.ended()
            job._tell_rejects(is_last=True)
            return succeeded(result, job._last_lines())
        except BaseException as raised:
            # Guessing on after steps that do not fit would be worse.
            error = job._steps.problem or (raised if isinstance(raised, Exception) else HandlerExited(raised))
            log_failure(job.id, job.kind, job.run, error)
            job._last_rejects()
            outcome = of_exception(error, job._last_lines(), job._steps.failed_at())
            if job._timed_out and outcome["type"] == "failed":
                outcome["class"] = "timeout"
            return outcome
        finally:
            if alarm is not None:
                alarm.cancel()

    def _finish(self, job: Job, outcome: Body) -> None:
        """Reports an end until it is taken or refused. Repeating it is safe: a lease ends its run once."""
        pause = PAUSE_FIRST
        try:
            while not job._lost:
                try:
                    self._report(job, outcome)
                    return
                except ApiError as error:
                    if not error.is_passing:
                        _log.error("the end of job %s was refused: %s", job.id, error)
                        return
                    _log.warning("the end of job %s is kept and told again: %s", job.id, error)
                    if self._gone.wait(pause):
                        return
                    pause = min(pause * 2, PAUSE_LONGEST)
        finally:
            with self._lock:
                self._held.pop(job.lease, None)
                self._owned.discard(job.lease)
                self._lock.notify_all()

    def _report(self, job: Job, outcome: Body) -> None:
        try:
            answer = self._client.finish([{"lease": job.lease, "outcome": outcome}])[0]
        except (TypeError, ValueError) as error:
            # The result is no JSON. The work is done all the same; it is only not kept.
            lines = list(outcome.get("logs", [])) + [f"the result could not be kept: {error}"]
            answer = self._client.finish([{"lease": job.lease, "outcome": succeeded(None, lines)}])[0]
        except ApiError as error:
            if error.status != 413:
                raise
            _log.error("the result of job %s is too large: %s", job.id, error)
            outcome = result_too_large(error, outcome)
            answer = self._client.finish([{"lease": job.lease, "outcome": outcome}])[0]
        if not answer["ok"]:
            error_body = answer.get("error") or {}
            _log.warning("the end of job %s was refused: %s", job.id, error_body.get("message"))

    # Keeping

    def _beat(self) -> None:
        renewed = time.monotonic()
        while not self._gone.wait(min(self._lease / 3, BEAT_LONGEST)):
            with self._lock:
                jobs = dict(self._held)
            if not jobs:
                renewed = time.monotonic()
                continue
            asked = time.monotonic()
            try:
                lost = self._lost_of(jobs)
                renewed = asked
                # After the leases, which must not wait for it.
                for job in jobs.values():
                    job._send_lines(self._lease / 3)
            except ApiError as error:
                _log.warning("leases cannot be renewed at the moment: %s", error)
                # Others may run these jobs by now, and what we say of them would be refused.
                late = time.monotonic() - renewed > self._lease
                lost = {lease: "stale_lease" for lease in jobs} if late else {}
            for lease, reason in lost.items():
                if lease in jobs:
                    jobs[lease]._lose(reason)

    def _lost_of(self, jobs: Dict[str, Job]) -> Dict[str, str]:
        lost: Dict[str, str] = {}
        leases = list(jobs)
        for start in range(0, len(leases), 1000):
            answer = self._client.heartbeat(self.name, leases[start : start + 1000], timeout=self._lease / 3)
            for one in answer["lost"]:
                # A run that has just been reported holds no lease any more; that is no loss.
                with self._lock:
                    if one["lease"] in self._held:
                        lost[one["lease"]] = str(one.get("reason", "stale_lease"))
        return lost

    # Stopping

    def _wind_up(self, fetch: threading.Thread) -> None:
        until = time.monotonic() + self._grace
        # A claim that still waits must not take what is handed back now.
        self._asking.hang_up()
        fetch.join(HANGING_UP)
        self._hand_back()
        with self._lock:
            while self._held and time.monotonic() < until and self._asked < 2:
                self._lock.wait(0.1)
            left = list(self._held.values())
        if left:
            _log.warning("%d jobs did not end in time and are handed back", len(left))
            self._interrupt(left)

    def _interrupt(self, jobs: Sequence[Job]) -> None:
        """Hands back what still runs; what its handlers say from now on is not reported."""
        results: List[Body] = []
        for job in jobs:
            job._lose()
            results.append({"lease": job.lease, "outcome": interrupted(list(job._lines))})
        for start in range(0, len(results), 1000):
            try:
                self._client.finish(results[start : start + 1000])
            except ApiError as error:
                _log.warning("jobs are left to their lease: %s", error)

    def _hand_back(self) -> None:
        """Gives back what nobody has started, to be run by others at once."""
        with self._lock:
            jobs = list(self._held.values())
        for job in jobs:
            if self._own(job):
                self._finish(job, interrupted([]))
