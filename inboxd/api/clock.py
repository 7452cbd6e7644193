"""The time that handlers see: the worker's, unless a test sets another.

Owns the source of `ctx.now()`. Promises: the time is aware, in UTC; in a test that travels in time,
handlers see the time of the test's database.
Known limit: a handler that asks the operating system gets the system's time.
"""

from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime


def _system() -> datetime:
    return datetime.now(UTC)


# Inherited by each task and thread in which a handler runs.
clock: ContextVar[Callable[[], datetime]] = ContextVar("inboxd_clock", default=_system)


def now() -> datetime:
    """The current time, aware and in UTC."""
    return clock.get()()
