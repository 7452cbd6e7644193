"""Plans: the daemon's statements read few rows, however many others wait in front of them.

The tables are filled and analyzed once for all tests. The server tells the plan of each statement
as the daemon ran it (auto_explain): prepared, with its session's settings, functions included.
"""

import json
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any
from uuid import UUID, uuid4

import anyio
import asyncpg
import pytest

from inboxd.embedded import Server
from inboxd.model.lane import BEGINNING
from inboxd.store import commands
from inboxd.store.connections import Connection
from inboxd.store.pools import borrow, open_pool
from tests.support import Database, ExternalServer, create, drop
from tests.support.rows import SQL, daemon_session, join, settings_of

pytestmark = pytest.mark.anyio

ROWS = 200_000
# A statement that takes a page of 10 may touch each row's heap page, index pages and a few more.
BUFFERS = 400
WORKER = UUID(int=1)

_FILL = """
insert into inboxd.events (type, run_at)
    select 'big', now() - interval '1 hour' from generate_series(1, {rows});
insert into inboxd.events (type) select 'few' from generate_series(1, 5);
insert into inboxd.commands (queue, type, run_at)
    select 'big', 'big', now() - interval '1 hour' from generate_series(1, {rows});
insert into inboxd.commands (queue, type) select 'big', 'few' from generate_series(1, 5);
insert into inboxd.commands (queue, type, status, worker_id, fence)
    select 'big', 'held', 'running', '{worker}', 1 from generate_series(1, 10);
insert into inboxd.commands (queue, type, crashes) select 'big', 'few', 1;
"""

_TELL = """
load 'auto_explain';
set client_min_messages = log;
set auto_explain.log_min_duration = 0;
set auto_explain.log_format = json;
set auto_explain.log_analyze = on;
set auto_explain.log_timing = off;
set auto_explain.log_buffers = on;
set auto_explain.log_nested_statements = on;
"""


def _fill(database: Database, rows: int) -> None:
    async def fill() -> None:
        await database.execute(_FILL.format(rows=rows, worker=WORKER))
        await database.execute("vacuum analyze inboxd.events; ")
        await database.execute("vacuum analyze inboxd.commands")

    anyio.run(fill)


@pytest.fixture(scope="module", params=[ROWS, pytest.param(1_000_000, marks=pytest.mark.long)])
def filled(
    request: pytest.FixtureRequest, server: Server | ExternalServer, template: Database
) -> Iterator[Database]:
    """A database whose tables hold very many rows of one type and few of another."""
    database = create(server, template.name)
    _fill(database, request.param)
    yield database
    drop(server, database)


async def _explain(connection: Connection, name: str, *arguments: object) -> list[dict[str, Any]]:
    """The nodes of a statement's plan as it ran; nothing of what it did stays."""
    return await _undone(connection, connection.fetch(SQL[name], *arguments))


async def _undone(connection: Connection, work: Awaitable[object]) -> list[dict[str, Any]]:
    """The nodes of all plans that ran for `work`, which is rolled back."""
    transaction = connection.transaction()
    await transaction.start()
    try:
        return await _told(connection, work)
    finally:
        await transaction.rollback()


async def _told(connection: Connection, work: Awaitable[object]) -> list[dict[str, Any]]:
    """The nodes of all plans that ran for `work`."""
    told: list[str] = []
    await connection.execute(_TELL)

    def hear(_: object, message: asyncpg.PostgresLogMessage) -> None:
        told.append(str(message.message))

    connection.add_log_listener(hear)
    await work
    await connection.execute("set auto_explain.log_min_duration = -1")  # all was told before this
    connection.remove_log_listener(hear)
    plans = [json.loads(text[text.index("{") :]) for text in told if "plan:" in text]
    return [node for plan in plans for node in _nodes(plan["Plan"])]


def _nodes(node: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    yield dict(node)
    for child in node.get("Plans", ()):
        yield from _nodes(child)


def _touched(nodes: list[dict[str, Any]]) -> int:
    return max(int(node["Shared Hit Blocks"] + node["Shared Read Blocks"]) for node in nodes)


def _hold(nodes: list[dict[str, Any]], *indexes: str) -> None:
    """These indexes are used, no hot table is read from end to end, and little is touched."""
    scanned = {n.get("Relation Name") for n in nodes if n["Node Type"] == "Seq Scan"}
    assert not scanned & {"events", "commands"}
    used = {n.get("Index Name") for n in nodes}
    assert set(indexes) <= used
    assert _touched(nodes) < BUFFERS
    filtered = sum(n.get("Rows Removed by Filter", 0) * n["Actual Loops"] for n in nodes)
    assert filtered < 50, "rows are found by the index, not looked through"


@pytest.fixture
async def worker(filled: Database) -> UUID:
    """A live worker in the filled database."""
    async with daemon_session(filled) as session:
        return await join(session)


async def _ids(connection: Connection, table: str, type_: str) -> list[int]:
    rows = await connection.fetch(
        f"select id from inboxd.{table} where type = $1 order by id limit 10", type_
    )
    return [row[0] for row in rows]


@pytest.mark.parametrize("type_", ["big", "few"])
async def test_claims_of_events(filled: Database, type_: str) -> None:
    async with daemon_session(filled) as session:
        arguments = (["default"], [type_], [BEGINNING], [0], 10)
        _hold(await _explain(session, "claim_events", *arguments), "events_lane")
        last = await session.fetchrow(
            "select run_at, id from inboxd.events where type = $1 order by run_at, id desc limit 1",
            type_,
        )
        assert last is not None
        arguments = (["default"], [type_], [last["run_at"]], [last["id"]], 10)
        _hold(await _explain(session, "claim_events", *arguments), "events_lane")


@pytest.mark.parametrize("type_", ["big", "few"])
async def test_claims_of_commands(filled: Database, worker: UUID, type_: str) -> None:
    async with daemon_session(filled) as session:
        lane = (["big"], [type_], [0], [BEGINNING], [0], 10)
        nodes = await _explain(session, "claim_commands", worker, ["big"], [10], *lane)
        _hold(nodes, "commands_lane", "workers_pkey")
        nodes = await _undone(session, commands.claim_suspect(session, SQL, worker, ["few"], []))
        _hold(nodes, "commands_suspects")


async def test_surveys(filled: Database) -> None:
    async with daemon_session(filled) as session:
        _hold(await _explain(session, "survey_events"), "events_lane")
        _hold(await _explain(session, "survey_commands"), "commands_lane")


async def test_settlements_of_events(filled: Database) -> None:
    async with daemon_session(filled) as session:
        ids = await _ids(session, "events", "big")
        seconds = [0.1] * len(ids)
        _hold(await _explain(session, "settle_events", ids, seconds, uuid4()), "events_pkey")
        none = [None] * len(ids)
        ones = [1] * len(ids)
        arguments = (ids, ["pending"] * len(ids), ones, seconds, none, none, none, [0] * len(ids))
        _hold(await _explain(session, "fail_events", *arguments), "events_pkey")
        _hold(await _explain(session, "claim_event", ids[0]), "events_pkey")


async def test_settlements_of_commands(filled: Database) -> None:
    async with daemon_session(filled) as session:
        ids = await _ids(session, "commands", "held")
        assert len(ids) == 10
        ones, none = [1] * len(ids), [None] * len(ids)
        seconds = [0.1] * len(ids)
        arguments = (ids, ones, ["succeeded"] * len(ids), seconds, none, WORKER)
        _hold(await _explain(session, "settle_commands", *arguments), "commands_pkey")
        setbacks = (ids, ones, ["pending"] * len(ids), ones, seconds, none, none, none, WORKER)
        _hold(await _explain(session, "fail_commands", *setbacks), "commands_pkey")


async def test_a_settlement_planned_while_the_table_was_empty(database: Database) -> None:
    """A handler's session keeps its plan; the table grows, and nothing has analyzed it yet."""
    await database.execute("vacuum analyze inboxd.commands")
    async with (
        open_pool(settings_of(database), "handlers", 1, plans={}) as pool,
        borrow(pool) as session,
    ):
        for _ in range(8):  # from the sixth on the plan is kept
            await _settle_one(session)
        await database.execute(
            "insert into inboxd.commands (queue, type) select 'big', 'big'"
            " from generate_series(1, 50000)"
        )
        told = await _told(session, _settle_one(session))
    _hold(told, "commands_pkey")


async def _settle_one(session: Connection) -> None:
    """Claim a command and settle it as its own transaction does."""
    row = await session.fetchval(
        "insert into inboxd.commands (queue, type, status, worker_id, fence)"
        " values ('q', 'held', 'running', $1, 1) returning id",
        WORKER,
    )
    await session.execute(f"{SQL['settle_command']}({row}, 1, '{WORKER}', 0.1)")


async def test_what_the_dead_and_the_leaving_held(filled: Database) -> None:
    async with daemon_session(filled) as session:
        nodes = await _explain(session, "return_commands", WORKER, 3)
        _hold(nodes, "commands_running")
        nodes = await _undone(session, commands.release(session, SQL, WORKER))
        _hold(nodes, "commands_running")


async def test_heartbeats(filled: Database, worker: UUID) -> None:
    async with daemon_session(filled) as session:
        _hold(await _explain(session, "beat", worker, 0, "running"), "commands_running")


async def test_what_nobody_serves(filled: Database) -> None:
    async with daemon_session(filled) as session:
        arguments = ("default", "big", "{}", 10, None)
        waited = await session.fetchval("select interval '1 s'")
        nodes = await _explain(session, "fail_unserved_events", *arguments[:-1], waited)
        _hold(nodes, "events_lane")
        nodes = await _explain(session, "fail_unserved_commands", "big", "big", 0, "{}", 10, waited)
        _hold(nodes, "commands_lane")
