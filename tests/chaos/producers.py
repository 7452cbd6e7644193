"""Sessions that write events and commands in all ways of producers, whatever happens.

Promises: each transaction records its rows in `chaos_produced`, so the database knows what was
committed, even if the answer to COMMIT was lost. Known limit: a transaction uses keys of other
producers in one call only; several would deadlock.
"""

import json
from collections import Counter
from collections.abc import Sequence

import anyio
import asyncpg

from inboxd.store.connections import LOST
from tests.chaos.load import Draft, Load, Table
from tests.chaos.ways import ONE_ROW, WAYS

# Waiting rows at which a producer pauses, so that the backlog ends in time.
_ENOUGH = 800
_PAUSES = (0.02, 0.25)
_MOST_ROWS = 12
_FREE: tuple[Table, ...] = ("event",) * 4 + ("command",) * 4 + ("batch",)
_KEYED: tuple[Table, ...] = ("once", "sole")

Connection = asyncpg.Connection


class Producer:
    """One session that writes until it is stopped."""

    def __init__(self, name: str, dsn: str, load: Load) -> None:
        """Write rows of `load` through `dsn`."""
        self._name = name
        self._dsn = dsn
        self._load = load
        self._chance = load.chance
        self._stopping = False
        self._wave = 0
        self.transactions = 0
        self.lost: Counter[str] = Counter()

    def stop(self) -> None:
        self._stopping = True

    async def run(self) -> None:
        """Write, and reconnect whenever the connection is lost."""
        while not self._stopping:
            connection: Connection | None = None
            try:
                connection = await asyncpg.connect(
                    self._dsn,
                    timeout=3,
                    command_timeout=5,
                    server_settings={"application_name": "chaos producer"},
                )
                while not self._stopping:
                    await self._transaction(connection)
            except LOST as error:
                self.lost[type(error).__name__] += 1
                await self._pause()
            finally:
                if connection is not None:
                    connection.terminate()

    async def _transaction(self, connection: Connection) -> None:
        transaction = connection.transaction()
        await transaction.start()
        for _ in range(self._chance.choice((1, 1, 2, 3))):
            await self._write(connection, self._chance.choice(_FREE))
        if self._chance.random() < 0.3:
            await self._write(connection, self._chance.choice(_KEYED))
        if self._chance.random() < 0.2:
            await self._taken_back(connection)
        if self._chance.random() < 0.1:
            # Not a wait: the rows become visible this long after they were written.
            await anyio.sleep(self._chance.uniform(0.2, 2))
        if self._chance.random() < 0.15:
            await transaction.rollback()
        else:
            await transaction.commit()
            self.transactions += 1
        await self._pause()
        while not self._stopping and await connection.fetchval(_WAITING) > _ENOUGH:
            await self._pause()

    async def _taken_back(self, connection: Connection) -> None:
        savepoint = connection.transaction()
        await savepoint.start()
        await self._write(connection, self._chance.choice(_FREE))
        await savepoint.rollback()

    async def _write(self, connection: Connection, table: Table) -> None:
        way = self._chance.choice(WAYS[table])
        drafts = self._load.drafts(table, 1 if way in ONE_ROW else _MOST_ROWS)
        written = await way(connection, drafts)
        self._wave += 1
        await connection.executemany(
            "insert into chaos_produced (producer, wave, kind, key, script, expect)"
            " values ($1, $2, $3, $4, $5, $6)",
            [(self._name, self._wave, *line) for line in _lines(drafts, written)],
        )

    async def _pause(self) -> None:
        """The producer's pace, not a wait."""
        await anyio.sleep(self._chance.uniform(*_PAUSES))


_WAITING = """
select (select count(*) from inboxd.events where status <> 'failed')
     + (select count(*) from inboxd.commands where status <> 'failed')
"""


def _lines(drafts: Sequence[Draft], written: Sequence[Draft]) -> list[tuple[object, ...]]:
    """The ledger's lines: the written rows, and the dedup keys that are known now."""
    lines: list[tuple[object, ...]] = [
        (draft.table, draft.key, json.dumps(draft.script), draft.expect) for draft in written
    ]
    once = {draft.dedup_key for draft in drafts if draft.dedup_key is not None}
    return lines + [("once", None, json.dumps({"dedup": key}), None) for key in sorted(once)]
