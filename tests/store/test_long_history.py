"""Years of history by day: functions for producers and workers search far back with few locks.

The server has few locks, so that some hundred days have the effect of years on a default server.
"""

from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from uuid import UUID

import anyio
import asyncpg
import psycopg
import pytest

from inboxd.embedded import Server
from inboxd.store.connections import explain
from tests.support import Database

pytestmark = pytest.mark.anyio

_DAYS = 300
# Rows of history this many days before today: in the newest days, in a stretch, in the last.
_AGES = (0, 2, 5, 90, 299)
_ENDPOINT = """
insert into inboxd.endpoints (name, url, secrets, types)
values ('one', 'https://example.org/', jsonb_build_array('whsec_' || repeat('a', 32)), array['*'])
"""
_COUNT_LOCKS = """
select count(*) from pg_locks l join pg_class c on c.oid = l.relation
 where l.pid = pg_backend_pid() and c.relname like 'commands_history%'
"""


@pytest.fixture
def old(restartable_server: Server, restartable_database: Database) -> dict[int, UUID]:
    """A long history on a server with few locks: the uuid of one command for each age in days."""
    today = datetime.now(UTC).date()
    with psycopg.connect(restartable_database.dsn, autocommit=True) as connection:
        for days in range(2, _DAYS + 1):
            low = today - timedelta(days)
            connection.execute(
                f"create table if not exists inboxd.commands_history_{low:%Y%m%d} partition of"
                f" inboxd.commands_history for values from ('{low}Z') to"
                f" ('{low + timedelta(1)}Z')".encode()
            )
        found = {}
        for age in _AGES:
            (id_, uuid) = connection.execute(
                "select id, new_command_id from inboxd.send_command('a.b')"
            ).fetchone() or (0, None)
            connection.execute("select inboxd.put_away(array[%s]::bigint[], 'cancelled')", [id_])
            connection.execute(
                "update inboxd.commands_history set finished_at = finished_at - %s::interval,"
                " result = '{\"n\": 1}' where id = %s",
                [f"{age} days", id_],
            )
            assert isinstance(uuid, UUID)
            found[age] = uuid
        connection.execute(_ENDPOINT)
        connection.execute("alter system set max_locks_per_transaction = 10")
        connection.execute("alter system set max_connections = 20")
    restartable_server.restart()
    return found


async def _look_plainly(database: Database, uuid: UUID, *, sessions: int) -> None:
    """Query all days at once, in several sessions that keep their locks."""
    async with AsyncExitStack() as looking:
        for _ in range(sessions):
            connection = await looking.enter_async_context(database.connect())
            await looking.enter_async_context(connection.transaction())
            await connection.fetch(
                "select from inboxd.commands_history where command_id = $1", uuid
            )


async def test_searches_of_a_long_history_keep_no_locks(
    restartable_database: Database, old: dict[int, UUID]
) -> None:
    with pytest.raises(asyncpg.OutOfMemoryError) as full:
        await _look_plainly(restartable_database, old[299], sessions=14)
    assert "max_locks_per_transaction" in str(explain(full.value))
    async with restartable_database.connect() as connection, connection.transaction():
        for uuid in old.values():
            row = await connection.fetchrow("select * from inboxd.command_result($1)", uuid)
            assert row is not None
            assert tuple(row) == ("cancelled", '{"n": 1}', None)
        for call in (
            "select * from inboxd.send_webhook('a.b', message_id => 'm')",
            "select * from inboxd.send_webhook('a.b', message_id => 'm')",
            f"select inboxd.send_after('{old[299]}', '[{{\"type\": \"a.b\"}}]', 'finished')",
        ):
            await connection.fetch(call)
        assert await connection.fetchval(_COUNT_LOCKS) < 50


async def test_many_sessions_wait_for_results_at_once(
    restartable_database: Database, old: dict[int, UUID]
) -> None:
    """Half ask for an existing command, half for an unknown one, each as its first query."""
    nowhere = UUID("00000000-0000-7000-8000-000000000001")
    answers: list[int] = []

    async def wait_for(uuid: UUID) -> None:
        async with restartable_database.connect() as connection, connection.transaction():
            found = await connection.fetch("select * from inboxd.command_result($1)", uuid)
            answers.append(len(found))

    async with anyio.create_task_group() as group:
        for uuid in [nowhere, old[299]] * 6:
            group.start_soon(wait_for, uuid)
    assert sorted(answers) == [0] * 6 + [1] * 6
