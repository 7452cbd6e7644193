"""A held snapshot keeps dead entries: surveys pass over them once, heartbeats never.

A backup or a report may hold one for hours, and each row that was settled meanwhile leaves a dead
entry in front of the waiting rows. The server reports the blocks that are read.
"""

from collections.abc import AsyncIterator, Awaitable
from typing import Any
from uuid import UUID

import pytest

from inboxd.model.lane import BEGINNING, Key, Lane, Lanes
from inboxd.store import commands, events, samples, workers
from inboxd.store.session import Session
from inboxd.telemetry.metrics import CommandBacklog, EventBacklog
from tests.plans.stand import undone
from tests.support import Database
from tests.support.plans import told, touched_by
from tests.support.rows import daemon_session, emit, join, send
from tests.support.sampled import counted

pytestmark = pytest.mark.anyio

HANDLED = 8_000
FEW = 50
KEYS: dict[str, Key] = {"events": ("default", "test.noop"), "commands": ("default", "test.noop", 0)}


@pytest.fixture
async def session(database: Database) -> AsyncIterator[Session]:
    """The daemon's session, beside another one that holds a snapshot."""
    await database.execute(
        "alter table inboxd.events set (autovacuum_enabled = off);"
        "alter table inboxd.commands set (autovacuum_enabled = off)"
    )
    async with (
        daemon_session(database) as session,
        database.connect() as holder,
        holder.transaction(isolation="repeatable_read"),
    ):
        await holder.fetch("select from inboxd.workers")
        yield session


async def handle(session: Session, worker: UUID) -> None:
    """Insert rows into both tables, claim and delete them."""
    await session.connection.execute(
        f"insert into inboxd.events (type) select 'test.noop' from generate_series(1, {HANDLED});"
        "delete from inboxd.events;"
        "insert into inboxd.commands (queue, type) select 'default', 'test.noop'"
        f" from generate_series(1, {HANDLED});"
        "update inboxd.commands set status = 'running', fence = 1, started_at = now(),"
        f" worker_id = '{worker}';"
        "delete from inboxd.commands"
    )


async def pages(session: Session, work: Awaitable[Any]) -> int:
    """The number of blocks that the statements of `work` read."""
    nodes = await told(session, work)
    return sum(touched_by(node) for node in nodes if "Parent Relationship" not in node)


async def walk(session: Session, table: str) -> int:
    """The number of blocks of one query of the lane that passes over all dead entries."""
    suspects = " and crashes = 0 and queue = 'default' and priority = 0"
    lane = " and topic = 'default'" if table == "events" else suspects
    order = "order by run_at, id limit 1"
    statement = f"select id from inboxd.{table} where status = 'pending'{lane}"
    look = session.connection.fetchval(f"{statement} and type = 'test.noop' {order}")
    once = await pages(session, look)
    assert once > 2 * FEW, "dead entries must be passed over"
    return once


@pytest.mark.parametrize("table", ["events", "commands"])
async def test_sweep_passes_over_dead_entries_once(session: Session, table: str) -> None:
    """The survey passes over them, and the claim goes on from there."""
    worker, lanes = await join(session), Lanes()
    await handle(session, worker)
    write, read = (emit, events.survey) if table == "events" else (send, commands.survey)
    ids = await write(session.connection, 5, "test.noop")
    once = await walk(session, table)
    assert await pages(session, read(session)) < once + FEW
    assert lanes.sweep(await read(session))
    [lane] = lanes.ordered()
    assert lane.key == KEYS[table]

    async def claim() -> None:
        if table == "commands":
            leased = await commands.claim(session, worker, {"default": 9}, [lane], 9)
            assert [row["id"] for row in leased] == ids
        else:
            rows = await events.claim(session, [lane], 9)
            assert [row["id"] for row in rows] == ids

    await undone(session, claim())  # the first time, the driver reads types
    assert await pages(session, claim()) < 0.75 * once


async def test_backlog_is_counted_from_the_first_row_on(session: Session) -> None:
    await handle(session, await join(session))
    await emit(session.connection, 5, "test.noop")
    await send(session.connection, 7, "test.noop")
    once = [await walk(session, table) for table in KEYS]
    found: list[EventBacklog | CommandBacklog] = []

    async def read() -> None:
        counts = await counted(session)
        found.extend([*samples.event_backlog(counts), *samples.command_backlog(counts)])

    # Running commands are counted too; they have an index of their own.
    assert await pages(session, read()) < once[0] + 2.2 * once[1] + 3 * FEW
    waiting = {each[:-3]: each.rows for each in found if each.age is not None}
    lane = ("default", "test.noop")
    assert waiting == {(*lane, "kept"): 5, (*lane, "0", "pending"): 7}


async def test_heartbeat_reads_no_entries_of_settled_commands(session: Session) -> None:
    worker = await join(session)
    await handle(session, worker)
    ids = await send(session.connection, 3, "test.noop")
    lane = Lane(KEYS["commands"], BEGINNING)
    await commands.claim(session, worker, {"default": 9}, [lane], 9)
    await session.connection.execute(
        "update inboxd.commands set cancel_requested = true where id = any ($1)", ids[1:]
    )
    heard: list[workers.BeatResult | None] = []

    async def beat() -> None:
        heard.append(await workers.beat(session, worker, 3, "running"))

    assert await pages(session, beat()) < FEW
    [news] = heard
    assert news is not None
    assert news.cancelled == frozenset(ids[1:])
