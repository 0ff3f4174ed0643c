"""The same client and worker for asyncio. Handlers are coroutines; calls go through a few threads of their own.

A handler whose job is canceled, lost or out of time gets `asyncio.CancelledError` where it awaits.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, AsyncIterator, Awaitable, Callable, Dict, Iterable, List, Mapping
from typing import Optional, Sequence, Set, TypeVar, Union, cast

from .client import ENDED, LOOK_FIRST, LOOK_LONGEST, ApiError, Body, Client, Json, Submitted
from .options import JobFilter, NewJob, SubmitOptions
from .outcomes import HandlerExited, NotDone, Waiting, interrupted, log_failure, of_exception
from .outcomes import result_too_large, succeeded
from .rejects import TOGETHER, ItemTries, RejectRefused, Rejects, meant
from .steps import EffectPolicy, StepCall, Steps, effect_policy
from .worker import LINES

if TYPE_CHECKING:
    from typing_extensions import Unpack

T = TypeVar("T")
AsyncHandler = Callable[["AsyncJob"], Awaitable[Any]]
H = TypeVar("H", bound=AsyncHandler)

_log = logging.getLogger("backstop")

#: How long one claim waits for work, in seconds. A stop does not wait for it.
WAIT = 20.0
#: The first and the longest pause while the server is unavailable, in seconds.
PAUSE_FIRST, PAUSE_LONGEST = 0.1, 5.0
#: The longest time between two heartbeats, in seconds: so soon a running handler is told that its job was canceled.
BEAT_LONGEST = 2.0
#: How often a claim that still waits is ended when the worker stops, in seconds.
HANGING_UP = 0.2


class AsyncClient:
    """A caller of one server from coroutines."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:7700",
        token: Optional[str] = None,
        timeout: float = 30.0,
        connections: int = 8,
    ) -> None:
        self._client = Client(url, token, timeout)
        self._connections = max(1, connections)
        self._threads = ThreadPoolExecutor(self._connections, thread_name_prefix="backstop-call")

    async def __aenter__(self) -> "AsyncClient":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends every call that is under way, and takes no more."""
        # Threads that end take their connections along, so these are closed first.
        self._client.close_all()
        self._threads.shutdown(wait=False)

    async def submit(self, kind: str, payload: Json = None, **options: Unpack[SubmitOptions]) -> Submitted:
        """Stores a job; see `Client.submit`."""
        return await self._run(functools.partial(self._client.submit, kind, payload, **options))

    async def submit_many(
        self, jobs: Iterable[Union[NewJob, Mapping[str, Any]]], partial: bool = False
    ) -> List[Body]:
        """Stores many jobs in one call; see `Client.submit_many`."""
        return await self._run(functools.partial(self._client.submit_many, list(jobs), partial))

    async def get(self, job: str, reveal: bool = False) -> Body:
        """A job as it is now."""
        return await self._run(functools.partial(self._client.get, job, reveal))

    async def explain(self, job: str) -> Body:
        """Why a job is where it is, and what happens next."""
        return await self._run(functools.partial(self._client.explain, job))

    async def attempts(self, job: str) -> List[Body]:
        """The ended runs of a job, latest first."""
        return await self._run(functools.partial(self._client.attempts, job))

    async def jobs(self, **filters: Unpack[JobFilter]) -> AsyncIterator[Body]:
        """Jobs, newest first, page by page."""
        rows = self._client.jobs(**filters)
        while True:
            row = await self._run(functools.partial(next, rows, None))
            if row is None:
                return
            yield row

    async def cancel(self, job: str, reason: Optional[str] = None) -> Body:
        """Cancels a job, also a running one."""
        return await self._run(functools.partial(self._client.cancel, job, reason))

    async def pause(self, job: str) -> Body:
        """Pauses a job."""
        return await self._run(functools.partial(self._client.pause, job))

    async def resume(self, job: str) -> Body:
        """Resumes a paused job."""
        return await self._run(functools.partial(self._client.resume, job))

    async def retry(self, job: str) -> Body:
        """Retries a dead letter, with all its attempts."""
        return await self._run(functools.partial(self._client.retry, job))

    async def submit_workflow(
        self, name: str, nodes: Iterable[Mapping[str, Any]], key: Optional[str] = None, **more: Any
    ) -> Body:
        """Stores steps that wait for each other; see `Client.submit_workflow`."""
        return await self._run(functools.partial(self._client.submit_workflow, name, list(nodes), key, **more))

    async def workflow(self, workflow: str) -> Body:
        """One workflow with its steps."""
        return await self._run(functools.partial(self._client.workflow, workflow))

    async def submit_batch(
        self, name: str, jobs: Iterable[Mapping[str, Any]] = (), key: Optional[str] = None, **more: Any
    ) -> Body:
        """Stores jobs that belong together; see `Client.submit_batch`."""
        return await self._run(functools.partial(self._client.submit_batch, name, list(jobs), key, **more))

    async def add_to_batch(self, batch: str, jobs: Iterable[Mapping[str, Any]]) -> Body:
        """Adds up to 1,000 jobs to an open batch."""
        return await self._run(functools.partial(self._client.add_to_batch, batch, list(jobs)))

    async def seal_batch(self, batch: str) -> Body:
        """No more jobs are added to a batch."""
        return await self._run(functools.partial(self._client.seal_batch, batch))

    async def batch(self, batch: str) -> Body:
        """How far a batch is."""
        return await self._run(functools.partial(self._client.batch, batch))

    async def queues(self) -> List[Body]:
        """Every queue with its counts."""
        return await self._run(self._client.queues)

    async def wait(self, job: str, timeout: Optional[float] = None) -> Body:
        """Waits until a job has ended, and answers it as it is then; its `status` says how.

        Raises `TimeoutError` when it has not ended after `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        pause = LOOK_FIRST
        while True:
            found = await self._run(functools.partial(self._client._now_or_archived, job))
            if found["status"] in ENDED:
                return found
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"job {job} is still {found['status']} after {timeout} s")
            await asyncio.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 2, LOOK_LONGEST)

    async def send_signal(self, key: str, payload: Json = None, id: Optional[str] = None) -> Body:
        """Sends a signal; see `Client.send_signal`."""
        return await self._run(functools.partial(self._client.send_signal, key, payload, id))

    async def signals(self, waiting: bool = False) -> List[Body]:
        """Signals that are kept, or jobs that wait for one."""
        return await self._run(functools.partial(self._client.signals, waiting))

    async def resume_token(self, job: str, signal: str) -> Body:
        """A token that sends a signal to this job, once; see `Client.resume_token`."""
        return await self._run(functools.partial(self._client.resume_token, job, signal))

    async def claim(self, *args: Any, **options: Any) -> List[Body]:
        """Takes jobs; see `Client.claim`."""
        return await self._run(functools.partial(self._client.claim, *args, **options))

    async def heartbeat(self, worker: str, leases: Sequence[str], timeout: Optional[float] = None) -> Body:
        """Keeps leases; see `Client.heartbeat`."""
        return await self._run(functools.partial(self._client.heartbeat, worker, leases, timeout))

    async def finish(self, results: Sequence[Body]) -> List[Body]:
        """Reports how runs ended; see `Client.finish`."""
        return await self._run(functools.partial(self._client.finish, results))

    async def progress(self, lease: str, percent: int, note: Optional[str] = None) -> None:
        """Says how far a run is."""
        await self._run(functools.partial(self._client.progress, lease, percent, note))

    async def log(self, lease: str, lines: Sequence[str], timeout: Optional[float] = None) -> None:
        """Keeps lines with a run that is under way; see `Client.log`."""
        await self._run(functools.partial(self._client.log, lease, lines, timeout))

    async def reject(self, lease: str, items: Sequence[Body], seen: Optional[int] = None) -> Optional[str]:
        """Tells of items that a run could not handle; see `Client.reject`."""
        return cast(Optional[str], await self._run(functools.partial(self._client.reject, lease, items, seen)))

    async def step(self, lease: str, name: str, result: Any, index: Optional[int] = None) -> None:
        """Stores that a step or an effect of a run succeeded; see `Client.step`."""
        await self._run(functools.partial(self._client.step, lease, name, result, index))

    async def effect(
        self, lease: str, name: str, key: str, policy: str, index: Optional[int] = None, not_seen: bool = False
    ) -> Body:
        """Stores that a run is about to call an effect; see `Client.effect`."""
        return await self._run(functools.partial(self._client.effect, lease, name, key, policy, index, not_seen))

    async def not_done(self, lease: str, name: str, index: Optional[int] = None) -> None:
        """Stores that an effect which was begun is known not to have happened."""
        await self._run(functools.partial(self._client.not_done, lease, name, index))

    def another(self, connections: int = 1) -> "AsyncClient":
        """A client of the same server with connections of its own."""
        other = AsyncClient.__new__(AsyncClient)
        other._client = self._client.another()
        other._connections = connections
        other._threads = ThreadPoolExecutor(connections, thread_name_prefix="backstop-call")
        return other

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, call)


class AsyncJob:
    """A claimed job, as its handler sees it."""

    def __init__(self, client: AsyncClient, body: Body, worker: str) -> None:
        self._client = client
        self._worker = worker
        self._lines: List[str] = []
        self._telling = asyncio.Lock()
        self._task: Optional["asyncio.Task[Any]"] = None
        self._lost = False
        #: Why the handler should stop: `canceled`, `stale_lease` or `timeout`; none while it should go on.
        self.stop_reason: Optional[str] = None
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
        self._flushing = asyncio.Lock()

    @property
    def canceled(self) -> bool:
        """True when the handler should stop."""
        return self.stop_reason is not None

    def log(self, line: str) -> None:
        """Keeps a line with the run. Lines are sent with the heartbeats, and the rest with the run's end."""
        self._lines.append(line)

    async def _send_lines(self, timeout: float) -> None:
        """Sends what was logged since the last time. What cannot be sent now goes with the next heartbeat."""
        async with self._telling:
            lines = self._lines[:LINES]
            if not lines or self._lost:
                return
            try:
                await self._client.log(self.lease, lines, timeout=timeout)
            except ApiError as error:
                _log.debug("lines of %s were not kept yet: %s", self.id, error)
                return
            del self._lines[: len(lines)]

    async def _last_lines(self) -> List[str]:
        """What has not been sent yet."""
        async with self._telling:
            lines, self._lines = self._lines, []
            return lines

    def signal(self, key: str, timeout: Optional[float] = None) -> Any:
        """Waits for a signal, for so many seconds at most; see `Job.signal`. Nothing is awaited here."""
        index = self._steps.begin_wait(key)
        if key in self.signals:
            return self.signals[key]
        raise Waiting(key, timeout, index)

    async def step(self, name: str, function: Callable[[], Awaitable[T]]) -> T:
        """Runs `function` once per success; see `Job.step`. Its index is taken when it begins: steps that are awaited
        together by `asyncio.gather` have the order of its arguments.
        """
        call = self._steps.begin(name)
        if call.is_stored:
            return cast(T, call.result)
        with self._steps.running(call):
            made = await function()
        await self.flush_rejects()
        await self._tell_step(call, lambda: self._client.step(self.lease, name, made, call.place))
        self._steps.done(call)
        return made

    async def effect(
        self,
        name: str,
        key: str,
        function: Callable[[], Awaitable[T]],
        policy: Optional[EffectPolicy] = None,
        verify: Optional[Callable[[], Awaitable[Optional[T]]]] = None,
    ) -> T:
        """Calls the outside by `function`, which must not happen twice without anybody knowing; see `Job.effect`."""
        chosen = effect_policy(policy, verify is not None)
        call = self._steps.begin(name, key)
        if call.is_stored:
            return cast(T, call.result)
        answer = await self._tell_step(call, lambda: self._client.effect(self.lease, name, key, chosen, call.place))
        if answer["state"] == "done":
            self._steps.done(call)
            return cast(T, answer["result"])
        made: Optional[T] = None
        if answer["state"] == "verify" and verify is not None:
            with self._steps.running(call):
                made = await verify()
            if made is None:
                # From here on this run may have done it.
                begun = (self.lease, name, key, chosen, call.place, True)
                await self._tell_step(call, lambda: self._client.effect(*begun))
        if made is None:
            try:
                with self._steps.running(call):
                    made = await function()
            except NotDone:
                await self._tell_step(call, lambda: self._client.not_done(self.lease, name, call.place))
                raise
        await self.flush_rejects()
        await self._tell_step(call, lambda: self._client.step(self.lease, name, made, call.place))
        self._steps.done(call)
        return made

    async def _tell_step(self, call: StepCall, tell: Callable[[], Awaitable[T]]) -> T:
        """Tells of a step until the server has taken or refused it."""
        pause = PAUSE_FIRST
        while True:
            try:
                return await tell()
            except (TypeError, ValueError) as error:
                self._steps.unstorable(call, error)
            except ApiError as error:
                if error.code == "stale_lease":
                    self._lose("stale_lease")
                    raise
                if not error.is_passing:
                    self._steps.refused(call, error)
                _log.warning("step %s of job %s is kept and told again: %s", call.name, self.id, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_LONGEST)

    async def reject(self, item: Any, error: Union[str, BaseException], **told: Any) -> None:
        """Tells of an item that could not be handled, and goes on; see `Job.reject`."""
        if self._rejects.add(item, error, **told):
            await self.flush_rejects()

    async def item(
        self,
        item: Any,
        function: Callable[[Any], Awaitable[T]],
        retries: int = 0,
        wait: float = 0.1,
        key: Optional[str] = None,
        keep: bool = False,
    ) -> Optional[T]:
        """Calls `function` with an item, tries it again within the run, and rejects it when that does not help; see
        `Job.item`.
        """
        self.saw()
        tries = ItemTries(retries, wait)
        while True:
            try:
                return await function(item)
            except Exception as error:
                pause, problem = tries.failed(error, self.canceled), meant(error)
            if pause is None:
                await self.reject(item, problem, key=key, keep=keep, **tries.told())
                return None
            await asyncio.sleep(pause)

    def saw(self, items: int = 1) -> None:
        """Says that the run has looked at so many items more."""
        self._rejects.seen += items

    async def flush_rejects(self) -> None:
        """Tells all rejects that wait; see `Job.flush_rejects`."""
        await self._tell_rejects(is_last=False)

    async def _tell_rejects(self, is_last: bool) -> None:
        async with self._flushing:
            while self._rejects.has_news(is_last):
                await self._tell_batch()

    async def _tell_batch(self) -> None:
        pause = PAUSE_FIRST
        batch, seen = self._rejects.waiting[:TOGETHER], self._rejects.seen
        while True:
            try:
                self.over_limit = await self._client.reject(self.lease, batch, seen or None)
                break
            except (TypeError, ValueError) as error:
                raise RejectRefused(f"a rejected item is not valid JSON: {error}") from error
            except ApiError as error:
                if error.code == "stale_lease":
                    self._lose("stale_lease")
                    raise
                if not error.is_passing:
                    raise RejectRefused(f"a reject was refused: {error}") from error
                _log.warning("rejects of job %s are told again: %s", self.id, error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, PAUSE_LONGEST)
        self._rejects.seen_told = seen
        del self._rejects.waiting[: len(batch)]

    async def _last_rejects(self) -> None:
        """Tells what waits, once: the end of a run that failed does not wait for it."""
        try:
            if self._rejects.waiting and not self._lost:
                await self._client.reject(self.lease, self._rejects.waiting, self._rejects.seen or None)
        except (ApiError, TypeError, ValueError) as error:
            _log.warning("rejects of job %s were not kept: %s", self.id, error)

    async def progress(self, percent: int, note: Optional[str] = None) -> bool:
        """Says how far the run is, and answers whether it should go on.

        A handler whose job was canceled or lost is canceled here and now. A server that is unavailable is no reason to stop.
        """
        try:
            await self._client.progress(self.lease, percent, note)
        except ApiError as error:
            _log.debug("progress of job %s was not kept: %s", self.id, error)
            if error.code == "stale_lease":
                return await self.heartbeat() and not self._lose("stale_lease")
        return not self.canceled

    async def heartbeat(self) -> bool:
        """Renews the lease now, and answers whether the run should go on."""
        try:
            lost = (await self._client.heartbeat(self._worker, [self.lease]))["lost"]
        except ApiError as error:
            _log.debug("the lease of job %s was not renewed: %s", self.id, error)
            return not self.canceled
        for one in lost:
            self._lose(str(one.get("reason", "stale_lease")))
        return not self.canceled

    def _is_running(self) -> bool:
        return self._task is not None and not self._task.done()

    def _lose(self, reason: str) -> bool:
        self._lost = True
        return self._stop(reason)

    def _stop(self, reason: str) -> bool:
        if self.stop_reason is None:
            self.stop_reason = reason
            if reason != "timeout":
                _log.warning("job %s: the run should stop: %s", self.id, reason)
            if self._task is not None:
                self._task.cancel()
        return True


class AsyncWorker:
    """Runs jobs of some queues until it is told to stop; every run is a task.

    ``stop()``, or SIGTERM and SIGINT under ``run()``, lets running handlers finish for ``grace`` seconds. Handlers
    that do not end by then are canceled, and their jobs handed back as interrupted: that costs a job nothing. A second
    signal ends the grace at once.
    """

    def __init__(
        self,
        client: AsyncClient,
        queues: Sequence[str] = ("default",),
        concurrency: int = 16,
        lease: float = 30.0,
        name: Optional[str] = None,
        code_version: Optional[str] = None,
        grace: float = 25.0,
    ) -> None:
        if not queues:
            raise ValueError("a worker needs at least one queue")
        self._client = client
        self._asking = client.another()
        self._queues = list(queues)
        self._concurrency = max(1, concurrency)
        self._lease = lease
        self._grace = grace
        self._code_version = code_version
        self.name = name or f"{socket.gethostname()}:{os.getpid()}"
        self._handlers: Dict[str, AsyncHandler] = {}
        self._versions: Dict[str, int] = {}
        self._held: Dict[str, AsyncJob] = {}
        self._tasks: Set["asyncio.Task[None]"] = set()
        self._stop: Optional[asyncio.Event] = None
        self._freed: Optional[asyncio.Event] = None
        self._hurried: Optional[asyncio.Event] = None
        self._asked = False
        self._loop: Optional[asyncio.AbstractEventLoop] = None

    def handler(self, kind: str, version: int = 1) -> Callable[[H], H]:
        """Registers a coroutine: ``@worker.handler("send_email")``. What it returns is the job's result."""

        def register(function: H) -> H:
            self._handlers[kind] = function
            self._versions[kind] = version
            return function

        return register

    async def run(self) -> None:
        """Works until SIGTERM or SIGINT."""
        loop = asyncio.get_running_loop()
        numbers = (signal.SIGTERM, signal.SIGINT)
        signals = 0

        def asked() -> None:
            nonlocal signals
            signals += 1
            self.stop()
            if signals > 1 and self._hurried is not None:
                self._hurried.set()

        for number in numbers:
            loop.add_signal_handler(number, asked)
        try:
            await self.work()
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    def stop(self) -> None:
        """Asks the worker to stop. It can be called from any thread."""
        self._asked = True
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)

    async def work(self) -> None:
        """Works until ``stop()`` is called."""
        if not self._handlers:
            raise ValueError("a worker needs at least one handler")
        self._loop = asyncio.get_running_loop()
        self._stop, self._freed, self._hurried = asyncio.Event(), asyncio.Event(), asyncio.Event()
        if self._asked:
            self._stop.set()
        fetch = asyncio.ensure_future(self._fetch(self._stop, self._freed))
        beat = asyncio.ensure_future(self._beat())
        stopped = asyncio.ensure_future(self._stop.wait())
        try:
            await asyncio.wait({fetch, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not self._stop.is_set():
                fetch.result()
                raise RuntimeError("the worker cannot go on: its log says why")
        finally:
            self._stop.set()
            stopped.cancel()
            # A claim that still waits must not take what nobody will run; one that is only connecting is caught next.
            while not fetch.done():
                self._asking._client.hang_up()
                await asyncio.wait({fetch}, timeout=HANGING_UP)
            self._asking.close()
            await self._wind_up(self._hurried)
            beat.cancel()

    async def _fetch(self, stop: asyncio.Event, freed: asyncio.Event) -> None:
        kinds = [{"kind": kind, "version": version} for kind, version in self._versions.items()]
        pause = PAUSE_FIRST
        while not stop.is_set():
            room = min(500, self._concurrency - len(self._held))
            if room <= 0:
                freed.clear()
                await _first(freed.wait(), stop.wait())
                continue
            try:
                bodies = await self._asking.claim(
                    self.name, self._queues, kinds, room, int(WAIT * 1000), int(self._lease * 1000), self._code_version
                )
                pause = PAUSE_FIRST
            except ApiError as error:
                if stop.is_set():
                    return
                if not error.is_passing:
                    _log.error("no work can be claimed: %s", error)
                    return
                _log.warning("cannot claim jobs; trying again: %s", error)
                await _first(asyncio.sleep(pause), stop.wait())
                pause = min(pause * 2, PAUSE_LONGEST)
                continue
            for body in bodies:
                self._begin(AsyncJob(self._client, body, self.name), stop.is_set())

    def _begin(self, job: AsyncJob, stopping: bool) -> None:
        self._held[job.lease] = job
        task = asyncio.ensure_future(self._hand_back(job) if stopping else self._run_one(job))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _hand_back(self, job: AsyncJob) -> None:
        await self._finish(job, interrupted([]))

    async def _run_one(self, job: AsyncJob) -> None:
        outcome = await self._outcome(job)
        if outcome is None:
            self._release(job)
        else:
            await self._finish(job, outcome)

    async def _outcome(self, job: AsyncJob) -> Optional[Body]:
        """How the handler ended; none when nobody wants to know any more."""
        loop = asyncio.get_running_loop()
        handler: "asyncio.Task[Any]" = asyncio.ensure_future(self._call(job))
        job._task = handler
        alarm = None
        if job.timeout_ms is not None:
            alarm = loop.call_later(job.timeout_ms / 1000, job._stop, "timeout")
        try:
            await asyncio.wait({handler})
        except asyncio.CancelledError:
            # The grace period is over.
            handler.cancel()
            raise
        finally:
            if alarm is not None:
                alarm.cancel()
        if handler.cancelled() and job.stop_reason not in (None, "timeout"):
            return None
        lines = await job._last_lines()
        if handler.cancelled() or handler.exception() is not None:
            await job._last_rejects()
        if handler.cancelled() and job.stop_reason == "timeout":
            return _out_of_time(job, lines)
        error = asyncio.CancelledError() if handler.cancelled() else handler.exception()
        if error is None:
            return succeeded(handler.result(), lines)
        # Guessing on after steps that do not fit would be worse.
        error = job._steps.problem or error
        log_failure(job.id, job.kind, job.run, error)
        outcome = of_exception(error, lines, job._steps.failed_at())
        if job.stop_reason == "timeout" and outcome["type"] == "failed":
            outcome["class"] = "timeout"
        return outcome

    async def _call(self, job: AsyncJob) -> Any:
        try:
            result = await self._handlers[job.kind](job)
        except (SystemExit, KeyboardInterrupt) as error:
            # Out of a task it would end the event loop, and all other runs with it.
            raise HandlerExited(error) from error
        job._steps.ended()
        await job._tell_rejects(is_last=True)
        return result

    async def _finish(self, job: AsyncJob, outcome: Body) -> None:
        """Reports an end until it is taken or refused. Repeating it is safe: a lease ends its run once."""
        pause = PAUSE_FIRST
        try:
            while not job._lost:
                try:
                    await self._report(job, outcome)
                    return
                except ApiError as error:
                    if not error.is_passing:
                        _log.error("the end of job %s was refused: %s", job.id, error)
                        return
                    _log.warning("the end of job %s is kept and sent again: %s", job.id, error)
                    await asyncio.sleep(pause)
                    pause = min(pause * 2, PAUSE_LONGEST)
        finally:
            self._release(job)

    async def _report(self, job: AsyncJob, outcome: Body) -> None:
        try:
            answer = (await self._client.finish([{"lease": job.lease, "outcome": outcome}]))[0]
        except (TypeError, ValueError) as error:
            # The result is no JSON. The work is done all the same; it is only not kept.
            lines = list(outcome.get("logs", [])) + [f"the result could not be kept: {error}"]
            answer = (await self._client.finish([{"lease": job.lease, "outcome": succeeded(None, lines)}]))[0]
        except ApiError as error:
            if error.status != 413:
                raise
            _log.error("the result of job %s is too large: %s", job.id, error)
            outcome = result_too_large(error, outcome)
            answer = (await self._client.finish([{"lease": job.lease, "outcome": outcome}]))[0]
        if not answer["ok"]:
            error_body = answer.get("error") or {}
            _log.warning("the end of job %s was refused: %s", job.id, error_body.get("message"))

    def _release(self, job: AsyncJob) -> None:
        self._held.pop(job.lease, None)
        if self._freed is not None:
            self._freed.set()

    async def _beat(self) -> None:
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(min(self._lease / 3, BEAT_LONGEST))
            jobs = dict(self._held)
            if not jobs:
                renewed = time.monotonic()
                continue
            asked = time.monotonic()
            try:
                answer = await self._client.heartbeat(self.name, list(jobs), timeout=self._lease / 3)
                lost = {one["lease"]: str(one.get("reason", "stale_lease")) for one in answer["lost"]}
                renewed = asked
                # After the leases, which must not wait for it.
                await asyncio.gather(*(job._send_lines(self._lease / 3) for job in jobs.values()))
            except ApiError as error:
                _log.warning("leases cannot be renewed at the moment: %s", error)
                late = time.monotonic() - renewed > self._lease
                lost = {lease: "stale_lease" for lease in jobs} if late else {}
            for lease, reason in lost.items():
                # A run that has just been reported holds no lease any more; that is no loss.
                if lease in self._held:
                    self._held[lease]._lose(reason)

    async def _wind_up(self, hurried: asyncio.Event) -> None:
        tasks = set(self._tasks)
        if tasks:
            await _first(asyncio.wait(tasks, timeout=self._grace), hurried.wait())
        left = [job for job in self._held.values() if job._is_running()]
        if left:
            _log.warning("%d jobs did not end in time and are handed back", len(left))
            await self._interrupt(left)
        # What cannot be told is left to its lease.
        tasks = set(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _interrupt(self, jobs: Sequence[AsyncJob]) -> None:
        """Hands back what still runs; what its handlers say from now on is not reported."""
        results: List[Body] = []
        for job in jobs:
            job._lose("interrupted")
            results.append({"lease": job.lease, "outcome": interrupted(list(job._lines))})
        for start in range(0, len(results), 1000):
            try:
                await self._client.finish(results[start : start + 1000])
            except ApiError as error:
                _log.warning("jobs are left to their lease: %s", error)


def _out_of_time(job: AsyncJob, lines: List[str]) -> Body:
    message = f"the run took longer than {job.timeout_ms} ms"
    _log.error("job %s (%s, run %d) failed: %s", job.id, job.kind, job.run, message)
    return {"type": "failed", "class": "timeout", "message": message, "error_type": "Timeout", "logs": lines}


async def _first(*waits: Awaitable[Any]) -> None:
    """Waits for the first of them, and forgets the others."""
    tasks = {asyncio.ensure_future(one) for one in waits}
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
