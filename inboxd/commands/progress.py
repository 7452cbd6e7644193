"""Progress of running commands: kept in memory, written at intervals.

Reports cost no statement; at most one statement a second writes the changes, without waiting for
locks. Known limit: the last report before the end may not be written.
"""

from typing import cast
from uuid import UUID

import orjson

from inboxd.api.messages import Row
from inboxd.api.progress import Progress
from inboxd.store import commands
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand


class Progresses:
    def __init__(self, pool: Pool, me: UUID) -> None:
        self._pool = pool
        self._me = me
        # By row id. A thread may add during a write, so each entry is removed in one step.
        self._said: dict[int, tuple[int, Progress]] = {}

    def say(self, row: Row, progress: Progress) -> None:
        """Keep the newest progress of a command; also called by handlers' threads."""
        command = cast("ClaimedCommand", row)
        self._said[command["id"]] = (command["fence"], progress)

    async def write(self) -> None:
        if not self._said:
            return
        told = []
        while self._said:
            id_, (fence, progress) = self._said.popitem()
            told.append((id_, fence, orjson.dumps(progress._asdict()).decode()))
        async with borrow(self._pool) as session:
            await commands.write_progress(session, self._me, told)
