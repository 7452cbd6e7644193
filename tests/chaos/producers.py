"""Sessions that write events and commands in every way that producers have, whatever happens.

Promises: each transaction writes, beside its rows, what it wrote to `chaos_produced`, so that the
truth of what was committed is in the database, also where the answer to COMMIT was lost.
"""

import json
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import anyio
import asyncpg

from inboxd.client import Inbox, NewCommand, NewEvent
from inboxd.store.connections import LOST
from tests.chaos.load import Draft, Load, Table

# Rows that wait before a producer waits too: what is asked of the workers ends in time.
_ENOUGH = 800
_PAUSES = (0.02, 0.25)
_MOST_ROWS = 12
_CLIENT = Inbox()

Connection = asyncpg.Connection
Write = Callable[[Connection, Sequence[Draft]], Awaitable[None]]


class Producer:
    """One session that writes until told to stop."""

    def __init__(self, dsn: str, load: Load) -> None:
        """Write rows of `load` through `dsn`."""
        self._dsn = dsn
        self._load = load
        self._chance = load.chance
        self._stopping = False
        self.transactions = 0
        self.lost: Counter[str] = Counter()

    def stop(self) -> None:
        """Begin no further transaction."""
        self._stopping = True

    async def run(self) -> None:
        """Write, and connect again whenever the connection is lost."""
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
            await self._write(connection)
        if self._chance.random() < 0.2:
            await self._taken_back(connection)
        if self._chance.random() < 0.1:  # rows that become visible long after they were written
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
        await self._write(connection)
        await savepoint.rollback()

    async def _write(self, connection: Connection) -> None:
        table: Table = self._chance.choice(("event", "command"))
        drafts = [self._load.draft(table) for _ in range(self._chance.randint(1, _MOST_ROWS))]
        await self._chance.choice(_WAYS[table])(connection, drafts)
        await connection.executemany(
            "insert into chaos_produced (kind, key, script) values ($1, $2, $3)",
            [(table, draft.key, json.dumps(draft.script)) for draft in drafts],
        )

    async def _pause(self) -> None:
        await anyio.sleep(self._chance.uniform(*_PAUSES))


_WAITING = """
select (select count(*) from inboxd.events where status <> 'failed')
     + (select count(*) from inboxd.commands where status <> 'failed')
"""


# --------------------------------------------------------------------------- ways of writing


async def _insert_events(connection: Connection, drafts: Sequence[Draft]) -> None:
    for draft in drafts:
        await connection.execute(
            "insert into inboxd.events (event_id, type, payload, run_at)"
            " values ($1, $2, $3, coalesce($4, now()))",
            draft.key,
            draft.type,
            json.dumps(draft.script),
            draft.run_at,
        )


async def _insert_commands(connection: Connection, drafts: Sequence[Draft]) -> None:
    await connection.execute(
        "insert into inboxd.commands (command_id, type, payload, run_at, queue, priority)"
        " select key, type, payload, coalesce(run_at, now()), queue, priority"
        " from unnest($1::uuid[], $2::text[], $3::jsonb[], $4::timestamptz[], $5::text[],"
        " $6::int[]) as t(key, type, payload, run_at, queue, priority)",
        [draft.key for draft in drafts],
        [draft.type for draft in drafts],
        [json.dumps(draft.script) for draft in drafts],
        [draft.run_at for draft in drafts],
        [draft.queue for draft in drafts],
        [draft.priority for draft in drafts],
    )


async def _emit_events(connection: Connection, drafts: Sequence[Draft]) -> None:
    items = [{"event_id": str(draft.key), **_fields(draft)} for draft in drafts]
    await connection.execute("select inboxd.emit_events($1)", json.dumps(items))


async def _send_commands(connection: Connection, drafts: Sequence[Draft]) -> None:
    items = [
        {
            "command_id": str(draft.key),
            "queue": draft.queue,
            "priority": draft.priority,
            **_fields(draft),
        }
        for draft in drafts
    ]
    await connection.execute("select inboxd.send_commands($1)", json.dumps(items))


def _fields(draft: Draft) -> dict[str, Any]:
    run_at = None if draft.run_at is None else draft.run_at.isoformat()
    return {"type": draft.type, "payload": draft.script, "run_at": run_at}


async def _client_emit(connection: Connection, drafts: Sequence[Draft]) -> None:
    await _CLIENT.emit_many(
        connection,
        [NewEvent(d.type, d.script, event_id=d.key, run_at=d.run_at) for d in drafts],
    )


async def _client_send(connection: Connection, drafts: Sequence[Draft]) -> None:
    await _CLIENT.send_many(
        connection,
        [
            NewCommand(
                d.type,
                d.script,
                command_id=d.key,
                run_at=d.run_at,
                queue=d.queue,
                priority=d.priority,
            )
            for d in drafts
        ],
    )


_WAYS: dict[Table, tuple[Write, ...]] = {
    "event": (_insert_events, _emit_events, _client_emit),
    "command": (_insert_commands, _send_commands, _client_send),
}
