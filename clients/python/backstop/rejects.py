"""Items that a run could not handle: gathered, and told to the server in batches."""

from __future__ import annotations

import hashlib
import json
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
        """Adds one; true when there are enough for a call."""
        told: Dict[str, Any] = {"error": str(error), "item": item, "keep": keep, "retries": retries, "final": final}
        if isinstance(error, BaseException):
            told["error_type"] = type(error).__name__
        optional = {"fingerprint": key if key is not None else self._told_apart(item, count, step), "count": count, "step": step, "retry_limit": retry_limit}
        told.update({name: value for name, value in optional.items() if value is not None})
        self.waiting.append(told)
        return len(self.waiting) >= TOGETHER

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
