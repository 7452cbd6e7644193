"""Payloads that are stored apart from their commands: read ahead for the commands that start next.

Payloads in memory have at most `commands.in_flight_bytes` together, except a single larger one
(promise 9). Known limit: if a command is given back after its payload was read, the payload is read
again.
"""

import asyncio
from collections.abc import Iterator

from inboxd.commands.leases import ReadyCommands
from inboxd.store import bodies
from inboxd.store.connections import is_passing
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand

# Maximum bytes of one read, unless it serves a single command.
_PORTION_BYTES = 1024**2


class CommandBodies:
    """Payloads of commands that run or start next; call `done` when a command has ended."""

    def __init__(self, pool: Pool, most: int, ready: ReadyCommands) -> None:
        """most: the limit in bytes. ready: the commands that start next."""
        self._pool = pool
        self._most = most
        self._ready = ready
        self._used = 0
        self._places: dict[int, asyncio.Future[str | None]] = {}
        self._freed = asyncio.Event()
        # Commands wait for room one after the other, so that small payloads cannot delay a large
        # one forever.
        self._turn = asyncio.Lock()

    def reload(self, most: int) -> None:
        """Take over another limit, in bytes, while running."""
        self._most = most

    def is_read(self, row: ClaimedCommand) -> bool:
        place = self._places.get(row["id"])
        return place is not None and place.done()

    async def take(self, row: ClaimedCommand) -> str | None:
        """The payload as JSON text; None: it was deleted. Raises the error of the read."""
        if row["id"] not in self._places:
            async with self._turn:
                while not self._fits(row):
                    self._freed.clear()
                    await self._freed.wait()
                portion = list(self._portion(row))
            await self._read(portion)
        return await asyncio.shield(self._places[row["id"]])

    def done(self, row: ClaimedCommand) -> None:
        if self._places.pop(row["id"], None) is not None:
            self._used -= _weight(row)
            self._freed.set()

    def _fits(self, row: ClaimedCommand) -> bool:
        return not self._used or self._used + _weight(row) <= self._most

    def _portion(self, first: ClaimedCommand) -> Iterator[ClaimedCommand]:
        """Reserve room for the command, and for the next ones that one read should serve."""
        weight = 0
        for row in (first, *self._ready.rows):
            if row["body_id"] is None or row["id"] in self._places:
                continue
            weight += _weight(row)
            if row is not first and (weight > _PORTION_BYTES or not self._fits(row)):
                return
            place = self._places[row["id"]] = asyncio.get_running_loop().create_future()
            place.add_done_callback(_seen)
            self._used += _weight(row)
            yield row

    async def _read(self, portion: list[ClaimedCommand]) -> None:
        places = [self._places[row["id"]] for row in portion]
        try:
            async with borrow(self._pool) as session:
                found = await bodies.read(session, portion)
        except Exception as error:  # noqa: BLE001 - raised to the command that asks for the payload
            if len(portion) > 1 and not is_passing(error):
                for row in portion:  # one payload may be the cause
                    await self._read([row])
                return
            for place in places:
                place.set_exception(error)
        except BaseException:
            for place in places:
                place.cancel()
            raise
        else:
            for row, place in zip(portion, places, strict=True):
                body = row["body_id"]
                place.set_result(None if body is None else found.get(body))


def _weight(row: ClaimedCommand) -> int:
    return row["body_bytes"] or 0


def _seen(place: "asyncio.Future[str | None]") -> None:
    """Take note of a failure, so that asyncio does not warn if no task awaits it."""
    if not place.cancelled():
        place.exception()
