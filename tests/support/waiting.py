"""The one place where tests wait by sleeping: with a bound, for a condition without a signal.

    await eventually(lambda: database.fetchval("select count(*) = 3 from trail"))

Elsewhere a sleep is not a wait, but the pace of a fault or the work of a handler.
Owns the bounds of all waits: INBOXD_TEST_PATIENCE is the factor that scales them.
Known limit: it sees what holds at a poll, not what held between two polls.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import anyio

from tests.support.verdicts import Late, Violation

T = TypeVar("T")

WITHIN = 30.0  # seconds; a bound for broken code, generous because test machines are busy
PATIENCE = float(os.environ.get("INBOXD_TEST_PATIENCE", "1"))
_EVERY = 0.05


def patient(seconds: float = WITHIN) -> float:
    """The bound of a wait on this machine, in seconds, for functions with a timeout."""
    return seconds * PATIENCE


@contextmanager
def bounded(within: float = WITHIN) -> Iterator[None]:
    """Cancel the block after `within` seconds, scaled, and raise Late."""
    with anyio.move_on_after(patient(within)) as scope:
        yield
    if scope.cancelled_caught:
        raise Late(f"Not ended within {patient(within):g} seconds.")


async def far_from_the_hour(seconds: float = WITHIN) -> None:
    """If the hour ends within this many seconds, scaled, wait for its end; the day may end too.

    For tests that compute an hour or a day as the database does: the two must agree.
    """
    left = 3600 - time.time() % 3600
    if left < patient(seconds):
        await anyio.sleep(left + 1)


async def eventually(condition: Callable[[], Awaitable[T]], within: float = WITHIN) -> T:
    """Call `condition` until its result is truthy, and return that.

    An error of `condition` counts as falsy: a database that restarts refuses connections. After
    `within` seconds, scaled, it raises Late with the last result. If the last result was a
    Violation, it raises that, even if the last call could not connect.
    """
    answer: object = "nothing"
    with anyio.move_on_after(patient(within)):
        while True:
            try:
                found = await condition()
            except AssertionError as error:
                answer = error
            except OSError as error:
                if not isinstance(answer, Violation):
                    answer = error
            else:
                if found:
                    return found
                answer = found
            await anyio.sleep(_EVERY)
    if isinstance(answer, Violation):
        raise answer
    raise Late(f"Not within {patient(within):g} seconds; the last answer was {answer!r}.")
