"""`inbox.travel` moves time; rows that became due run at the next drain."""

from datetime import UTC, datetime, timedelta

import pytest
from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    CommandContext,
    Defer,
    EventChunk,
    EventContext,
    Explicit,
    Handlers,
)
from inboxd.errors import UsageError
from inboxd.testing import TestInbox
from inboxd.testing.inbox import registry_of
from tests.support import Database

handlers = Handlers("clock")
# Travels may be off by this: the machine takes time meanwhile.
SOON = timedelta(seconds=20)


class Nothing(BaseModel):
    pass


@handlers.command("clock.tell")
async def tell(_command: Nothing, ctx: CommandContext) -> dict[str, str]:
    database = await ctx.connection.fetchval("select now()")
    return {"handler": ctx.now().isoformat(), "database": database.isoformat()}


@handlers.command("clock.thread")
def thread(_command: Nothing, ctx: BlockingCommandContext) -> str:
    return ctx.now().isoformat()


@handlers.command("clock.report")
async def report(_command: Nothing, _ctx: CommandContext) -> None:
    """Make a report of the morning, which is useless at noon."""


@handlers.command("clock.fails", retry=Explicit(delays=("1h", "1d"), attempts=3))
async def fails(_command: Nothing, ctx: CommandContext) -> None:
    raise ValueError("always")


@handlers.command("clock.defers")
async def defers(_command: Nothing, ctx: CommandContext) -> None:
    if ctx.now() < datetime(2100, 1, 1, tzinfo=UTC):
        raise Defer(until=datetime(2100, 1, 1, tzinfo=UTC))


handlers.schedule("clock.nightly", "0 3 * * *", {}, command="clock.thread")
handlers.schedule("clock.morning", "0 5 * * *", {}, command="clock.report", expires_after="1h")
handlers.topic("clock-hours", mode="batch", key="/place", age="1h")
handlers.topic("clock-days", mode="batch", key="/place", cron="0 0 * * *")


class Seen(BaseModel):
    """A sighting at a place."""

    place: str


@handlers.chunk("clock.seen", topic="clock-hours")
async def hours(chunk: EventChunk[Seen], ctx: EventContext) -> None:
    ctx.emit("clock.chunk", {"of": "hours", "place": chunk.key, "events": len(chunk)})


@handlers.chunk("clock.seen", topic="clock-days")
async def days(chunk: EventChunk[Seen], ctx: EventContext) -> None:
    ctx.emit("clock.chunk", {"of": "days", "place": chunk.key, "events": len(chunk)})


@pytest.fixture
def inboxd_handlers() -> Handlers:
    return handlers


def test_delays_retries_and_deferrals_come_due(inbox: TestInbox) -> None:
    inbox.send("clock.fails")
    inbox.send("clock.defers")
    inbox.send("clock.thread", run_at=inbox.now() + timedelta(hours=2))
    assert len(inbox.drain(check=False).retrying) == 1
    assert not inbox.drain(check=False).failed, "nothing is due"
    inbox.travel("1h")
    assert len(inbox.drain(check=False).retrying) == 1
    inbox.travel("1d")
    drained = inbox.drain(check=False)
    assert [row.type for row in drained.dead] == ["clock.fails"]
    assert "clock.thread" in [row.type for row in drained.succeeded]
    inbox.travel(to=datetime(2100, 1, 1, 1, tzinfo=UTC))
    assert "clock.defers" in [row.type for row in inbox.drain(check=False).succeeded]


def test_handlers_and_their_sql_have_the_same_time(inbox: TestInbox) -> None:
    then = datetime(2031, 5, 4, 12, tzinfo=UTC)
    assert timedelta() <= inbox.travel(to=then) - then < SOON
    inbox.send("clock.tell")
    inbox.send("clock.thread")
    inbox.drain()
    told = [*inbox.assert_sent("clock.tell").result.values()]
    told.append(inbox.assert_sent("clock.thread").result)
    for text in told:
        assert timedelta() <= datetime.fromisoformat(text) - then < SOON
    row = inbox.assert_sent("clock.tell")
    for time in (row.created_at, row.run_at, row.finished_at, inbox.now()):
        assert time is not None
        assert timedelta() <= time - then < SOON
    inbox.execute("create table notes (at timestamptz default now(), d int default 1)")
    assert inbox.fetchval("insert into notes default values returning at") - then < SOON


def test_a_schedule_is_sent_when_its_time_comes(inbox: TestInbox) -> None:
    assert not inbox.drain().succeeded
    inbox.travel("1d")
    inbox.drain()
    sent = inbox.assert_sent("clock.thread", count=1, origin_kind="schedule")
    assert sent.status == "succeeded"
    inbox.travel("2d")
    inbox.drain()
    assert len(inbox.commands("clock.thread")) in {2, 3}, "`missed` decides for the missed runs"


def test_chunks_are_due_by_age_and_at_midnight(inbox: TestInbox) -> None:
    inbox.travel(to=datetime(2031, 5, 4, 21, tzinfo=UTC))
    for place in ("Ulm", "Ulm", "Bonn"):
        inbox.emit("clock.seen", {"place": place})
    assert len(inbox.drain().left) == 6
    inbox.travel("1h")
    inbox.drain()
    inbox.assert_emitted("clock.chunk", {"of": "hours", "place": "Ulm", "events": 2}, count=1)
    inbox.assert_emitted("clock.chunk", {"of": "hours"}, count=2)
    inbox.refute_emitted("clock.chunk", {"of": "days"})
    inbox.travel("2h1m")
    inbox.drain()
    inbox.assert_emitted("clock.chunk", {"of": "days", "place": "Ulm", "events": 2}, count=1)


def test_a_deadline_passes(inbox: TestInbox) -> None:
    inbox.send("clock.thread", deadline=inbox.now() + timedelta(hours=1))
    inbox.travel("2h")
    [dead] = inbox.drain(check=False).dead
    assert "deadline" in (dead.error or "")


def test_a_command_expires(inbox: TestInbox) -> None:
    """Also one that no handler takes, and one that is late when it is sent."""
    soon = inbox.now() + timedelta(hours=1)
    inbox.send("clock.thread", expires_at=soon)
    inbox.execute(
        "insert into inboxd.commands (type, queue, expires_at) values ('nobody.serves', 'q', $1)",
        soon,
    )
    inbox.travel("2h")
    inbox.send("clock.thread", expires_at=inbox.now() - timedelta(minutes=1))
    drained = inbox.drain()
    assert [row.type for row in drained.cancelled] == [
        "clock.thread",
        "nobody.serves",
        "clock.thread",
    ]
    assert not drained.succeeded


def test_a_missed_run_of_a_schedule_expires(inbox: TestInbox) -> None:
    """It is sent, since its schedule says so, but never runs."""
    inbox.drain()
    inbox.travel(to=datetime(2031, 5, 4, 12, tzinfo=UTC))
    inbox.drain()
    sent = inbox.commands("clock.report")
    assert {row.status for row in sent} == {"cancelled"}
    inbox.travel(to=datetime(2031, 5, 5, 5, 0, 30, tzinfo=UTC))
    inbox.drain()
    assert inbox.commands("clock.report")[-1].status == "succeeded"


def test_a_dedup_key_is_forgotten_after_its_window(inbox: TestInbox) -> None:
    first, second = (inbox.emit("clock.fact", {}, dedup_key="a", source="s") for _ in range(2))
    assert (first.duplicate, second.duplicate) == (False, True)
    inbox.travel("40d")
    inbox.drain()
    assert not inbox.emit("clock.fact", {}, dedup_key="a", source="s").duplicate


def test_database_of_the_user_keeps_its_clock(database: Database) -> None:
    """`inboxd migrate` does not make the clock: all but travel works in its database."""
    inbox = TestInbox(database.dsn, registry_of(handlers))
    try:
        inbox.send("clock.thread")
        assert len(inbox.drain().succeeded) == 1
        with pytest.raises(UsageError, match="has the server's clock, which cannot be moved"):
            inbox.travel("1h")
        schemas = "select count(*) from pg_namespace where nspname = 'inboxd_clock'"
        assert inbox.fetchval(schemas) == 0
    finally:
        inbox.close()


def test_wrong_travel_is_refused(inbox: TestInbox) -> None:
    with pytest.raises(UsageError, match="Give a duration"):
        inbox.travel()
    with pytest.raises(UsageError, match="has no time zone"):
        inbox.travel(to=datetime(2030, 1, 1))  # noqa: DTZ001 - the tested mistake
    with pytest.raises(UsageError, match="is not a duration"):
        inbox.travel("soon")
