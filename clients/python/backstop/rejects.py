"""Items that a run could not handle: gathered, and told to the server in batches."""

from __future__ import annotations

import hashlib
import json
from typing import Any, Dict, List, Optional, Union

from .client import ApiError
from .outcomes import Cancel, Invalid, NotDone, Permanent, RateLimited, ReportedFailure, Snooze, Transient, Waiting
from .steps import EffectUnknown, StepRefused, StepsChanged, running_step

#: Rejects that are told in one call.
TOGETHER = 100
#: The longest wait between two tries of one item, in seconds.
LONGEST_WAIT = 10.0


class RejectRefused(Permanent):
    """A reject that the server does not take: the code has to be corrected."""


class ItemTries:
    """How often one item was tried again in a run, and whether it is once more."""

    def __init__(self, limit: int, wait: float) -> None:
        self.retries = 0
        self.limit = max(0, limit)
        self._wait = wait

    def failed(self, error: Exception, stops: bool) -> Optional[float]:
        """Seconds until the next try; none when the item is to be rejected, as it is when the run `stops`. Raises an
        error that is not about the item.
        """
        if _is_about_the_run(error):
            raise error
        if self.retries == self.limit or stops or isinstance(meant(error), (Permanent, Invalid)):
            return None
        self.retries += 1
        pause, self._wait = self._wait, self._wait * 2
        return min(pause, LONGEST_WAIT)

    def told(self) -> Dict[str, int]:
        """What is told of them with the reject."""
        return {"retries": self.retries, "retry_limit": self.limit}


def meant(error: BaseException) -> BaseException:
    """What went wrong, where the error says only that an effect was not done."""
    while isinstance(error, NotDone) and error.__cause__ is not None:
        error = error.__cause__
    return error


def _is_about_the_run(error: BaseException) -> bool:
    """True when another item would fail as well, or the run is to end by it."""
    error = meant(error)
    if isinstance(error, ApiError):
        return error.is_passing or error.code == "stale_lease"
    ends = (Transient, RateLimited, Snooze, Cancel, Waiting, ReportedFailure)
    return isinstance(error, (*ends, StepsChanged, StepRefused, EffectUnknown, RejectRefused))


class Rejects:
    """The rejects of one run that were not told yet, and how many items it has seen."""

    def __init__(self) -> None:
        self.waiting: List[Dict[str, Any]] = []
        self.seen = 0
        #: What the server was told last of that; none before the first reject.
        self.seen_told: Optional[int] = None
        self._met: Dict[str, int] = {}

    def add(
        self,
        item: Any,
        error: Union[str, BaseException],
        key: Optional[str] = None,
        keep: bool = False,
        count: Optional[int] = None,
        step: Optional[str] = None,
        retries: int = 0,
        retry_limit: Optional[int] = None,
        final: bool = True,
    ) -> bool:
        """Adds one; true when there are enough for a call. The step whose function runs goes along."""
        step = running_step() if step is None else step
        told: Dict[str, Any] = {"error": str(error), "item": item, "keep": keep, "retries": retries, "final": final}
        if isinstance(error, BaseException):
            told["error_type"] = type(error).__name__
        name = key if key is not None else self._told_apart(item, count, step)
        optional = {"fingerprint": name, "count": count, "step": step, "retry_limit": retry_limit}
        told.update({name: value for name, value in optional.items() if value is not None})
        self.waiting.append(told)
        return len(self.waiting) >= TOGETHER

    def has_news(self, is_last: bool) -> bool:
        """True when there is something to tell: a reject, or at the end of the run how many items it has seen."""
        return bool(self.waiting) or (is_last and self.seen_told not in (None, self.seen))

    def _told_apart(self, item: Any, count: Optional[int], step: Optional[str]) -> Optional[str]:
        """A key for an item that looks like an earlier one of this run: they are several, and in every run the same."""
        try:
            look = json.dumps([item, count is not None, step], sort_keys=True, default=str)
        except (TypeError, ValueError):
            # It cannot be told either, and is refused when that is tried.
            return None
        name = hashlib.sha256(look.encode()).hexdigest()[:32]
        met = self._met[name] = self._met.get(name, 0) + 1
        return f"{name}/{met}" if met > 1 else None
