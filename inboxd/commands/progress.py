"""Progress of running commands: kept in memory, written now and then.

Owns what handlers reported since the last write. Promises that a report costs no statement, however
often it is made and from whichever thread; that at most one statement a second writes the changes,
and waits for no lock. Known limit: the last report before the end may not be written.
"""

from typing import cast
from uuid import UUID

import orjson

from inboxd.api.messages import Row
from inboxd.api.progress import Progress
from inboxd.store import commands
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.store.statements import Statements


class Progresses:
    def __init__(self, pool: Pool, sql: Statements, me: UUID) -> None:
        self._pool = pool
        self._sql = sql
        self._me = me
        # By row id; a thread may add while it is emptied, so each entry is taken in one step.
        self._said: dict[int, tuple[int, Progress]] = {}

    def say(self, row: Row, progress: Progress) -> None:
        """Keep the newest progress of a command; handlers' threads call it, too."""
        command = cast("ClaimedCommand", row)
        self._said[command["id"]] = (command["fence"], progress)

    async def write(self) -> None:
        """Write what was reported since the last call."""
        if not self._said:
            return
        told = []
        while self._said:
            id_, (fence, progress) = self._said.popitem()
            told.append((id_, fence, orjson.dumps(progress._asdict()).decode()))
        async with borrow(self._pool) as connection:
            await commands.write_progress(connection, self._sql, self._me, told)
