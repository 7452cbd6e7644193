"""Commands that have not started by their `expires_at`: cancelled, once, and by no other end."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import asyncpg
import pytest

from inboxd.client import Inbox, NewCommand
from inboxd.maintenance import expiry
from inboxd.maintenance.context import MaintenanceContext
from inboxd.model.lane import Lane
from inboxd.operations import rows as operations
from inboxd.store import batches, commands, limits, listing
from inboxd.store.session import Session
from inboxd.store.settlements import EXPIRED, Settlement
from inboxd.store.statements import Statements
from inboxd.telemetry.metrics import Metrics
from tests.store.claiming import claim
from tests.support import Database
from tests.support.rows import daemon_pool, daemon_session, join
from tests.support.verdicts import safety
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio

REASON = "expired: not started in time"
PAST, FUTURE = "now() - interval '1 minute'", "now() + interval '1 hour'"


async def write(where: Session | Database, expires_at: str = PAST, **columns: Any) -> int:
    """Insert a command; `expires_at` is an expression."""
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", ${n}" for n in range(1, 1 + len(columns)))
    connection = where.connection if isinstance(where, Session) else where
    return int(
        await connection.fetchval(
            f"insert into inboxd.commands (type, queue, expires_at{names})"
            f" values ('test.noop', 'default', {expires_at}{values}) returning id",
            *columns.values(),
        )
    )


async def expire(session: Session) -> int:
    ids = [row["id"] for row in await commands.expired(session, None, 100)]
    return sum(row["commands"] for row in await commands.expire(session, ids))


async def settled(where: Session | Database, id_: int) -> dict[str, Any]:
    connection = where.connection if isinstance(where, Session) else where
    rows = await connection.fetch("select * from inboxd.commands_history where id = $1", id_)
    assert len(rows) == 1
    return dict(rows[0])


def assert_expired(row: dict[str, Any]) -> None:
    """It counts no attempt and no request."""
    assert (row["status"], row["attempts"], row["cancel_requested"]) == ("cancelled", 0, False)
    assert row["expires_at"] <= row["finished_at"]
    assert [row[name] for name in ("errors", "started_at", "duration")] == [None] * 3


# ------------------------------------------------------------------------------- claim and settle


async def test_claim_says_when_its_rows_expire(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        late = await write(session)
        early = await write(session, FUTURE)
        never = await write(session, "null")
        begun = await write(session)
        suspected = await write(session)
        for what, id_ in (("attempts", begun), ("crashes", suspected)):
            await session.connection.execute(
                f"update inboxd.commands set {what} = 1 where id = $1", id_
            )
        found = {row["id"]: row["expires_in"] for row in await claim(session, worker)}
    assert found.keys() == {late, early, never, begun}
    assert (found[late] or 0) < 0
    assert 0 < (found[early] or 0) <= timedelta(hours=1).total_seconds()
    assert found[never] is None
    assert found[begun] is None, "a command that has begun does not expire"


async def test_claim_within_limits_says_when_its_rows_expire(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        await write(session)
        found = await limits.claim(
            session,
            worker,
            "default",
            limits.Bounds(),
            limits.Wanted(9, ["test.noop"], [Lane(("default", "test.noop", 0))]),
        )
        (row,) = found.rows
    assert (row["expires_in"] or 0) < 0


async def test_expired_settlement_is_a_cancellation_without_an_attempt(
    database: Database,
) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        await write(session)
        (row,) = await claim(session, worker)
        ended = Settlement(row["id"], row["fence"], EXPIRED, 0.0, None)
        stale = ended._replace(fence=row["fence"] - 1)
        assert await commands.end(session, worker, [stale], []) == set(), "a stale claim"
        assert await commands.end(session, worker, [ended], []) == {row["id"]}
        assert_expired(await settled(session, row["id"]))


# ------------------------------------------------------------------- commands that no worker claims


async def test_commands_that_wait_expire(database: Database) -> None:
    async with daemon_session(database) as session:
        late = await write(session)
        in_line = await write(session, ordering_key="a")
        await write(session, FUTURE)
        await write(session, "null")
        assert await expire(session) == 2
        assert await expire(session) == 0
        for id_ in (late, in_line):
            assert_expired(await settled(session, id_))
        assert await session.connection.fetchval("select count(*) from inboxd.commands") == 2


async def test_pages_of_expired_commands_follow_each_other(database: Database) -> None:
    """Also commands that others hold, which the next page leaves behind."""
    async with daemon_session(database) as session:
        written = [await write(session, "'2020-01-01'") for _ in range(5)]
        last, found = None, list[int]()
        while page := await commands.expired(session, last, 2):
            found += [row["id"] for row in page]
            last = page[-1]
    assert found == written


async def test_command_whose_attempt_has_failed_does_not_expire(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        for _ in range(2):
            await write(session)
        (running,) = await claim(session, worker, rows=1)
        assert await expire(session) == 1, "the other one"
        for statement in (
            "update inboxd.commands set status = 'pending', worker_id = null, attempts = 1",
            "update inboxd.commands set attempts = 0, crashes = 1",
            "update inboxd.commands set crashes = 0, status = 'failed'",
        ):
            await session.connection.execute(statement)
            assert await expire(session) == 0, statement
        assert await session.connection.fetchval("select id from inboxd.commands") == running["id"]


async def test_batch_counts_an_expired_member_as_cancelled(database: Database) -> None:
    async with daemon_session(database) as session:
        batch = await session.connection.fetchval(
            "select id from inboxd.send_batch('b', jsonb_build_array(jsonb_build_object("
            f"'type', 'test.noop', 'queue', 'default', 'expires_at', {PAST})))"
        )
        assert await expire(session) == 1
        await batches.fold(session, [batch])
        row = await session.connection.fetchrow(
            "select status, cancelled, skipped from inboxd.batches where id = $1", batch
        )
        assert row is not None
        assert tuple(row) == ("cancelled", 1, 0)


@pytest.mark.parametrize(("condition", "left"), [("succeeded", "cancelled"), ("finished", None)])
async def test_rows_that_wait_for_an_expired_command(
    database: Database, condition: str, left: str | None
) -> None:
    async with daemon_session(database) as session:
        needed = await session.connection.fetchval(
            "select new_command_id from inboxd.send_command('test.noop', queue => 'default',"
            f" expires_at => {PAST})"
        )
        waiting = await session.connection.fetchval(
            "select inboxd.send_after($1, jsonb_build_object('type', 'test.noop', 'queue',"
            " 'default', 'expires_at', now() + interval '1 hour'), $2)",
            needed,
            condition,
        )
        assert await expire(session) == 1
        ended = await session.connection.fetchval(
            "select status from inboxd.commands_history where command_id = $1", waiting
        )
        assert ended == left
        if left is None:
            status = await session.connection.fetchval("select status from inboxd.commands")
            assert status == "pending", "it goes on"


async def test_step_expires_before_what_it_waits_for(database: Database) -> None:
    async with daemon_session(database) as session:
        needed = await session.connection.fetchval(
            "select new_command_id from inboxd.send_command('test.noop', queue => 'default')"
        )
        await session.connection.execute(
            "select inboxd.send_after($1, jsonb_build_object('type', 'test.noop', 'queue',"
            f" 'default', 'expires_at', {PAST}))",
            needed,
        )
        assert await expire(session) == 1
        worker = await join(session)
        (row,) = await claim(session, worker)
        done = Settlement(row["id"], row["fence"], "succeeded", 0.0, None)
        assert await commands.end(session, worker, [done], []) == {row["id"]}
        assert await session.connection.fetchval("select count(*) from inboxd.commands") == 0


# --------------------------------------------------------------------------------------- races


async def test_claim_and_expiry_at_once_have_one_winner(database: Database) -> None:
    async with daemon_session(database) as one, daemon_session(database) as two:
        worker = await join(two)
        await write(one)
        async with one.transaction():
            claimed = await claim(one, worker)
            async with two.transaction():
                assert await expire(two) == 0, "the row is being claimed"
        with safety():
            assert len(claimed) == 1
            assert await expire(two) == 0, "it is claimed"
        await commands.release(two, worker)
        async with one.transaction():
            assert await expire(one) == 1
            async with two.transaction():
                assert await claim(two, worker) == [], "the row is being cancelled"
        with safety():
            assert await claim(two, worker) == []
            assert await expire(two) == 0


async def test_held_row_does_not_keep_others(database: Database) -> None:
    """Its holder may be a rehearsal that takes minutes."""
    async with daemon_session(database) as one, daemon_session(database) as two:
        held, other = await write(one), await write(one)
        async with one.transaction():
            await one.connection.execute(
                "select from inboxd.commands where id = $1 for update", held
            )
            assert await expire(two) == 1
        assert_expired(await settled(two, other))
        assert await expire(two) == 1


@pytest.mark.parametrize("page", [1, 3, 1000])
async def test_rows_that_others_hold_delay_no_other(
    database: Database, monkeypatch: pytest.MonkeyPatch, page: int
) -> None:
    """A held command, also a step, and a command for which a held one waits."""
    monkeypatch.setattr(expiry, "_PAGE", page)
    async with daemon_session(database) as session, daemon_pool(database) as pool:
        needed, held, step, other, last = [await write(session) for _ in range(5)]
        await session.connection.execute(
            "update inboxd.commands set needs = 1, status = 'waiting' where id = $1", step
        )
        uuid = await session.connection.fetchval(
            "select command_id from inboxd.commands where id = $1", needed
        )
        waiting = await session.connection.fetchval(
            "select inboxd.send_after($1, jsonb_build_object('type', 'a.b', 'queue', 'q'))", uuid
        )
        context = MaintenanceContext(pool, Metrics("0"), uuid4())
        async with session.transaction():
            await session.connection.execute(
                "select from inboxd.commands where id = any($1) or command_id = $2 for update",
                [held, step],
                waiting,
            )
            with bounded():
                await expiry.expire_commands(context)
            for id_ in (other, last):
                assert_expired(await settled(database, id_))
            left = await database.fetchval("select count(*) from inboxd.commands")
            assert left == 4, "three that are held or awaited by one, and the one that waits"
        await expiry.expire_commands(context)
        assert await database.fetchval("select count(*) from inboxd.commands") == 0


async def test_cancelled_row_is_not_expired_as_well(database: Database) -> None:
    async with daemon_session(database) as session:
        late = await write(session)
        await operations.act(session, "commands", "cancel", [late], actor="me")
        assert await expire(session) == 0
        assert (await settled(session, late))["cancel_requested"]


# -------------------------------------------------------------------------------------- replays


@pytest.mark.parametrize("key", [None, "a"], ids=["new row", "in place"])
async def test_replay_removes_a_time_that_has_passed(database: Database, key: str | None) -> None:
    async with daemon_session(database) as session:
        ids = [
            await write(session, expires_at, ordering_key=key and f"{key}{n}")
            for n, expires_at in enumerate((PAST, FUTURE))
        ]
        await session.connection.execute("update inboxd.commands set status = 'failed'")
        await operations.act(session, "commands", "replay", ids, actor="me")
        assert await expire(session) == 0
        rows = await session.connection.fetch(
            "select expires_at is null as removed, status from inboxd.commands order by id"
        )
    assert [row["removed"] for row in rows] == [True, False]


# ---------------------------------------------------------------------------------- unique keys

SEND = (
    "select duplicate from inboxd.send_command('test.noop', queue => 'default',"
    " unique_key => 'u', on_conflict => $1)"
)


@pytest.mark.parametrize("on_conflict", ["keep", "replace", "reject"])
async def test_expired_command_holds_no_unique_key(database: Database, on_conflict: str) -> None:
    """It is not cancelled yet; with `keep` the new command would be lost otherwise."""
    async with daemon_session(database) as session:
        late = await write(session, unique_key="u")
        assert await session.connection.fetchval(SEND, on_conflict) is False
        assert_expired(await settled(session, late))
        assert await session.connection.fetchval("select count(*) from inboxd.commands") == 1


async def test_command_that_has_not_expired_keeps_its_unique_key(database: Database) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
        await write(session, FUTURE, unique_key="u")
        assert await session.connection.fetchval(SEND, "keep") is True
        with pytest.raises(asyncpg.PostgresError, match="is unsettled"):
            await session.connection.fetchval(SEND, "reject")
        assert await session.connection.fetchval(SEND, "replace") is False
        (cancelled,) = await session.connection.fetch("select * from inboxd.commands_history")
        assert cancelled["cancel_requested"], "a replaced command has not expired"
        await session.connection.execute(f"update inboxd.commands set expires_at = {PAST}")
        assert len(await claim(session, worker)) == 1
        assert await session.connection.fetchval(SEND, "keep") is True, "its worker decides"


# --------------------------------------------------------------------------------- what is shown


async def test_reason_is_shown_also_without_the_right_to_contents(database: Database) -> None:
    async with daemon_session(database) as session:
        batch = await session.connection.fetchval(
            "select id from inboxd.send_batch('b', jsonb_build_array(jsonb_build_object("
            f"'type', 'test.noop', 'queue', 'default', 'expires_at', {PAST})))"
        )
        assert await expire(session) == 1
        (row,) = await session.connection.fetch("select * from inboxd.commands_history")
        told = await session.connection.fetchrow(
            "select status, error from inboxd.command_result($1)", row["command_id"]
        )
        story = await session.connection.fetchval(
            "select error from inboxd.story where kind = 'command' and id = $1", row["id"]
        )
        made_at = row["created_at"] - timedelta(days=1)
        for viewer in (session, replace(session, sql=Statements("inboxd", ["content"]))):
            members = await viewer.fetch("batch_members", batch, ["cancelled"], 0, 10, 10, made_at)
            shown = await listing.one(viewer, "commands", row["id"])
            found = await viewer.fetch(
                "found_commands",
                *([], [row["id"]], [row["finished_at"]], row["finished_at"], row["finished_at"]),
            )
            assert [each["error"] for each in (*members, *found)] == [REASON, REASON]
            assert shown is not None
            assert shown["ended_as"] == "expired"
    assert told is not None
    assert tuple(told) == ("cancelled", REASON)
    assert story == REASON


# ---------------------------------------------------------------------------------------- SQL

JSON = '\'[{"type": "a.b", "queue": "q", "run_at": "%s", "expires_at": "%s"}]\''
WAYS: dict[str, Callable[[str, str], str]] = {
    "insert": lambda run_at, expires_at: (
        "insert into inboxd.commands (type, queue, run_at, expires_at)"
        f" values ('a.b', 'q', '{run_at}', '{expires_at}')"
    ),
    "send_command": lambda run_at, expires_at: (
        "select inboxd.send_command('a.b', queue => 'q',"
        f" run_at => '{run_at}', expires_at => '{expires_at}')"
    ),
    "send_command, a unique key": lambda run_at, expires_at: (
        "select inboxd.send_command('a.b', queue => 'q', unique_key => 'u',"
        f" run_at => '{run_at}', expires_at => '{expires_at}')"
    ),
    "send_command_arrays": lambda run_at, expires_at: (
        "select inboxd.send_command_arrays(array['a.b'], array['{}'::jsonb], array['q'],"
        f" run_ats => array['{run_at}'::timestamptz],"
        f" expires_ats => array['{expires_at}'::timestamptz])"
    ),
    "send_commands": lambda run_at, expires_at: (
        f"select inboxd.send_commands({JSON % (run_at, expires_at)})"
    ),
    "send_batch": lambda run_at, expires_at: (
        f"select inboxd.send_batch('b', {JSON % (run_at, expires_at)})"
    ),
}


@pytest.mark.parametrize("way", WAYS)
async def test_producers_give_it_by_sql(database: Database, way: str) -> None:
    await database.execute(WAYS[way]("2090-01-01Z", "2090-01-02Z"))
    expires_at = await database.fetchval("select expires_at from inboxd.commands")
    assert expires_at == datetime(2090, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("expires_at", ["infinity", "1969-01-01Z"])
async def test_time_that_drivers_cannot_read_is_refused(
    database: Database, way: str, expires_at: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await database.execute(WAYS[way]("2020-01-01Z", expires_at))
    assert await database.fetchval("select count(*) from inboxd.commands") == 0


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("expires_at", ["2020-01-01Z", "2019-12-31Z"])
async def test_command_that_could_never_start_is_written_and_expires(
    database: Database, way: str, expires_at: str
) -> None:
    """Its sender may be late: it does not fail because of that."""
    await database.execute(WAYS[way]("2020-01-01Z", expires_at))
    async with daemon_session(database) as session:
        assert await expire(session) == 1


# ------------------------------------------------------------------------------------- the client


def _commands(expires_at: datetime) -> Sequence[NewCommand]:
    return [NewCommand("a.b", queue="q", expires_at=expires_at), NewCommand("a.b", queue="q")]


async def test_client_gives_it(database: Database) -> None:
    inbox, later = Inbox(), datetime.now(UTC) + timedelta(hours=1)
    async with daemon_session(database) as session:
        connection = session.connection
        await inbox.send(connection, "a.b", queue="q", expires_at=later)
        await inbox.send_many(connection, _commands(later))
        await inbox.send_batch(connection, "b", _commands(later))
        found = await connection.fetch("select expires_at from inboxd.commands order by id")
    assert [row[0] for row in found] == [later, later, None, later, None]
