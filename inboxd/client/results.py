"""Waiting for a command's result: looks at its row, at growing intervals, until it ends.

Owns the pauses between looks, and the meaning of each end for the caller. Promises: no look happens
in a transaction of the caller's, in which the command might not be committed yet, and no look
leaves a transaction open; between two looks a pool has its connection back. A look may take the
remaining time of the wait, but at least one second, to get a connection and its answer, so the wait
ends at most one second late. A look at an unsettled command reads one row by an index, and costs
the workers nothing: settlements send no notifications. Known limits: an end is seen up to a quarter
of a second late. Without asyncio only psycopg's pool takes a time limit: SQLAlchemy's engine waits
for its own `pool_timeout`, and the wait for an answer lasts as long as the session's
`statement_timeout` allows.
"""

import asyncio
import json
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias
from uuid import UUID

from inboxd.client.drivers import NoConnection, look
from inboxd.client.pages import Query
from inboxd.errors import CommandCancelled, CommandFailed, ResultTimeout, UnknownCommand
from inboxd.model import checks, duration
from inboxd.model.duration import Duration
from inboxd.model.lifecycle import Status

# The first and the longest pause between looks, and the factor by which pauses grow.
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS, _GROWTH = 0.005, 0.25, 1.6
# A look may take at least this long, even if less of the wait is left.
_LEAST_LOOK_SECONDS = 1.0

_Rows: TypeAlias = Sequence[Sequence[Any]]


def wait(
    connection: object, schema: str, command_id: UUID, timeout: Duration
) -> Any | Coroutine[Any, Any, Any]:
    """Wait for the result of a command; returns an awaitable for an async connection."""
    checks.refuse("command_id", checks.uuid(command_id))
    seconds = duration.seconds(timeout)
    query = _query(schema, command_id)
    driver = look(connection)
    ask = partial(driver.look, connection, query)
    wait_for = _wait_later if driver.later else _wait_now
    return wait_for(ask, command_id, seconds)


class _Time:
    """The time of one wait, from now on."""

    def __init__(self, seconds: float) -> None:
        self._began = time.monotonic()
        self._seconds = seconds

    @property
    def passed(self) -> float:
        return time.monotonic() - self._began

    @property
    def of_a_look(self) -> float:
        """Seconds that the next look may take."""
        return max(self._seconds - self.passed, _LEAST_LOOK_SECONDS)

    def pauses(self) -> Iterator[float]:
        """The pause in seconds before each look: first 0; the last look is at the deadline."""
        yield 0.0
        pause = _FIRST_PAUSE_SECONDS
        while (left := self._seconds - self.passed) > 0:
            yield min(pause, left)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE_SECONDS)


def _wait_now(ask: Callable[[float], _Rows], command_id: UUID, seconds: float) -> Any:
    status, its_time = "", _Time(seconds)
    for pause in its_time.pauses():
        time.sleep(pause)
        try:
            rows = ask(its_time.of_a_look)
        except NoConnection:
            break
        status, result = _read(rows, command_id)
        if status == Status.SUCCEEDED:
            return result
    raise ResultTimeout(command_id, status, its_time.passed)


async def _wait_later(
    ask: Callable[[float], Coroutine[Any, Any, _Rows]], command_id: UUID, seconds: float
) -> Any:
    status, its_time = "", _Time(seconds)
    for pause in its_time.pauses():
        await asyncio.sleep(pause)
        # A look may also wait: for a pool's next connection, or a server that does not answer.
        bound = asyncio.timeout(its_time.of_a_look)
        try:
            async with bound:
                rows = await ask(its_time.of_a_look)
        except NoConnection:
            break
        except TimeoutError:
            if not bound.expired():
                raise
            break
        status, result = _read(rows, command_id)
        if status == Status.SUCCEEDED:
            return result
    raise ResultTimeout(command_id, status, its_time.passed)


def _read(rows: _Rows, command_id: UUID) -> tuple[str, Any]:
    """The status, and the result if it has succeeded. Raises if it has failed or was cancelled."""
    if not rows:
        raise UnknownCommand(
            f"there is no command {command_id}: it was rolled back, or its transaction has not "
            "committed yet, or its history is gone; wait after the commit"
        )
    status, result, error = rows[0]
    if status in (Status.FAILED, Status.DISMISSED):
        raise CommandFailed(command_id, error or "")
    if status == Status.CANCELLED:
        raise CommandCancelled(command_id, error)
    return status, None if result is None else json.loads(result)


def _query(schema: str, command_id: UUID) -> Query[Any]:
    def text(placeholder: Callable[[int], str]) -> str:
        # The call of a public function (docs/producers.md); `schema` was checked by Inbox.
        call = f"{schema}.command_result({placeholder(1)}::uuid)"
        return f"SELECT status, result::text, error FROM {call}"  # noqa: S608

    return Query(text, [command_id], list)
