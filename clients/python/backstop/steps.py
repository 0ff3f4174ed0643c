"""Durable steps and effects of a job: which are stored, which were called, and what is said when the two do not fit."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Dict, Iterator, List, Literal, Mapping, NoReturn, Optional, Sequence

from .client import ApiError
from .outcomes import Permanent

#: What is done about an effect that may have happened: called again with the same key, looked up, or left to a person.
EffectPolicy = Literal["retry_safe", "verify", "ask"]


#: The step whose function runs in this thread or task.
_running: ContextVar[Optional[str]] = ContextVar("backstop_step", default=None)


class StepsChanged(Permanent):
    """The code calls other steps than the ones that are stored: a dead letter, to be retried with code that fits."""


class StepRefused(Permanent):
    """A step whose name or result the server does not take: its code has to be corrected."""


class EffectUnknown(Permanent):
    """An effect may have happened: a dead letter, to be retried when a person has found out that it did not."""


@dataclass(frozen=True)
class StepCall:
    """A call of a step or an effect, and its stored result if there is one."""

    index: int
    name: str
    is_stored: bool
    result: Any
    #: The index as it is told to the server; none when that is too old to be told.
    place: Optional[int]


class Steps:
    """The steps of one run. Names are unique in a job, and the order of the calls is part of what is stored."""

    def __init__(self, results: Mapping[str, Any], history: Optional[Sequence[Mapping[str, Any]]]) -> None:
        self._results = results
        #: A server that tells no history takes no indexes either.
        self._is_numbered = history is not None
        self._history = sorted(history or [], key=lambda mark: int(mark["index"]))
        self._by_name = {mark["name"]: mark for mark in self._history}
        self._by_index = {mark["index"]: mark for mark in self._history}
        self._called: List[str] = []
        #: Calls that have not come to a result, by index: how many there were when their code failed, if it did.
        self._unfinished: Dict[int, Optional[int]] = {}
        #: Why the run cannot go well, whatever its handler makes of it.
        self.problem: Optional[Permanent] = None

    def begin(self, name: str, key: Optional[str] = None) -> StepCall:
        """Notes a call: its index, and whether its result is stored. `key` is that of an effect."""
        if name in self._called:
            self.fail(StepRefused(f"step `{name}` is called twice in one run: give each call a name of its own"))
        index = len(self._called)
        self._called.append(name)
        self._unfinished[index] = None
        mark = self._by_name.get(name) or self._by_index.get(index)
        place = index if self._is_numbered else None
        if mark is None:
            return self._begun(StepCall(index, name, name in self._results, self._results.get(name), place))
        if (mark["name"], mark["index"], mark.get("key")) != (name, index, key):
            self._changed(mark, f"calls {_place(index, name, key)}")
        return self._begun(StepCall(index, name, mark["state"] == "done", self._results.get(name), place))

    def _begun(self, call: StepCall) -> StepCall:
        if call.is_stored:
            self.done(call)
        return call

    def done(self, call: StepCall) -> None:
        """Notes that the result of a call is known."""
        self._unfinished.pop(call.index, None)

    @contextmanager
    def running(self, call: StepCall) -> Iterator[None]:
        """While the function of a step runs: what it rejects is told with the step."""
        before = _running.set(call.name)
        try:
            yield
        except BaseException:
            self._unfinished[call.index] = len(self._called)
            raise
        finally:
            _running.reset(before)

    def failed_at(self) -> Optional[int]:
        """Where the run is when it fails: the first step that it has called and not finished, otherwise behind all that
        it has called. A step that failed before others were called was put up with. None for a run without steps.
        """
        calls = len(self._called)
        if not calls or not self._is_numbered:
            return None
        return min((index for index, then in self._unfinished.items() if then in (None, calls)), default=calls)

    def begin_wait(self, signal: str) -> Optional[int]:
        """Notes a wait for a signal, which has its place among the steps: answers that."""
        name = f"signal:{signal}"
        if name in self._called:
            return self._called.index(name) if self._is_numbered else None
        return self.begin(name).place

    def refused(self, call: StepCall, error: ApiError) -> NoReturn:
        """Ends the run by what the server said of a call."""
        if error.code == "steps_changed":
            self.fail(StepsChanged(error.message), error)
        if error.code == "effect_unknown":
            self.fail(EffectUnknown(error.message), error)
        self.fail(StepRefused(f"step `{call.name}` was refused: {error}"), error)

    def unstorable(self, call: StepCall, error: Exception) -> NoReturn:
        """Ends the run because of a result that is not JSON."""
        self.fail(StepRefused(f"the result of step `{call.name}` is not valid JSON: {error}"), error)

    def fail(self, problem: Permanent, cause: Optional[BaseException] = None) -> NoReturn:
        """Raises what ends the run; a handler that goes on does not change that."""
        if self.problem is None:
            self.problem = problem
        raise problem from cause

    def ended(self) -> None:
        """Checks a run that went well: it must have called all that is stored. Not its waits: a handler may raise
        `Waiting` itself, and read `signals`.
        """
        if self.problem is not None:
            raise self.problem
        calls = len(self._called)
        for mark in self._history:
            if mark["index"] >= calls and not _is_wait(mark["name"]):
                only = f"called only {calls}" if calls else "called no step"
                self._changed(mark, f"{only} and ended")

    def _changed(self, mark: Mapping[str, Any], called: str) -> NoReturn:
        stored = _place(mark["index"], mark["name"], mark.get("key"))
        self.fail(
            StepsChanged(
                f"the steps of this job have changed: {stored} is stored, and the code {called}; run the job with the "
                "code that stored it, or submit a new job"
            )
        )


def running_step() -> Optional[str]:
    """The name of the step whose function runs, if one does."""
    return _running.get()


def effect_policy(policy: Optional[EffectPolicy], can_verify: bool) -> EffectPolicy:
    """The policy of a call that may not say it: one that brings a function that looks wants it to be asked."""
    chosen: EffectPolicy = policy or ("verify" if can_verify else "ask")
    if (chosen == "verify") != can_verify:
        raise ValueError("the policy `verify` and the function `verify` go together: it asks the other side")
    return chosen


def _is_wait(name: str) -> bool:
    return name.startswith(("signal:", "signal#"))


def _place(index: int, name: str, key: Optional[str]) -> str:
    if key is None:
        return f"step `{name}` at index {index}"
    return f"effect `{name}` with key `{key}` at index {index}"
