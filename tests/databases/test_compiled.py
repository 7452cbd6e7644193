"""A server that compiles plans (`jit`), as PostgreSQL 15 to 18 do by default.

Compiling costs seconds of CPU at each call. It starts if the plan's estimate is high, which some
ways of planning make very high, however few rows there are. No statement of ours is worth it.
"""

import asyncpg
import pytest

from tests.daemon.inbox import Inbox
from tests.databases.conftest import Login
from tests.support import Database, StartWorker, eventually

pytestmark = pytest.mark.anyio

_COMMAND = '{"type": "test.ledger", "queue": "default"}'
# The calls of a service.
CALLS = (
    'inboxd.emit_event(\'batch.make\', \'{"members": ["ok", "sql"], "times": 1}\')',
    """inboxd.emit_events('[{"type": "test.ledger", "dedup_key": "k"}]')""",
    "inboxd.send_command('test.ledger', unique_key => 'u')",
    f"inboxd.send_commands('[{_COMMAND}]')",
    "inboxd.send_webhook('a.a', message_id => 'm')",
    f"inboxd.send_batch('b', '[{_COMMAND}]', then_send => '{_COMMAND}')",
    """inboxd.send_workflow('w', '[{"name": "a", "type": "test.ledger", "queue": "default"},
          {"name": "b", "type": "test.ledger", "queue": "default", "after": "a"}]')""",
)
_COMPILED = """
select query from pg_stat_statements
 where jit_functions > 0
   and dbid = (select oid from pg_database where datname = current_database())
"""


@pytest.fixture
async def compiling(inbox: Inbox) -> Database:
    """A database whose new sessions compile plans, and count compiled statements."""
    database = inbox.database
    await database.execute("create extension pg_stat_statements")
    # Statements within functions count too.
    for setting in ("jit = on", "pg_stat_statements.track = 'all'"):
        await database.execute(f"alter database {database.name} set {setting}")
    await database.execute(
        "insert into inboxd.endpoints (name, url, types, secrets)"
        """ values ('one', 'https://one.example', '{*}', '[{"secret": "s"}]')"""
    )
    async with database.connect() as connection:
        await connection.execute("set jit_above_cost = 0")
        await connection.fetch("select count(*) from inboxd.events")
    assert await database.fetch(_COMPILED), "the server does not compile, or does not count"
    await database.execute("select pg_stat_statements_reset()")
    return database


async def test_statements_of_inboxd_are_not_compiled(
    compiling: Database, login: Login, start_worker: StartWorker
) -> None:
    await start_worker({"maintenance": {"interval": "500ms"}})
    async with Database(compiling.name, login("inboxd_producer")).connect() as producer:
        for call in CALLS:
            await producer.fetch(f"select * from {call}")
            assert await _compiled(compiling) == [], call

    async def is_settled() -> bool:
        return bool(
            await compiling.fetchval(
                "select not exists (select from inboxd.events) and not exists ("
                "select from inboxd.batches where status <> 'succeeded')"
            )
        )

    await eventually(is_settled)
    assert await _compiled(compiling) == []


async def _compiled(database: Database) -> list[asyncpg.Record]:
    return await database.fetch(_COMPILED)
