"""Batches, edges and steps of a handler are written by few statements."""

from time import perf_counter
from typing import Any, cast
from uuid import uuid4

import pytest
import structlog

from inboxd.api.connection import Connection as HandlerConnection
from inboxd.api.context import EventContext
from inboxd.api.routes import Route
from inboxd.errors import Conflict, NotFound
from inboxd.model.lineage import Lineage
from inboxd.store import batches
from inboxd.store.session import Session
from inboxd.store.settlements import Parent
from tests.support import Database
from tests.support.routes import Routed
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio

STEPS = 10_000
PARENT = Parent("event", 7, Lineage("story", uuid4(), "00-1"))


def context() -> EventContext:
    row: dict[str, Any] = {"id": 7, "tenant": "acme"}
    return EventContext(
        row,
        lambda: cast("HandlerConnection", None),
        Routed(lambda _: Route("test.noop", "default")),
        structlog.get_logger(),
    )


async def write(session: Session, ctx: EventContext) -> list[int]:
    """Write the plan of a handler, as a page of events does."""
    plan = ctx.plan()
    assert plan is not None
    async with session.transaction():
        sent = [(draft, PARENT) for draft in ctx.drafts]
        return await batches.write(session, sent, [batches.Planned(plan, PARENT)])


async def test_ten_thousand_steps_are_written_within_seconds(database: Database) -> None:
    async with daemon_session(database) as session:
        ctx = context()
        workflow = ctx.workflow("graph")
        for n in range(STEPS):
            after = [f"step {m}" for m in range(max(0, n - 2), n)]
            workflow.step(f"step {n}", {"n": n}, after=after)
        started = perf_counter()
        await write(session, ctx)
        took = perf_counter() - started
        counts = await session.connection.fetchrow(
            "select (select count(*) from inboxd.steps),"
            " (select count(*) from inboxd.dependencies),"
            " (select count(*) from inboxd.commands where status = 'waiting'),"
            " (select count(*) from inboxd.commands where awaited)"
        )
        assert counts is not None
        assert tuple(counts) == (STEPS, 2 * STEPS - 3, STEPS - 1, STEPS - 1)
        assert took < 10  # about 0.7 s; shared test machines are slower


async def test_unfolded_empty_batch_is_found_by_the_sweep(database: Database) -> None:
    async with daemon_session(database) as session:
        ctx = context()
        ctx.batch(name="empty")
        ctx.batch([{}], name="full", type="test.noop")
        ctx.batch(name="open", open=True)
        fold = await write(session, ctx)
        empty = await session.connection.fetchval(
            "select id from inboxd.batches where name = 'empty'"
        )
        assert fold == [empty]
        assert await batches.unfolded(session, 0.0) == [empty]
        assert [each.status for each in await batches.fold(session, fold)] == ["succeeded"]


async def test_batches_have_the_lineage_of_their_parent(database: Database) -> None:
    async with daemon_session(database) as session:
        ctx = context()
        outer = ctx.batch([{}], name="outer", type="test.noop")
        outer.batch([{}], name="inner", type="test.noop").then({}, type="test.then")
        outer.then({}, type="test.then")
        await write(session, ctx)
        rows = {
            row["name"]: row
            for row in await session.connection.fetch("select * from inboxd.batches")
        }
        assert rows["inner"]["parent_id"] == rows["outer"]["id"]
        for row in rows.values():
            assert (row["origin_kind"], row["origin_id"], row["tenant"]) == ("event", 7, "acme")
            assert (row["correlation_id"], row["traceparent"]) == ("story", "00-1")
        following = await session.connection.fetch(
            "select origin_id, batch_id, causation_id, correlation_id "
            "from inboxd.commands where origin_kind = 'batch' order by id"
        )
        first, last = rows["inner"], rows["outer"]
        assert [tuple(row) for row in following] == [
            (first["id"], last["id"], first["batch_id"], "story"),
            (last["id"], None, last["batch_id"], "story"),
        ]


async def test_members_added_to_a_waiting_batch_wait_too(database: Database) -> None:
    async with daemon_session(database) as session:
        batch = uuid4()
        await session.connection.execute(
            "insert into inboxd.batches (batch_id, status, needs) values ($1, 'waiting', 1)", batch
        )
        ctx = context()
        ctx.add_to(batch, [{}], type="test.noop")
        await write(session, ctx)
        row = await session.connection.fetchrow("select status, needs from inboxd.commands")
        assert row is not None
        assert tuple(row) == ("waiting", 1)


@pytest.mark.parametrize("action", ["add", "close"])
async def test_error_names_an_unknown_or_closed_batch(database: Database, action: str) -> None:
    async with daemon_session(database) as session:
        closed, unknown = uuid4(), uuid4()
        await session.connection.execute(
            "insert into inboxd.batches (batch_id, name, closed_at) values ($1, 'old', now())",
            closed,
        )
        for batch, error, message in (
            (closed, Conflict, r"batch \d+ \(old\) is closed"),
            (unknown, NotFound, f"there is no batch {unknown}"),
        ):
            ctx = context()
            if action == "add":
                ctx.add_to(batch, [{}], type="test.noop")
            else:
                ctx.close_batch(batch)
            with pytest.raises(error, match=message):
                await write(session, ctx)
        assert await session.connection.fetchval("select count(*) from inboxd.commands") == 0


async def test_error_says_why_a_result_cannot_be_read(database: Database) -> None:
    async with daemon_session(database) as session:
        ctx = context()
        workflow = ctx.workflow("seed")
        workflow.step("waits", {}, after=workflow.step("dead", {}))
        inner = workflow.batch("mails", [{}], type="test.noop")
        alone = ctx.batch([{}], type="test.noop")
        await write(session, ctx)
        await session.connection.execute(
            "update inboxd.commands set status = 'failed' where command_id = "
            "(select member from inboxd.steps where name = 'dead')"
        )
        ids = {
            row["batch_id"]: row["id"]
            for row in await session.connection.fetch("select batch_id, id from inboxd.batches")
        }
        for batch, step, message in (
            (workflow.id, "nowhere", "has no step 'nowhere'"),
            (workflow.id, "dead", "'dead' has no result: it is failed"),
            (inner.id, "waits", "'waits' has no result: it is waiting"),
            (workflow.id, "mails", "'mails' is a batch"),
            (alone.id, "dead", "this command is in no workflow"),
        ):
            with pytest.raises(NotFound, match=message):
                await batches.step_result(session, ids[batch], step)
        await session.connection.execute("delete from inboxd.commands")
        with pytest.raises(NotFound, match="is not kept any more"):
            await batches.step_result(session, ids[workflow.id], "dead")
