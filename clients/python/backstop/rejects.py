"""Items that a run could not handle: gathered, and told to the server in batches."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Union

from .outcomes import Permanent

#: Rejects that are told in one call.
TOGETHER = 100


class RejectRefused(Permanent):
    """A reject that the server does not take: the code has to be corrected."""


class Rejects:
    """The rejects of one run that were not told yet, and how many items it has seen."""

    def __init__(self) -> None:
        self.waiting: List[Dict[str, Any]] = []
        self.seen = 0

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
        """Adds one; true when there are enough for a call."""
        told: Dict[str, Any] = {"error": str(error), "item": item, "keep": keep, "retries": retries, "final": final}
        if isinstance(error, BaseException):
            told["error_type"] = type(error).__name__
        optional = {"fingerprint": key, "count": count, "step": step, "retry_limit": retry_limit}
        told.update({name: value for name, value in optional.items() if value is not None})
        self.waiting.append(told)
        return len(self.waiting) >= TOGETHER
