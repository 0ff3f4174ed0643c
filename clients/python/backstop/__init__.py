"""Client and worker for Backstop, a durable job engine.

`Client` submits jobs and asks about them; `Worker` runs them. Both need nothing but the standard library.
"""

from .client import ApiError, Client, Submitted
from .outcomes import Cancel, Invalid, Permanent, RateLimited, ReportedFailure, RetryIn, Snooze, Transient
from .worker import Job, Worker

__all__ = [
    "ApiError",
    "Cancel",
    "Client",
    "Invalid",
    "Job",
    "Permanent",
    "RateLimited",
    "ReportedFailure",
    "RetryIn",
    "Snooze",
    "Submitted",
    "Transient",
    "Worker",
]
