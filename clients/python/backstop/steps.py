"""Durable steps of a job: which are stored, which were called, and what is said when the two do not fit."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from .outcomes import Permanent


class StepsChanged(Permanent):
    """The code calls other steps than the ones that are stored: a dead letter, to be retried with code that fits."""


class StepRefused(Permanent):
    """A step whose name or result the server does not take: its code has to be corrected."""


class Steps:
    """The steps of one run. Names are unique in a job, and the order of the calls is part of what is stored."""

    def __init__(self, stored: Dict[str, Any]) -> None:
        self._stored = stored
        self._order: List[str] = list(stored)
        self._called: List[str] = []

    def begin(self, name: str) -> Tuple[bool, Any]:
        """Notes a call: whether its result is stored, and that result."""
        if name in self._called:
            raise StepRefused(f"step `{name}` is called twice in one run: give each call a name of its own")
        index = len(self._called)
        self._called.append(name)
        if index < len(self._order):
            expected = self._order[index]
            if name != expected:
                raise StepsChanged(
                    f"the steps of this job have changed: step `{expected}` at index {index} is stored, and the code "
                    f"calls step `{name}`; run the job with the code that stored it, or submit a new job"
                )
            return True, self._stored[name]
        return False, None

    def ended(self) -> None:
        """Checks a run that went well: it must have called all that is stored."""
        if len(self._called) < len(self._order):
            missed = self._order[len(self._called)]
            raise StepsChanged(
                f"the steps of this job have changed: step `{missed}` is stored, and the code called only "
                f"{len(self._called)} and ended; run the job with the code that stored it, or submit a new job"
            )
