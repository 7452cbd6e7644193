"""Waiting for what a command came to: looks at its row, further and further apart, until it ends.

Owns the pauses between looks, and what each end means for the caller. Promises: no look happens in
a transaction of the caller's, in which the command might not be committed yet, and none leaves one
open; between two looks a pool has its connection back. A look has what is left of the wait's time,
and at least a second, to get a connection and its answer, so the wait is over at most a second
late. A look at what has not ended reads one row by an index, and costs the workers nothing: no
settlement notifies anybody.
Known limits: an end is seen up to a quarter of a second late. Without asyncio only psycopg's pool
can be told how long to wait: SQLAlchemy's engine waits for its own `pool_timeout`, and an answer
is waited for as long as the session's `statement_timeout` lets it come.
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

# Seconds between the first two looks, between the last ones, and how the pauses grow.
_FIRST_PAUSE, _LONGEST_PAUSE, _GROWTH = 0.005, 0.25, 1.6
# Seconds that a look may take at least, though less is left: also the first and the last.
_ONE_LOOK = 1.0

_Rows: TypeAlias = Sequence[Sequence[Any]]


def wait(
    connection: object, schema: str, command_id: UUID, timeout: Duration
) -> Any | Coroutine[Any, Any, Any]:
    """The result of a command; on what is async, something to await."""
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
        """How long the next look may take."""
        return max(self._seconds - self.passed, _ONE_LOOK)

    def pauses(self) -> Iterator[float]:
        """The pause before each look: none before the first; the last look is at the deadline."""
        yield 0.0
        pause = _FIRST_PAUSE
        while (left := self._seconds - self.passed) > 0:
            yield min(pause, left)
            pause = min(pause * _GROWTH, _LONGEST_PAUSE)


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
        # A look may wait too: for a pool's next connection, or a server that does not answer.
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
    """The status, and the result of what has succeeded. Raises for what has ended otherwise."""
    if not rows:
        raise UnknownCommand(
            f"there is no command {command_id}: it was rolled back, or its transaction has not "
            "committed yet, or its history is gone; wait after the commit"
        )
    status, result, error = rows[0]
    if status in (Status.FAILED, Status.DISMISSED):
        raise CommandFailed(command_id, error or "")
    if status == Status.CANCELLED:
        raise CommandCancelled(command_id)
    return status, None if result is None else json.loads(result)


def _query(schema: str, command_id: UUID) -> Query[Any]:
    def text(placeholder: Callable[[int], str]) -> str:
        # The call of a public function (docs/producers.md); `schema` was checked by Inbox.
        call = f"{schema}.command_result({placeholder(1)}::uuid)"
        return f"SELECT status, result::text, error FROM {call}"  # noqa: S608

    return Query(text, [command_id], list)
