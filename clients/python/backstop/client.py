"""The HTTP API as Python calls it. One connection for each thread, kept open between calls."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
import threading
import time
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Dict, Iterable, Iterator, List, Mapping, Optional, Sequence, Union
from urllib.parse import quote, urlencode, urlsplit

from . import supervised
from .options import JobFilter, NewJob, SubmitOptions

if TYPE_CHECKING:
    # Type checkers bring it along; nothing needs it at run time.
    from typing_extensions import Unpack

Json = Any
#: States in which a job has ended.
ENDED = ("succeeded", "failed", "canceled")
#: The first and the longest pause between two looks at a job that is waited for, in seconds.
LOOK_FIRST, LOOK_LONGEST = 0.05, 1.0
#: How long a kept connection is trusted with a call that must not be made twice, in seconds.
FRESH = 1.0
#: Bytes of a body at most: the server takes no more in any call.
LARGEST = 16 * 1024 * 1024
Body = Dict[str, Any]


class ApiError(Exception):
    """A refusal, or an answer that could not be had (then `status` is 0 and `code` is `unreachable`)."""

    def __init__(
        self, status: int, code: str, message: str, hint: Optional[str] = None, details: Json = None
    ) -> None:
        super().__init__(f"{code}: {message}" + (f" ({hint})" if hint else ""))
        self.status = status
        self.code = code
        self.message = message
        self.hint = hint
        self.details = details

    @property
    def is_passing(self) -> bool:
        """True when the same call may well succeed a little later."""
        return self.status in (0, 429, 502, 503, 504)


@dataclass(frozen=True)
class Submitted:
    """What became of a submit."""

    id: str
    status: str
    deduplicated: bool


class Client:
    """A caller of one server. It can be shared by any number of threads."""

    def __init__(self, url: str = "http://127.0.0.1:7700", token: Optional[str] = None, timeout: float = 30.0) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"not a server's address: {url!r}; it looks like http://127.0.0.1:7700")
        self._url = url
        self._secure = parts.scheme == "https"
        self._host: str = parts.hostname
        self._port = parts.port
        self._prefix = parts.path.rstrip("/")
        self._token = token
        self._timeout = timeout
        self._local = threading.local()
        self._open: "weakref.WeakSet[http.client.HTTPConnection]" = weakref.WeakSet()

    # Jobs

    def submit(self, kind: str, payload: Json = None, **options: Unpack[SubmitOptions]) -> Submitted:
        """Stores a job. `options` are those of `SubmitOptions`: queue, priority, delay_ms, idempotency_key and so on."""
        body: Body = {"kind": kind, **options}
        if payload is not None:
            body["payload"] = payload
        answer = self.call("POST", "/api/v1/jobs", body, repeatable="idempotency_key" in options)
        return Submitted(answer["id"], answer["status"], answer.get("deduplicated", False))

    def submit_many(self, jobs: Iterable[Union[NewJob, Mapping[str, Any]]], partial: bool = False) -> List[Body]:
        """Stores many jobs in one call, all or none unless `partial`; one answer for each."""
        body: Body = {"jobs": [dict(job) for job in jobs]}
        if partial:
            body["partial"] = True
        repeatable = all("idempotency_key" in job for job in body["jobs"])
        answer = self.call("POST", "/api/v1/jobs/batch", body, repeatable=repeatable)
        results: List[Body] = answer["results"] if "results" in answer else answer["items"]
        return results

    def get(self, job: str, reveal: bool = False) -> Body:
        """A job as it is now; its payload and result in the clear only when asked for, and allowed."""
        return self._read(f"/api/v1/jobs/{quote(job, safe='')}" + ("?reveal=true" if reveal else ""))

    def explain(self, job: str) -> Body:
        """Why a job is where it is, and what happens next."""
        return self._read(f"/api/v1/jobs/{quote(job, safe='')}/explain")

    def attempts(self, job: str) -> List[Body]:
        """The ended runs of a job, latest first."""
        return list(self._pages(f"/api/v1/jobs/{quote(job, safe='')}/attempts", {}))

    def wait(self, job: str, timeout: Optional[float] = None) -> Body:
        """Waits until a job has ended, and answers it as it is then; its `status` says how.

        Raises `TimeoutError` when it has not ended after `timeout` seconds.
        """
        until = None if timeout is None else time.monotonic() + timeout
        pause = LOOK_FIRST
        while True:
            found = self._now_or_archived(job)
            if found["status"] in ENDED:
                return found
            left = None if until is None else until - time.monotonic()
            if left is not None and left <= 0:
                raise TimeoutError(f"job {job} is still {found['status']} after {timeout} s")
            time.sleep(pause if left is None else min(pause, left))
            pause = min(pause * 2, LOOK_LONGEST)

    def jobs(self, **filters: Unpack[JobFilter]) -> Iterator[Body]:
        """Jobs, newest first, page by page. `filters` are those of `JobFilter`: queue, kind, status, tag and so on.

        Payloads, parameters and results of more than 1,024 bytes are left out, and `left_out` says how large they
        are: `get` has all of a job, and `data_limit` shows how such data begins.
        """
        return self._pages("/api/v1/jobs", {**filters})  # type: ignore[dict-item]

    def cancel(self, job: str, reason: Optional[str] = None) -> Body:
        """Cancels a job, also a running one."""
        return self._operate(job, "cancel", {"reason": reason} if reason else {})

    def pause(self, job: str) -> Body:
        """Pauses a job."""
        return self._operate(job, "pause", {})

    def resume(self, job: str) -> Body:
        """Resumes a paused job."""
        return self._operate(job, "resume", {})

    def retry(self, job: str) -> Body:
        """Retries a dead letter, with all its attempts."""
        return self._operate(job, "retry", {})

    def submit_workflow(
        self,
        name: str,
        nodes: Iterable[Mapping[str, Any]],
        key: Optional[str] = None,
        **more: Any,
    ) -> Body:
        """Stores steps that wait for each other: all of them, or nothing.

        Each node is a job with a `name`, and may say what it follows: `after`, `join`, `when`, `payload_from`. `more`
        may hold `branches`, `on_success` and `on_failure`.
        """
        body: Body = {"name": name, "nodes": [dict(node) for node in nodes], **more}
        if key is not None:
            body["key"] = key
        return self._body(self.call("POST", "/api/v1/workflows", body, repeatable=key is not None))

    def workflow(self, workflow: str) -> Body:
        """One workflow with its steps."""
        return self._read(f"/api/v1/workflows/{quote(workflow, safe='')}")

    def submit_batch(
        self,
        name: str,
        jobs: Iterable[Mapping[str, Any]] = (),
        key: Optional[str] = None,
        **more: Any,
    ) -> Body:
        """Stores jobs that belong together, up to 1,000 at once.

        With `open=True` more can be added by `add_to_batch`, until `seal_batch`. `more` may also hold
        `then_on_success`, `then_on_failure`, `success_rate_at_least` and `failures_at_most`.
        """
        body: Body = {"name": name, "jobs": [dict(job) for job in jobs], **more}
        if key is not None:
            body["key"] = key
        return self._body(self.call("POST", "/api/v1/batches", body, repeatable=key is not None))

    def add_to_batch(self, batch: str, jobs: Iterable[Mapping[str, Any]]) -> Body:
        """Adds up to 1,000 jobs to an open batch: all of them, or none."""
        path = f"/api/v1/batches/{quote(batch, safe='')}/jobs"
        return self._body(self.call("POST", path, {"jobs": [dict(job) for job in jobs]}, repeatable=False))

    def seal_batch(self, batch: str) -> Body:
        """No more jobs are added: when all have ended, the batch has."""
        return self._body(self.call("POST", f"/api/v1/batches/{quote(batch, safe='')}/seal", {}))

    def batch(self, batch: str) -> Body:
        """How far a batch is."""
        return self._read(f"/api/v1/batches/{quote(batch, safe='')}")

    def queues(self) -> List[Body]:
        """Every queue with its counts."""
        return list(self._pages("/api/v1/queues", {"limit": 1000}))

    def send_signal(self, key: str, payload: Json = None, id: Optional[str] = None) -> Body:
        """Sends a signal: says to how many jobs it was `delivered`, or that it is `kept` for the first that will wait.

        The same signal again with the same `id` is delivered once, and answered as the first.
        """
        body: Body = {"key": key, "payload": payload}
        if id is not None:
            body["id"] = id
        return self._body(self.call("POST", "/api/v1/signals", body, repeatable=id is not None))

    def signals(self, waiting: bool = False) -> List[Body]:
        """Signals that are kept, or jobs that wait for one."""
        return list(self._pages("/api/v1/signals", {"state": "waiting" if waiting else "kept"}))

    def resume_token(self, job: str, signal: str) -> Body:
        """A token that sends a signal to this job, once, by whoever has it: `token`, `url` and `expires_at`."""
        return self._operate(job, "resume-token", {"signal": signal})

    # Work

    def claim(
        self,
        worker: str,
        queues: Sequence[str],
        kinds: Sequence[Union[str, Body]],
        limit: int = 1,
        wait_ms: int = 0,
        lease_ms: int = 30_000,
        code_version: Optional[str] = None,
    ) -> List[Body]:
        """Takes jobs, and waits for them when there are none; each has its lease."""
        body: Body = {
            "worker": worker,
            "queues": list(queues),
            "kinds": list(kinds),
            "limit": limit,
            "wait_ms": wait_ms,
            "lease_ms": lease_ms,
        }
        if code_version is not None:
            body["code_version"] = code_version
        self._say_which(worker, body)
        patience = self._timeout + wait_ms / 1000
        # What a claim took before its connection broke goes back by itself; asking again is for the caller.
        answer = self.call("POST", "/api/v1/work/claim", body, timeout=patience, repeatable=False)
        jobs: List[Body] = answer["jobs"]
        return jobs

    def heartbeat(self, worker: str, leases: Sequence[str], timeout: Optional[float] = None) -> Body:
        """Keeps leases: answers which are held and which are lost, and why."""
        body: Body = {"worker": worker, "leases": list(leases)}
        self._say_which(worker, body)
        return self._body(self.call("POST", "/api/v1/work/heartbeat", body, timeout=timeout))

    @staticmethod
    def _say_which(worker: str, body: Body) -> None:
        """Adds which process this is, where somebody would tell of its death."""
        instance = supervised.instance(worker)
        if instance is not None:
            body["instance"] = instance

    def finish(self, results: Sequence[Body]) -> List[Body]:
        """Reports how runs ended; one answer for each, in order."""
        answer = self.call("POST", "/api/v1/work/finish", {"results": list(results)})
        answers: List[Body] = answer["results"]
        return answers

    def progress(self, lease: str, percent: int, note: Optional[str] = None) -> None:
        """Says how far a run is."""
        body: Body = {"lease": lease, "percent": percent}
        if note is not None:
            body["note"] = note
        self.call("POST", "/api/v1/work/progress", body)

    def log(self, lease: str, lines: Sequence[str], timeout: Optional[float] = None) -> None:
        """Keeps lines with a run that is under way, 1,000 in one call at most."""
        self.call("POST", "/api/v1/work/log", {"lease": lease, "lines": list(lines)}, timeout=timeout, repeatable=False)

    def step(self, lease: str, name: str, result: Json, index: Optional[int] = None) -> None:
        """Stores that a step or an effect of a run succeeded; a name that is stored keeps its first result.

        `index` is the order of its call in the run, from 0: it must fit what is stored.
        """
        self.call("POST", "/api/v1/work/step", _with_index({"lease": lease, "name": name, "result": result}, index))

    def effect(
        self, lease: str, name: str, key: str, policy: str, index: Optional[int] = None, not_seen: bool = False
    ) -> Body:
        """Stores that a run is about to call an effect. The `state` of the answer says what to do: `run`, `verify` or
        `done`, and then `result` is there. `policy` is `retry_safe`, `verify` or `ask`.

        `not_seen` says that the other side was asked, because the answer was `verify`, and has not seen it: that it is
        about to be called is stored then.
        """
        body: Body = {"lease": lease, "name": name, "key": key, "policy": policy}
        if not_seen:
            body["not_seen"] = True
        return self._body(self.call("POST", "/api/v1/work/effect", _with_index(body, index)))

    def not_done(self, lease: str, name: str, index: Optional[int] = None) -> None:
        """Stores that an effect which was begun is known not to have happened."""
        self.call("POST", "/api/v1/work/step", _with_index({"lease": lease, "name": name, "not_done": True}, index))

    def reject(self, lease: str, items: Sequence[Body], seen: Optional[int] = None) -> Optional[str]:
        """Tells of items that a run could not handle, 1,000 in one call at most; the same ones again count once.

        Answers why the run has rejected too much, if it has: then it fails when it ends.
        """
        body: Body = {"lease": lease, "items": list(items)}
        if seen is not None:
            body["seen"] = seen
        answer: Body = self.call("POST", "/api/v1/work/reject", body)
        return answer.get("over_limit")

    # The wire

    def call(
        self,
        method: str,
        path: str,
        body: Optional[Body] = None,
        timeout: Optional[float] = None,
        repeatable: bool = True,
    ) -> Json:
        """One call; answers the JSON that came back.

        A server may close a connection that was kept open just when it is used again: then a call that is safe to
        repeat is made once more, on a new one. One that is not is made on a connection that was used a moment ago or
        is new, and fails rather than being made twice.
        """
        headers = {"Accept": "application/json"}
        data: Optional[bytes] = None
        if body is not None:
            data = json.dumps(body, allow_nan=False).encode()
            if len(data) > LARGEST:
                # A server that stops reading in the middle could not say why.
                raise ApiError(
                    413, "too_large", f"the body has {len(data)} bytes, and the limit `bulk_body` is {LARGEST}"
                )
            headers["Content-Type"] = "application/json"
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if not repeatable and time.monotonic() - getattr(self._local, "used", 0.0) > FRESH:
            self.close()
        kept = getattr(self._local, "connection", None) is not None
        try:
            return self._exchange(method, path, data, headers, timeout)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
            self.close()
            if not (kept and repeatable):
                raise _unreachable(error) from error
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _unreachable(error) from error
        try:
            return self._exchange(method, path, data, headers, timeout)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise _unreachable(error) from error

    def close(self) -> None:
        """Closes the connection of this thread; the next call opens a new one."""
        connection = getattr(self._local, "connection", None)
        self._local.connection = None
        if connection is not None:
            connection.close()

    def hang_up(self) -> None:
        """Ends every call that is under way, in whatever thread; each of them raises."""
        for connection in list(self._open):
            sock = connection.sock
            if sock is not None:
                try:
                    sock.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def close_all(self) -> None:
        """Ends every call that is under way and closes every connection, of whatever thread."""
        self.hang_up()
        for connection in list(self._open):
            connection.close()

    def another(self) -> "Client":
        """A client of the same server with connections of its own."""
        return Client(self._url, self._token, self._timeout)

    def _exchange(
        self, method: str, path: str, data: Optional[bytes], headers: Dict[str, str], timeout: Optional[float]
    ) -> Json:
        connection = self._connection()
        wait = self._timeout if timeout is None else timeout
        connection.timeout = wait
        if connection.sock is not None:
            connection.sock.settimeout(wait)
        connection.request(method, self._prefix + path, body=data, headers=headers)
        response = connection.getresponse()
        text = response.read()
        self._local.used = time.monotonic()
        if response.will_close:
            self.close()
        return _answer(response.status, text)

    def _connection(self) -> http.client.HTTPConnection:
        connection: Optional[http.client.HTTPConnection] = getattr(self._local, "connection", None)
        if connection is None:
            if self._secure:
                context = ssl.create_default_context()
                connection = http.client.HTTPSConnection(self._host, self._port, context=context)
            else:
                connection = http.client.HTTPConnection(self._host, self._port)
            self._local.connection = connection
            self._open.add(connection)
        return connection

    def _now_or_archived(self, job: str) -> Body:
        try:
            return self.get(job)
        except ApiError as error:
            if error.code != "archived":
                raise
        found = self._read(f"/api/v1/archive/{quote(job, safe='')}")
        return {**found["job"], "id": found["id"], "status": found["status"]}

    def _read(self, path: str) -> Body:
        return self._body(self.call("GET", path))

    def _operate(self, job: str, verb: str, body: Body) -> Body:
        return self._body(self.call("POST", f"/api/v1/jobs/{quote(job, safe='')}/{verb}", body))

    def _pages(self, path: str, filters: Mapping[str, Union[str, int]]) -> Iterator[Body]:
        query: Dict[str, Union[str, int]] = dict(filters)
        while True:
            page = self._read(f"{path}?{urlencode(query)}" if query else path)
            yield from page["items"]
            if not page.get("next_cursor"):
                return
            query["cursor"] = page["next_cursor"]

    @staticmethod
    def _body(answer: Json) -> Body:
        if not isinstance(answer, dict):
            raise ApiError(0, "unreadable_answer", "the server answered with something else than an object")
        return answer


def _answer(status: int, text: bytes) -> Json:
    try:
        answer = json.loads(text) if text else None
    except ValueError:
        answer = None
    if 200 <= status < 300:
        return answer
    error = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(error, dict):
        message = str(error.get("message", "refused"))
        raise ApiError(status, str(error.get("code", "failed")), message, error.get("hint"), error.get("details"))
    raise ApiError(status, "failed", f"the server answered with status {status}")


def _with_index(body: Body, index: Optional[int]) -> Body:
    return body if index is None else {**body, "index": index}


def _unreachable(error: BaseException) -> ApiError:
    return ApiError(0, "unreachable", f"the server gave no answer: {error or type(error).__name__}")
