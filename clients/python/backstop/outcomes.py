"""What a handler raises to say more than "it failed", and how any exception becomes a run's outcome."""

from __future__ import annotations

import logging
import traceback
from typing import Any, Dict, List, Optional

_log = logging.getLogger("backstop")

#: Lines of a traceback that are kept with the logs of a failed run: the last ones name the place.
TRACEBACK_LINES = 20

#: What an exception can say in its attribute `backstop_circuit`: what it counts as for the circuit of the dependency
#: that its job needs.
CIRCUIT_MARKS = ("counts", "neutral", "ignored")


class Permanent(Exception):
    """No retry can fix this: a dead letter at once."""


class Invalid(Exception):
    """The input can never be handled: a dead letter at once."""


class Transient(Exception):
    """A dependency is unavailable at the moment: the job goes back, and nobody is to blame."""

    def __init__(self, dependency: str, message: Optional[str] = None, retry_in: Optional[float] = None) -> None:
        super().__init__(message or f"dependency `{dependency}` is unavailable")
        self.dependency = dependency
        self.retry_in = retry_in


class RetryIn(Exception):
    """A failure that says itself when to try again, in seconds. It costs an attempt."""

    def __init__(self, seconds: float, message: str = "to be tried again") -> None:
        super().__init__(message)
        self.seconds = seconds


class Snooze(Exception):
    """Run again after so many seconds. It costs nothing."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"snoozed for {seconds} s")
        self.seconds = seconds


class Cancel(Exception):
    """Cancel the job from inside."""


class RateLimited(Exception):
    """Somebody asks for patience: run again after so many seconds. It costs nothing."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"to be tried again in {seconds} s")
        self.seconds = seconds


class ReportedFailure(Exception):
    """A failure that is the job's result: kept, never retried, no incident."""

    def __init__(self, result: Any) -> None:
        super().__init__("a failure was reported as the result")
        self.result = result


class Waiting(Exception):
    """Wait for a signal, for so many seconds at most: `Job.signal` raises it. It costs nothing."""

    def __init__(self, signal: str, timeout: Optional[float] = None, index: Optional[int] = None) -> None:
        super().__init__(f"waits for signal `{signal}`")
        self.signal = signal
        self.timeout = timeout
        self.index = index


class NotDone(Exception):
    """An effect failed and is known not to have happened, such as a call that was refused: the next run calls it again,
    whatever its policy. What it is raised `from` says what becomes of the run.
    """


class HandlerExited(Exception):
    """A handler asked its process to end, such as by `sys.exit()`. It is a failure like any other: one job does not
    end its worker.
    """

    def __init__(self, asked: BaseException) -> None:
        super().__init__(f"the handler asked its process to end: {asked!r}")


def millis(seconds: float) -> int:
    """Seconds as whole milliseconds, never negative."""
    return max(0, round(seconds * 1000))


def succeeded(result: Any, logs: List[str]) -> Dict[str, Any]:
    """The outcome of a handler that returned."""
    outcome: Dict[str, Any] = {"type": "succeeded", "logs": logs}
    if result is not None:
        outcome["result"] = result
    return outcome


def snoozed(seconds: float, logs: List[str]) -> Dict[str, Any]:
    """The outcome of a run that is to be repeated later."""
    return {"type": "snoozed", "delay_ms": millis(seconds), "logs": logs}


def interrupted(logs: List[str]) -> Dict[str, Any]:
    """The outcome of a run that is handed back because its worker stops. It costs nothing."""
    return {"type": "interrupted", "logs": logs}


def of_exception(error: BaseException, logs: List[str], step: Optional[int] = None) -> Dict[str, Any]:
    """The outcome of a handler that raised, at a step."""
    outcome = _of_exception(error, logs)
    if step is not None and outcome["type"] in ("failed", "reported_failure"):
        outcome["step"] = step
    circuit = _circuit(error) if outcome["type"] == "failed" else None
    if circuit is not None:
        outcome["circuit"] = circuit
    return outcome


def _circuit(error: BaseException) -> Optional[str]:
    """What the first exception of a chain says for the circuit; one that is to be ignored wins over all."""
    first: Optional[str] = None
    seen: List[BaseException] = []
    current: Optional[BaseException] = error
    while current is not None and not any(current is known for known in seen):
        seen.append(current)
        mark = getattr(current, "backstop_circuit", None)
        if mark in CIRCUIT_MARKS and (first is None or mark == "ignored"):
            first = str(mark)
        current = current.__cause__
    return first


def _of_exception(error: BaseException, logs: List[str]) -> Dict[str, Any]:
    if isinstance(error, NotDone) and error.__cause__ is not None:
        return _of_exception(error.__cause__, logs)
    if isinstance(error, Snooze):
        return snoozed(error.seconds, logs)
    if isinstance(error, RateLimited):
        return {"type": "rate_limited", "retry_in_ms": millis(error.seconds), "logs": logs}
    if isinstance(error, Waiting):
        waiting: Dict[str, Any] = {"type": "waiting", "signal": error.signal, "logs": logs}
        if error.timeout is not None:
            waiting["timeout_ms"] = millis(error.timeout)
        if error.index is not None:
            waiting["index"] = error.index
        return waiting
    if isinstance(error, ReportedFailure):
        return {"type": "reported_failure", "result": error.result, "logs": logs}
    if isinstance(error, Cancel):
        return {"type": "canceled", "reason": str(error) or "canceled by its handler", "logs": logs}
    failed: Dict[str, Any] = {"type": "failed", "class": "error", "message": _message(error), "logs": logs}
    if isinstance(error, Permanent):
        failed["class"] = "permanent"
        if type(error) is not Permanent:
            failed["error_type"] = _type_name(error)
    elif isinstance(error, Invalid):
        failed["class"] = "invalid"
    elif isinstance(error, Transient):
        failed["class"] = "transient"
        failed["dependency"] = error.dependency
        if error.retry_in is not None:
            failed["retry_in_ms"] = millis(error.retry_in)
    elif isinstance(error, RetryIn):
        failed["retry_in_ms"] = millis(error.seconds)
        cause = error.__cause__
        failed["error_type"] = _type_name(cause) if cause is not None else "RetryIn"
    else:
        failed["error_type"] = _type_name(error)
        failed["logs"] = logs + _traceback_tail(error)
    return failed


def result_too_large(error: Exception, outcome: Dict[str, Any]) -> Dict[str, Any]:
    """The outcome of a run whose result no server takes: it would be refused as often as it is sent."""
    # The lines may be what is too large.
    logs = [str(line)[:1_000] for line in outcome.get("logs", [])[-100:]]
    message = f"the result is too large: {_message(error)}"
    return {
        "type": "failed",
        "class": "permanent",
        "error_type": "ResultTooLarge",
        "message": message,
        "logs": logs,
    }


def log_failure(job: str, kind: str, run: int, error: BaseException) -> None:
    """Logs how a handler ended: what is wrong with its traceback, what was meant in one line."""
    if isinstance(error, (Snooze, Cancel, Waiting)):
        _log.info("job %s (%s, run %d): %s: %s", job, kind, run, type(error).__name__, _message(error))
    elif isinstance(error, (Transient, RetryIn)):
        _log.warning("job %s (%s, run %d) goes back: %s", job, kind, run, _message(error))
    else:
        _log.error("job %s (%s, run %d) failed: %s", job, kind, run, _message(error), exc_info=error)


def _message(error: BaseException) -> str:
    return str(error) or type(error).__name__


def _type_name(error: BaseException) -> str:
    kind = type(error)
    # Those of this package are called as in every other language.
    if kind.__module__ in ("builtins", "__main__") or kind.__module__.startswith("backstop."):
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"


def _traceback_tail(error: BaseException) -> List[str]:
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return text.splitlines()[-TRACEBACK_LINES:]
