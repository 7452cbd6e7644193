"""How far running commands have come: kept in memory, written now and then.

Owns what handlers said since the last turn. Promises that saying it costs no statement, however
often it is said and from whichever thread; that one statement a second at the most writes what
changed, and waits for no lock. Known limit: the last word before the end may not be written.
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
    """One object for all commands of a worker."""

    def __init__(self, pool: Pool, sql: Statements, me: UUID) -> None:
        """Write for the worker `me`."""
        self._pool = pool
        self._sql = sql
        self._me = me
        # By row; a thread may add to it while it is emptied, so each entry is taken in one step.
        self._said: dict[int, tuple[int, Progress]] = {}

    def say(self, row: Row, progress: Progress) -> None:
        """Remember the newest of a command; called from handlers' threads too."""
        command = cast("ClaimedCommand", row)
        self._said[command["id"]] = (command["fence"], progress)

    async def write(self) -> None:
        """Write what was said since the last turn."""
        if not self._said:
            return
        told = []
        while self._said:
            id_, (fence, progress) = self._said.popitem()
            told.append((id_, fence, orjson.dumps(progress._asdict()).decode()))
        async with borrow(self._pool) as connection:
            await commands.write_progress(connection, self._sql, self._me, told)
