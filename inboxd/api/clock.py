"""The time that handlers are told: the worker's, unless a test sets another.

Owns the one place where `ctx.now()` comes from. Promises: it is aware, in UTC; a test that travels
in time tells handlers the time that the database has then.
Known limit: what a handler asks of the system itself, it is told by the system.
"""

from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime


def _system() -> datetime:
    return datetime.now(UTC)


# Inherited by each task and thread in which a handler runs.
clock: ContextVar[Callable[[], datetime]] = ContextVar("inboxd_clock", default=_system)


def now() -> datetime:
    """The time now."""
    return clock.get()()
