"""Claims of commands and events at the same time as other claims; rows that a survey sees."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest

from inboxd.api import messages
from inboxd.api.messages import Event
from inboxd.model.lane import BEGINNING, Lane, Lanes, Sighting
from inboxd.store import commands, events
from tests.store.claiming import GROUP, claim, claim_suspects, ids_of
from tests.support import Database
from tests.support.rows import daemon_session, emit, join, send
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def test_claims_skip_rows_that_other_sessions_hold(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        sent = await send(one.connection, 5, "test.noop")
        async with one.transaction():
            first = await claim(one, await join(two, "one"), rows=2)
            second = await claim(two, await join(two, "two"))
    with safety():
        assert ids_of(first) == sent[:2]
        assert ids_of(second) == sent[2:]


async def test_pages_of_events_skip_rows_that_other_sessions_hold(database: Database) -> None:
    lane = Lane(("default", "test.noop"))
    async with daemon_session(database) as one, daemon_session(database) as two:
        emitted = await emit(one.connection, 5, "test.noop")
        async with one.transaction(), two.transaction():
            first = await events.claim(one, [lane], 2)
            second = await events.claim(two, [lane], 100)
    with safety():
        assert ids_of(first) == emitted[:2]
        assert ids_of(second) == emitted[2:]


async def test_every_claim_raises_the_fence(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        await send(session.connection, 1, "test.noop")
        fences = []
        for _ in range(3):
            fences += [row["fence"] for row in await claim(session, worker)]
            assert await commands.release(session, worker) == 1
        row = await session.connection.fetchrow(
            "select attempts, crashes, worker_id from inboxd.commands"
        )
    assert fences == [1, 2, 3]
    assert row is not None
    assert tuple(row) == (0, 0, None)


async def test_claims_of_a_queue_are_bounded_by_its_room(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        for queue in ("mail", "print"):
            for priority in (0, 5):
                await session.connection.execute(
                    "insert into inboxd.commands (queue, type, priority)"
                    " select $1, 'test.noop', $2 from generate_series(1, 10)",
                    queue,
                    priority,
                )
        lanes = [Lane((queue, "test.noop", n)) for n in (0, 5) for queue in ("mail", "print")]
        room = {"mail": 12, "print": 3}
        rows = await commands.claim(session, worker, room, lanes, 100)
        assert [row["priority"] for row in rows if row["queue"] == "mail"] == [0] * 10 + [5] * 2
        assert [row["priority"] for row in rows if row["queue"] == "print"] == [0] * 3
        rows = await commands.claim(session, worker, {"mail": 100, "print": 100}, lanes, 4)
        assert len(rows) == 4, "at most one page"


@pytest.mark.parametrize("table", ["events", "commands"])
async def test_sweep_finds_rows_committed_long_after_the_cursor_passed(
    database: Database, table: str
) -> None:
    """The producer's now() is old and it commits last: the cursor has passed it, not the survey."""
    async with daemon_session(database) as session, daemon_session(database) as slow:
        worker = await join(session)
        write, read = (emit, events.survey) if table == "events" else (send, commands.survey)
        key: tuple[str | int, ...] = ("default", "test.noop", 0)[: 2 if table == "events" else 3]
        lane = Lane(key)

        async def take() -> list[int]:
            if table == "commands":
                return ids_of(await commands.claim(session, worker, {"default": 9}, [lane], 9))
            async with session.transaction():
                rows = await events.claim(session, [lane], 9)
                await session.connection.execute(
                    "delete from inboxd.events where id = any($1)", ids_of(rows)
                )
            return ids_of(rows)

        async with slow.transaction():
            (late,) = await write(slow.connection, 1, "test.noop")
            await slow.connection.execute(
                f"update inboxd.{table} set run_at = now() - interval '1 minute'"
            )
            (early,) = await write(session.connection, 1, "test.noop")
            assert await take() == [early]
            now = await session.connection.fetchval("select date_part('epoch', now())")
            lane.advance(now, early)
        assert await take() == []
        lanes = Lanes()
        assert lanes.sweep(await read(session)), "the survey sees the row"
        lane.rewind()
        with safety():
            assert await take() == [late]


@pytest.mark.parametrize("table", ["events", "commands"])
async def test_cursor_finds_rows_committed_a_little_late(database: Database, table: str) -> None:
    async with daemon_session(database) as session, session.transaction():
        worker = await join(session)
        queue = "queue, " if table == "commands" else ""
        value = "'default', " if table == "commands" else ""
        for milliseconds in (50, 150):
            # One transaction, so that now() does not change.
            await session.connection.execute(
                f"insert into inboxd.{table} ({queue}type, run_at) values ({value}'test.noop',"
                f" now() - interval '{milliseconds} ms')"
            )
        now = await session.connection.fetchval("select date_part('epoch', now())")
        if table == "events":
            lane = Lane(("default", "test.noop"), now)
            rows: Sequence[messages.Row] = await events.claim(session, [lane], 10)
        else:
            lane = Lane(("default", "test.noop", 0), now)
            rows = await commands.claim(session, worker, {"default": 10}, [lane], 10)
        assert [round(now - row["run_at"], 6) for row in rows] == [0.05]
        lane.rewind()
        assert lane.after_at == BEGINNING


async def test_cursor_passes_over_claimed_rows(database: Database) -> None:
    async with daemon_session(database) as session:
        ids = await emit(session.connection, 4, "test.noop")
        await session.connection.execute(
            "update inboxd.events set run_at = now() - interval '1 hour' + id * interval '1 s'"
        )
        row = await session.connection.fetchrow(
            "select date_part('epoch', run_at) as run_at, id from inboxd.events where id = $1",
            ids[1],
        )
        assert row is not None
        lane = Lane(("default", "test.noop"))
        lane.advance(row["run_at"], row["id"])
        async with session.transaction():
            assert ids_of(await events.claim(session, [lane], 10)) == ids[2:]


async def test_suspects_are_outside_of_lanes_and_claimed_by_groups(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        sent = await send(one.connection, 5, "test.noop")
        await one.connection.execute(
            "update inboxd.commands set crashes = 1, suspect_group = $1 where id <> all ($2)",
            GROUP,
            [sent[0], sent[4]],
        )
        await one.connection.execute(
            "update inboxd.commands set crashes = 1 where id = $1", sent[4]
        )
        first, second = await join(one, "one"), await join(one, "two")
        assert ids_of(await claim(one, first)) == sent[:1]
        async with one.transaction():
            assert await claim_suspects(one, first, rows=2) == sent[1:3], "at most `rows` rows"
            with safety():
                assert await claim_suspects(two, second) == sent[3:4], (
                    "another worker claims the rest"
                )
                assert await claim_suspects(two, second) == []
        (other,) = await commands.find_suspects(one)
        assert await claim_suspects(two, second, group=other.group) == sent[4:]


async def test_worker_claims_only_suspects_of_its_queues_and_types(database: Database) -> None:
    async with daemon_session(database) as session:
        sent = await send(session.connection, 3, "test.noop", queue="mail")
        sent += await send(session.connection, 1, "test.noop", queue="print")
        await session.connection.execute(
            "update inboxd.commands set crashes = 1, suspect_group = $1", GROUP
        )
        worker = await join(session)
        assert await claim_suspects(session, worker, {"mail": 1}, types=["test.other"]) == []
        assert await claim_suspects(session, worker, {"mail": 2, "print": 2}) == [
            *sent[:2],
            *sent[3:],
        ], "of each queue at most its room"


async def test_commands_taken_back_by_an_older_release_are_a_group_too(database: Database) -> None:
    async with daemon_session(database) as session:
        dead = await join(session)
        await send(session.connection, 2, "test.noop")
        await claim(session, dead)
        taken_back = (
            "update inboxd.commands set status = 'pending', crashes = crashes + 1,"
            " worker_id = null, started_at = null"
        )
        await session.connection.execute(taken_back)
        (found,) = await commands.find_suspects(session)
        assert (found.group, found.alone) == (dead, False)
        # A suspect that was alone before stays alone.
        await session.connection.execute(
            "update inboxd.commands set status = 'running', worker_id = $1, started_at = now(),"
            " lone_crashes = case when id = (select min(id) from inboxd.commands) then 0 end",
            dead,
        )
        await session.connection.execute(taken_back)
        groups = await commands.find_suspects(session)
        assert sorted((each.alone, each.group == dead) for each in groups) == [
            (False, True),
            (True, False),
        ]
        await session.connection.execute("update inboxd.commands set crashes = 0")
        assert await commands.find_suspects(session) == []


# ------------------------------------------------------------------------------------ surveys


async def test_the_survey_of_commands_sees_every_lane_that_waits(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        await send(session.connection, 2, "test.noop", queue="busy")
        await send(session.connection, 1, "test.noop", queue="mail")
        await send(session.connection, 1, "test.ledger", queue="mail")
        await send(session.connection, 1, "test.noop", queue="failed")
        await session.connection.execute(
            "update inboxd.commands set status = 'failed' where queue = 'failed'; "
            "update inboxd.commands set run_at = now() + interval '1 hour'"
            " where type = 'test.ledger'; "
            "update inboxd.commands set run_at = now() - interval '1 minute' where queue = 'mail'"
            " and type = 'test.noop'"
        )
        assert len(await claim(session, worker, queue="busy")) == 2
        seen = {sighting.key: sighting for sighting in await commands.survey(session)}
    assert set(seen) == {("mail", "test.noop", 0), ("mail", "test.ledger", 0)}
    _is_about(seen["mail", "test.noop", 0], oldest=60, next_=None)
    _is_about(seen["mail", "test.ledger", 0], oldest=None, next_=3600)


async def test_the_survey_of_events_sees_every_lane_that_waits(database: Database) -> None:
    async with daemon_session(database) as session:
        for topic in ("a", "b", "c"):
            await session.connection.execute(
                "insert into inboxd.events (topic, type) values ($1, 'test.noop')", topic
            )
        await session.connection.execute(
            "update inboxd.events set status = 'failed' where topic = 'b'; "
            "insert into inboxd.events (topic, type, run_at) values"
            " ('c', 'test.noop', now() + interval '1 hour')"
        )
        seen = {sighting.key: sighting for sighting in await events.survey(session)}
    assert set(seen) == {("a", "test.noop"), ("c", "test.noop")}
    _is_about(seen["a", "test.noop"], oldest=0, next_=None)
    _is_about(seen["c", "test.noop"], oldest=0, next_=3600)


def _is_about(seen: Sighting, *, oldest: float | None, next_: float | None) -> None:
    # A busy test machine may take seconds between two statements.
    assert seen.oldest == (oldest if oldest is None else pytest.approx(oldest, abs=10))
    assert seen.next == (next_ if next_ is None else pytest.approx(next_, abs=10))


async def test_an_empty_table_has_no_lanes(database: Database) -> None:
    async with daemon_session(database) as session:
        assert await commands.survey(session) == []
        assert await events.survey(session) == []


async def test_rows_of_the_future_are_not_claimed(database: Database) -> None:
    later = datetime.now(UTC) + timedelta(hours=1)
    async with daemon_session(database) as session:
        await send(session.connection, 2, "test.noop")
        await session.connection.execute(
            "update inboxd.commands set run_at = $1 where id % 2 = 0", later
        )
        assert len(await claim(session, await join(session))) == 1


async def test_event_without_a_given_time_is_claimed_without_one(database: Database) -> None:
    """A driver spends more time on a timestamp than on all the rest; few events have their own.

    This holds also for an event that was written late in its transaction.
    """
    lane = Lane(("default", "test.noop"))
    given = datetime(2030, 1, 1, tzinfo=UTC)
    async with daemon_session(database) as session:
        async with session.transaction():
            await session.connection.execute("select pg_sleep(0.05)")
            (plain,) = await emit(session.connection, 1, "test.noop")
            told = await session.connection.fetchval(
                "insert into inboxd.events (type, occurred_at) values ('test.noop', $1)"
                " returning id",
                given,
            )
        happened = await session.connection.fetchval(
            "select occurred_at from inboxd.events where id = $1", plain
        )
        async with session.transaction():
            rows = {row["id"]: row for row in await events.claim(session, [lane], 10)}
    assert rows[plain]["occurred_at"] is None
    assert Event(rows[plain], None).occurred_at == happened
    assert Event(rows[told], None).occurred_at == rows[told]["occurred_at"] == given
