"""Client and worker for Backstop, a durable job engine.

`Client` submits jobs and asks about them; `Worker` runs them. `AsyncClient` and `AsyncWorker` do the same under
asyncio. All of them need nothing but the standard library.
"""

from .aio import AsyncClient, AsyncJob, AsyncWorker
from .client import ApiError, Client, Submitted
from .options import Backoff, Callback, JobFilter, NewJob, SubmitOptions
from .outcomes import Cancel, Invalid, NotDone, Permanent, RateLimited, ReportedFailure, RetryIn, Snooze
from .outcomes import Transient, Waiting
from .rejects import RejectRefused
from .steps import EffectPolicy, EffectUnknown, StepRefused, StepsChanged
from .worker import Job, Worker

__all__ = [
    "ApiError",
    "AsyncClient",
    "AsyncJob",
    "AsyncWorker",
    "Backoff",
    "Callback",
    "Cancel",
    "Client",
    "EffectPolicy",
    "EffectUnknown",
    "Invalid",
    "Job",
    "JobFilter",
    "NewJob",
    "NotDone",
    "Permanent",
    "RateLimited",
    "ReportedFailure",
    "RejectRefused",
    "RetryIn",
    "Snooze",
    "StepRefused",
    "StepsChanged",
    "SubmitOptions",
    "Submitted",
    "Transient",
    "Waiting",
    "Worker",
]
