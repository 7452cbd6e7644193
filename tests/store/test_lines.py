"""Claims of lines and limited queues in several sessions: in order, and within the limits."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from uuid import UUID

import anyio
import pytest

from inboxd import operations
from inboxd.errors import Conflict
from inboxd.model.lane import Lane
from inboxd.operations import Selection, Terms
from inboxd.store import commands, limits, listing, samples, unhandled
from inboxd.store.limits import Bounds, Claimed, Wanted
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue, Settlement
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import SQL, daemon_session, join
from tests.support.sampled import counted

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _worker(database: Database) -> AsyncIterator[tuple[Session, UUID]]:
    async with daemon_session(database) as session:
        # The first claim from a queue with a limit would only insert this row.
        await session.connection.execute(
            "insert into inboxd.limits (name) values ('q') on conflict do nothing"
        )
        yield session, await join(session)


async def _send(database: Database, *keys: str | None, **columns: object) -> list[int]:
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", ${n}" for n in range(2, 2 + len(columns)))
    rows = await database.fetch(
        f"insert into inboxd.commands (queue, type, ordering_key{names}) "
        f"select 'q', 't', key{values} from unnest($1::text[]) as key returning id",
        keys,
        *columns.values(),
    )
    return [row["id"] for row in rows]


async def _claim(
    worker: tuple[Session, UUID],
    bounds: Bounds = Bounds(),  # noqa: B008 - frozen
    *,
    keys: tuple[str, ...] = (),
    rows: int = 100,
    share: int = 1,
    suspect: bool = False,
    following: float | None = None,
) -> Claimed:
    lanes = () if keys else (Lane(("q", "t", 0)),)
    find = "select suspect_group from inboxd.commands where suspect_group is not null limit 1"
    group = await worker[0].connection.fetchval(find) if suspect else None
    want = Wanted(rows, ["t"], lanes, keys=keys, share=share, suspects=group, following=following)
    return await limits.claim(worker[0], worker[1], "q", bounds, want)


def _ids(claimed: Claimed) -> list[int]:
    return [row["id"] for row in claimed.rows]


async def test_claim_within_limits_names_the_lane_of_each_row(database: Database) -> None:
    first, second = await _send(database, None, None, priority=5)
    urgent = await _send(database, None, priority=0)
    keyed = await _send(database, "a")
    async with _worker(database) as (session, worker):
        lanes = [Lane(("q", "t", 0)), Lane(("q", "t", 5))]
        want = Wanted(100, ["t"], lanes, keys=["a"], share=1)
        claimed = await limits.claim(session, worker, "q", Bounds(total=100), want)
        expected = [(0, *keyed), (1, *urgent), (2, first), (2, second)]
        assert [(row["lane"], row["id"]) for row in claimed.rows] == expected


async def test_keyed_commands_are_not_claimed_from_lanes(database: Database) -> None:
    await _send(database, "a")
    async with _worker(database) as (session, worker):
        lane = Lane(("q", "t", 0))
        assert await commands.claim(session, worker, {"q": 10}, [lane], 10) == []
        assert await commands.survey(session) == []


async def test_open_claim_delays_no_other_claim_and_counts_in_the_limit(database: Database) -> None:
    await _send(database, *[None] * 10)
    bounds = Bounds(total=6)
    async with _worker(database) as one, _worker(database) as two:
        transaction = one[0].transaction()
        await transaction.start()
        assert len(_ids(await _claim(one, bounds, rows=4))) == 4
        assert (await _claim(two, bounds)).held_back == "busy"
        await transaction.commit()
        assert len(_ids(await _claim(two, bounds))) == 2
        assert (await _claim(two, bounds)).held_back == "full"
        assert (await _claim(one, bounds)).held_back == "full"
        ended = await database.fetch(
            "select id, fence from inboxd.commands where worker_id = $1", one[1]
        )
        done = [Settlement(row["id"], row["fence"], "succeeded", 0, None) for row in ended]
        await commands.settle(one[0], one[1], done)
        assert len(_ids(await _claim(two, bounds))) == 4


async def test_commands_of_workers_without_the_limit_count_too(database: Database) -> None:
    await _send(database, *[None] * 10)
    async with _worker(database) as worker:
        lane = Lane(("q", "t", 0))
        await commands.claim(*worker[:1], worker[1], {"q": 4}, [lane], 4)
        assert len(_ids(await _claim(worker, Bounds(total=5)))) == 1


async def test_a_claim_that_rolls_back_leaves_no_trace(database: Database) -> None:
    await _send(database, *[None] * 10)
    bounds = Bounds(total=3, rate=3, period=60)
    async with _worker(database) as worker:
        transaction = worker[0].transaction()
        await transaction.start()
        await _claim(worker, bounds)
        await transaction.rollback()
        assert len(_ids(await _claim(worker, bounds))) == 3


async def test_a_rate_counts_every_claim_of_its_window(database: Database) -> None:
    await _send(database, *[None] * 10)
    bounds = Bounds(rate=5, period=60)
    async with _worker(database) as one, _worker(database) as two:
        assert len(_ids(await _claim(one, bounds, rows=3))) == 3
        assert len(_ids(await _claim(two, bounds))) == 2
        refused = await _claim(one, bounds)
        assert refused.held_back == "rate"
        assert refused.again is not None
        assert 50 < refused.again <= 60
        # The clock was set back by an hour; no claim waits for an hour.
        await database.execute(
            "update inboxd.limits set claimed = '{5}', claimed_at = array[now() + '1 h'::interval]"
        )
        refused = await _claim(one, bounds)
        assert (refused.held_back, refused.again is not None and refused.again <= 60) == (
            "rate",
            True,
        )
        await database.execute(
            "update inboxd.limits set claimed_at = array[now() - interval '61 seconds']"
        )
        assert len(_ids(await _claim(one, bounds))) == 5


async def test_commands_of_a_key_run_one_after_another(database: Database) -> None:
    a1, a2, b1, a3 = await _send(database, "a", "a", "b", "a")
    async with _worker(database) as one, _worker(database) as two:
        first = await _claim(one, keys=("a", "b"))
        assert sorted(_ids(first)) == [a1, b1]
        assert _ids(await _claim(two, keys=("a", "b"), share=5)) == []
        again = [Requeue(a1, "pending", 1, delay=60, fence=1)]
        await commands.requeue(one[0], one[1], again)
        assert _ids(await _claim(two, keys=("a",), share=5)) == []
        await database.execute("update inboxd.commands set run_at = now() where id = $1", a1)
        assert _ids(await _claim(two, keys=("a",), share=5)) == [a1]
        done = [Settlement(a1, 2, "succeeded", 0, None)]
        await commands.settle(two[0], two[1], done)
        assert _ids(await _claim(one, keys=("a",), share=5)) == [a2, a3]


async def test_claims_of_different_keys_go_side_by_side(database: Database) -> None:
    """A line that another claim is reading is passed over, also if it gets rows meanwhile."""
    a1, _, b1 = await _send(database, "a", "a", "b")
    async with _worker(database) as one, _worker(database) as two:
        async with one[0].transaction():
            assert _ids(await _claim(one, keys=("a",))) == [a1]
            (first,) = await _send(database, "a")
            await database.execute(
                "update inboxd.commands set run_at = now() - interval '1 hour' where id = $1", first
            )
            claimed = await _claim(two, keys=("a", "b"), share=2)
            assert (_ids(claimed), claimed.passed) == ([b1], ["a"]), (
                "the new row would run beside a1"
            )
            nothing = await _claim(two, keys=("a",))
            assert (nothing.held_back, nothing.again, nothing.passed) == ("busy", 0.005, ["a"])
        nothing = await _claim(two, keys=("a",))
        assert (_ids(nothing), nothing.held_back, nothing.passed) == ([], None, []), (
            "a1 holds its key"
        )


async def test_passed_keys_are_named_whatever_the_order_of_rows(database: Database) -> None:
    *others, held = await _send(database, *[f"k{n}" for n in range(40)], "held")
    turns = ("held", *(f"k{n}" for n in reversed(range(40))))  # the first has the highest id
    async with _worker(database) as one, _worker(database) as two, one[0].transaction():
        assert _ids(await _claim(one, keys=("held",))) == [held]
        claimed = await _claim(two, keys=turns)
    assert "held" in claimed.passed, "other keys of its bucket may be passed too"
    assert len(claimed.rows) + len(claimed.passed) == len(turns)
    assert set(_ids(claimed)) <= set(others)


async def test_worker_claims_more_of_a_line_behind_its_own_rows(database: Database) -> None:
    a1, a2, a3, b1, b2 = await _send(database, "a", "a", "a", "b", "b")
    async with _worker(database) as one, _worker(database) as two:
        first = await _claim(one, keys=("a",))
        assert _ids(first) == [a1]
        second = await _claim(two, keys=("b",))
        assert _ids(second) == [b1]
        assert _ids(await _claim(one, keys=("a", "b"))) == [], "both keys are held"
        more = await _claim(one, keys=("a", "b"), following=first.at)
        assert _ids(more) == [a2], "another worker holds b"
        assert _ids(await _claim(two, keys=("a", "b"), following=second.at)) == [b2]
        done = [Settlement(each, 1, "succeeded", 0, None) for each in (a1, a2)]
        await commands.settle(one[0], one[1], done)
        assert _ids(await _claim(one, keys=("a",), following=more.at)) == [a3]


async def test_late_claim_takes_nothing_behind_newer_claims(
    database: Database,
) -> None:
    a1, a2, _ = await _send(database, "a", "a", "a")
    async with _worker(database) as worker:
        first = await _claim(worker, keys=("a",))
        done = [Settlement(a1, 1, "succeeded", 0, None)]
        await commands.settle(worker[0], worker[1], done)
        assert _ids(await _claim(worker, keys=("a",))) == [a2]
        assert _ids(await _claim(worker, keys=("a",), following=first.at)) == []


@pytest.mark.parametrize(("status", "delay"), [("pending", 60), ("pending", 0), ("failed", 60)])
async def test_rows_behind_a_failed_one_are_not_claimed(
    database: Database, status: str, delay: int
) -> None:
    """The failed row is not claimed either: it must come first, and the worker lacks its state."""
    a1, _, _ = await _send(database, "a", "a", "a")
    async with _worker(database) as worker:
        first = await _claim(worker, keys=("a",), share=2)
        back = [Requeue(a1, status, 1, delay=delay, fence=1)]
        await commands.requeue(worker[0], worker[1], back)
        assert _ids(await _claim(worker, keys=("a",), following=first.at)) == []


async def _with_a_suspect(database: Database, worker: tuple[Session, UUID]) -> tuple[int, int]:
    """One key: a row that waits for its turn, and behind it a row whose worker died."""
    running, suspect = await _send(database, "a", "a")
    await _claim(worker, keys=("a",), share=2)
    back = [Requeue(running, "waiting", fence=1), Requeue(suspect, "pending", fence=1)]
    await commands.requeue(worker[0], worker[1], back)
    await database.execute(
        "update inboxd.commands set crashes = 1, run_at = now() where id = $1", suspect
    )
    return running, suspect


PAIRS = Bounds(key_concurrency=2)  # then a row that waits for its turn does not hold up the suspect


async def test_a_suspect_waits_for_a_claim_of_its_line(database: Database) -> None:
    async with _worker(database) as one, _worker(database) as two:
        running, suspect = await _with_a_suspect(database, one)
        async with one[0].transaction():
            assert _ids(await _claim(one, PAIRS, keys=("a",))) == [running]
            nothing = await _claim(two, suspect=True)
            assert (nothing.rows, nothing.held_back, nothing.passed) == ([], "busy", ["a"])
        nothing = await _claim(two, suspect=True)
        assert (nothing.rows, nothing.held_back) == ([], None), "its key is held"
        assert _ids(await _claim(two, PAIRS, suspect=True)) == [suspect]


async def test_suspect_picked_before_its_line_was_held_is_picked_again(
    database: Database,
) -> None:
    async with _worker(database) as one, _worker(database) as two:
        running, _ = await _with_a_suspect(database, one)
        await database.execute(
            "alter function inboxd.pick_suspects rename to pick_at_once;"
            " create function inboxd.pick_suspects"
            "  (q text, t text[], n integer, b boolean, g uuid, m integer)"
            " returns bigint[] language plpgsql as $$"
            " declare found bigint[] := inboxd.pick_at_once(q, t, n, b, g, m);"
            " begin perform pg_advisory_xact_lock(4711); return found; end $$"
        )
        answers: list[Claimed] = []

        async def claim() -> None:
            answers.append(await _claim(two, suspect=True))

        async with anyio.create_task_group() as tasks, one[0].transaction():
            await one[0].connection.execute("select pg_advisory_xact_lock(4711)")
            tasks.start_soon(claim)
            await lock_awaited(database)
            assert _ids(await _claim(one, PAIRS, keys=("a",))) == [running]
    assert [(each.rows, each.passed) for each in answers] == [([], ["a"])]


async def test_released_rows_keep_their_places_in_the_line(database: Database) -> None:
    a1, a2, a3 = await _send(database, "a", "a", "a")
    async with _worker(database) as worker:
        assert _ids(await _claim(worker, keys=("a",), share=2)) == [a1, a2]
        back = [Requeue(a2, "waiting", fence=1), Requeue(a1, "pending", fence=1)]
        await commands.requeue(worker[0], worker[1], back)
        assert _ids(await _claim(worker, keys=("a",), share=5)) == [a1], "a1 still holds its key"
        await commands.settle(worker[0], worker[1], [Settlement(a1, 2, "succeeded", 0, None)])
        assert _ids(await _claim(worker, keys=("a",), share=5)) == [a2, a3]


@pytest.mark.parametrize(("bounds", "goes_on"), [(Bounds(), False), (Bounds(blocking=False), True)])
async def test_dead_letter_blocks_its_key_if_settings_say_so(
    database: Database, bounds: Bounds, goes_on: bool
) -> None:
    a1, a2 = await _send(database, "a", "a")
    async with _worker(database) as worker:
        await _claim(worker, keys=("a",))
        await commands.requeue(worker[0], worker[1], [Requeue(a1, "failed", fence=1)])
        assert _ids(await _claim(worker, bounds, keys=("a",))) == ([a2] if goes_on else [])
        found = await limits.find_keys(worker[0], "q", None, bounds, 10)
        assert found == ([] if goes_on else [limits.WaitingKey("a", free=False)])


async def test_row_locked_by_an_operator_ends_its_line(database: Database) -> None:
    a1, a2, a3 = await _send(database, "a", "a", "a")
    async with _worker(database) as worker, database.connect() as operator:
        for held, got in ((a1, []), (a2, [a1])):
            async with operator.transaction():
                await operator.execute("select from inboxd.commands where id = $1 for update", held)
                assert _ids(await _claim(worker, keys=("a",), share=3)) == got
            await worker[0].connection.execute(
                "update inboxd.commands set status = 'waiting', worker_id = null, line_at = null"
                " where status = 'running'"
            )
        assert _ids(await _claim(worker, keys=("a",), share=3)) == [a1, a2, a3]


async def test_row_of_an_unserved_type_ends_its_line(database: Database) -> None:
    a1, a2, a3 = await _send(database, "a", "a", "a")
    await database.execute("update inboxd.commands set type = 'other' where id = $1", a2)
    async with _worker(database) as worker:
        assert _ids(await _claim(worker, keys=("a",), share=3)) == [a1]
    assert a3


async def test_key_concurrency_bounds_the_rows_of_a_key(database: Database) -> None:
    await _send(database, *"aaaaabb")
    bounds = Bounds(key_concurrency=2)
    async with _worker(database) as one, _worker(database) as two:
        first = await _claim(one, bounds, keys=("a",))
        assert len(_ids(first)) == 1
        assert len(_ids(await _claim(two, bounds, keys=("a", "b"), share=2))) == 3
        assert _ids(await _claim(one, bounds, keys=("a", "b"), share=2)) == []


async def test_suspects_of_a_line_are_claimed_in_order(database: Database) -> None:
    a1, a2, b1 = await _send(database, "a", "a", "b")
    async with _worker(database) as dead, _worker(database) as worker:
        assert _ids(await _claim(dead, keys=("a", "b"), share=2)) == [a1, a2, b1]
        await worker[0].fetch("reap_commands", dead[1], 3)
        assert _ids(await _claim(worker, keys=("a", "b"), share=2)) == []
        older = "select id from inboxd.claim_limited($1, 'q', 9, null, null, 1, '{t}', '{}', '{}',"
        older += " '{}', '{}', false, '{}', 1, 1, true, true)"
        async with worker[0].transaction():
            rows = await worker[0].connection.fetch(older, worker[1])
            assert [row["id"] for row in rows] == [a1], (
                "an older release takes a suspect of any group"
            )
            await worker[0].connection.execute(
                "update inboxd.commands set status = 'pending', worker_id = null,"
                " fence = fence - 1 where id = $1",
                a1,
            )
        assert _ids(await _claim(worker, keys=("a", "b"), suspect=True)) == [a1, b1]
        assert _ids(await _claim(worker, suspect=True)) == [], "a2 stands behind a1"


async def test_row_that_is_not_due_does_not_hold_up_its_line(database: Database) -> None:
    (late,) = await _send(database, "a")
    await database.execute("update inboxd.commands set run_at = now() + interval '1 hour'")
    (now,) = await _send(database, "a")
    async with _worker(database) as worker:
        assert _ids(await _claim(worker, keys=("a",), share=5)) == [now]
        (line,) = await limits.survey(worker[0])
        assert line.oldest is None
        assert line.next is not None
        assert 3500 < line.next <= 3600
    assert late


async def test_the_order_is_that_of_the_inserts(database: Database) -> None:
    async with database.connect() as one, database.connect() as two, _worker(database) as worker:
        async with one.transaction():
            await one.fetch("select now()")  # its now() is before the other session's
            send = (
                "insert into inboxd.commands (queue, type, ordering_key) values ('q', 't', 'a')"
                " returning id"
            )
            first = await two.fetchval(send)
            second = await one.fetchval(send)
        assert _ids(await _claim(worker, keys=("a",), share=5)) == [first, second]


async def test_rows_claimed_together_start_in_the_order_of_their_line(
    database: Database,
) -> None:
    sent = await _send(database, *"aaaa")
    await database.execute("update inboxd.commands set run_at = now() - id * interval '1 second'")
    async with _worker(database) as worker:
        assert _ids(await _claim(worker, keys=("a",), share=5)) == sent[::-1]
    rows = await database.fetch("select id from inboxd.commands order by started_at")
    assert [row["id"] for row in rows] == sent[::-1], "in the line's order, not the table's"


async def test_new_keys_are_found_by_arrivals_and_by_a_search(database: Database) -> None:
    await _send(database, "a", "b", "a", "c")
    async with _worker(database) as worker:
        lane = Lane(("q", "t"))
        rows = await limits.arrived(worker[0], "q", [lane], 100)
        assert {row["key"] for row in rows} == {"a", "b", "c"}
        await _claim(worker, keys=("b",))
        found = await limits.find_keys(worker[0], "q", None, Bounds(), 2)
        assert [each.key for each in found] == ["a", "c"]
        assert await limits.find_keys(worker[0], "q", "c", Bounds(), 2) == []


async def test_unhandled_keyed_commands_become_dead_letters(database: Database) -> None:
    await _send(database, "a", "a")
    async with _worker(database) as worker:
        lane = ("q", "t", "keyed")
        failed = await unhandled.fail(worker[0], "keyed", lane, "{}", 10, timedelta(0))
        assert failed == 2
        assert await limits.survey(worker[0]) == []


async def test_running_row_holds_its_key_before_a_row_that_waits_to_retry(
    database: Database,
) -> None:
    a1, a2 = await _send(database, "a", "a")
    async with _worker(database) as worker:
        assert _ids(await _claim(worker, keys=("a",), share=2)) == [a1, a2]
        back = [Requeue(a2, "pending", fence=1)]
        await commands.requeue(worker[0], worker[1], back)
        assert _ids(await _claim(worker, keys=("a",))) == []


async def test_claims_return_the_same_columns(database: Database) -> None:
    async with daemon_session(database) as session:
        columns = {
            name: {
                each.name for each in (await session.connection.prepare(SQL[name])).get_attributes()
            }
            for name in ("claim_commands", "claim_suspects", "claim_limited")
        }
    assert columns["claim_suspects"] == columns["claim_commands"]
    assert columns["claim_limited"] == columns["claim_commands"] | {
        "held_back",
        "again",
        "passed",
    }


async def test_suspect_counts_in_the_concurrency_of_its_key(database: Database) -> None:
    running, suspect, *_ = await _send(database, "a", "a", "a", "b")
    async with _worker(database) as worker:
        bounds = Bounds(key_concurrency=2)
        await _claim(worker, bounds, keys=("a",), rows=2, share=2)
        await database.execute(
            "update inboxd.commands set status = 'pending', worker_id = null, crashes = 1"
            " where id = $1",
            suspect,
        )
        claimed = await _claim(worker, bounds, keys=("a", "b"), suspect=True)
        assert [row["id"] for row in claimed.rows if row["ordering_key"] == "a"] == [suspect]
        assert len(claimed.rows) == 2, "other keys are not held up"
        assert running not in _ids(claimed)


async def test_rows_in_line_are_shown_as_pending(database: Database) -> None:
    first, *_ = await _send(database, "a", "a", "a", "b")
    await _send(database, "a", run_at=datetime.now(UTC) + timedelta(hours=1))
    async with _worker(database) as worker:
        await _claim(worker, keys=("a",))
        await commands.requeue(worker[0], worker[1], [Requeue(first, "pending", fence=1)])
        (lane,) = await listing.lanes(worker[0], "commands")
        assert (lane["queue"], lane["type"], lane["pending"], lane["due"]) == ("q", "t", 5, 4)
        assert lane["oldest"] >= 0
        backlog = samples.command_backlog(await counted(worker[0]))
        assert ("q", "t", "", "in_line", 4) in [row[:5] for row in backlog]


async def test_held_unique_key_bars_a_replay_in_place(database: Database) -> None:
    dead = await _send(database, "a", "b", "c", status="failed", unique_key="u")
    dead += await _send(database, "d", "e", status="failed")
    (holder,) = await _send(database, None, unique_key="u")
    async with daemon_session(database) as session:
        with pytest.raises(Conflict, match=f"command {dead[0]}: .*another unsettled command holds"):
            await operations.act(session, "commands", "replay", dead[:1], actor="me")
        terms = Terms(actor="me")
        assert await operations.act_on_all(session, "commands", "replay", Selection(), terms) == 2
        await operations.act(session, "commands", "cancel", [holder], actor="me")
        assert await operations.act_on_all(session, "commands", "replay", Selection(), terms) == 1
