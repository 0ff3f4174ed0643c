"""What can be said with a submit and asked of a list, for type checkers and editors. At run time these are dicts."""

from __future__ import annotations

from typing import Any, Dict, List, TypedDict, Union


class Backoff(TypedDict, total=False):
    """How long to wait between charged runs; what is left out stays as the server's configuration has it."""

    policy: str  # "none", "fixed", "linear" or "exponential"
    base_ms: int
    cap_ms: int
    jitter: str  # "none", "full", "equal" or a percentage such as "20%"


class Callback(TypedDict, total=False):
    """A job that is stored when another one has ended."""

    kind: str
    payload: Any
    queue: str
    priority: Union[int, str]
    version: int
    params: Dict[str, Any]


class SubmitOptions(TypedDict, total=False):
    """The options of a submit, with the names of the HTTP API."""

    queue: str
    priority: Union[int, str]  # 0 to 4, or "lowest", "low", "normal", "high", "critical"
    version: int
    run_at: str  # RFC 3339
    delay_ms: int
    expires_at: str  # RFC 3339
    max_retries: int
    max_crashes: int
    backoff: Backoff
    timeout_ms: int
    max_wait_ms: int
    idempotency_key: str
    business_key: str
    ordering_key: str
    limit_key: str
    single_instance: str
    permits: Dict[str, int]
    max_deferral_ms: int
    dependency: str
    on_conflict: str  # "reject", "skip" or "replace"
    replaces: str
    tags: List[str]
    params: Dict[str, Any]
    correlation_id: str
    on_success: Callback
    on_failure: Callback


class NewJob(SubmitOptions, total=False):
    """One job of `Client.submit_many`."""

    kind: str
    payload: Any


class JobFilter(TypedDict, total=False):
    """Which jobs `Client.jobs` lists; all conditions must hold."""

    queue: str
    kind: str
    status: str
    tag: str
    business_key: str
    reason: str
    fingerprint: str
    created_after: str
    created_before: str
    finished_after: str
    finished_before: str
    limit: int
    data_limit: int
