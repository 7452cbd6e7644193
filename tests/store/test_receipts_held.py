"""Receipts of a paused source wait, and are released in the order of their arrival."""

from typing import Any

import anyio
import pytest

from inboxd.model.receipt import Receipt
from inboxd.store import receipts
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.receipts import receipt, receive, received, release
from tests.support.rows import daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def pause(database: Database, source: str = "psp", mode: str = "hold") -> None:
    await database.execute(
        "insert into inboxd.controls (kind, name, actor, mode) values ('source', $1, 'me', $2)",
        source,
        mode,
    )


async def resume(database: Database) -> None:
    await database.execute("delete from inboxd.controls")


def numbered(n: int, **given: Any) -> Receipt:
    return receipt(received(payload={"n": n}, **given))


async def written(database: Database) -> list[int]:
    """The numbers of the events, in the order of their ids."""
    rows = await database.fetch("select (payload ->> 'n')::int from inboxd.events order by id")
    return [row[0] for row in rows]


@pytest.mark.parametrize("mode", ["hold", "refuse"])
async def test_held_receipts_are_stored_and_not_processed(database: Database, mode: str) -> None:
    """The same while the receiver does not know yet that it must refuse them."""
    await pause(database, mode=mode)
    given, other = numbered(1), receipt(source="another")
    answers = await receive(database, given, other)
    assert answers == [
        ([given.events[0].event_id], "held"),
        ([other.events[0].event_id], "stored"),
    ]
    (row,) = await database.fetch("select * from inboxd.events")
    assert row["source"] == "another"
    kept = await database.fetch("select * from inboxd.receipts where source = 'psp'")
    assert [(row["body"], row["outcome"]) for row in kept] == [(given.body, "held")]
    assert await receive(database, given) == answers[:1]


async def test_receipts_are_released_in_order_before_newer_ones(database: Database) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, source) values ('t', 'sequential', 'me')"
    )
    await pause(database)
    place = {"topic": "t", "ordering_key": "k"}
    await receive(database, numbered(1, **place), numbered(2, **place))
    await receive(database, numbered(3, **place))
    assert await release(database) == []  # the source is paused
    await resume(database)
    (stored,) = await receive(database, numbered(4, **place))
    assert stored.outcome == "held"
    assert await release(database) == [4]
    (stored,) = await receive(database, numbered(5, **place))
    assert stored.outcome == "stored"
    assert await written(database) == [1, 2, 3, 4, 5]
    for table in ("held_receipts", "held_sources"):
        assert await database.fetchval(f"select count(*) from inboxd.{table}") == 0


async def test_page_is_bounded_by_its_events_too(database: Database) -> None:
    """Hundreds of large arrays would exceed the statement timeout again and again."""
    await pause(database)
    page = [receipt(*(received(payload={"n": n}) for _ in range(1_000))) for n in range(12)]
    await receive(database, *page)
    await resume(database)
    assert await release(database) == [5, 5, 2]
    with safety():
        assert await written(database) == [n for n in range(12) for _ in range(1_000)]
        for table in ("held_receipts", "held_sources"):
            assert await database.fetchval(f"select count(*) from inboxd.{table}") == 0


async def test_held_event_is_written_like_a_direct_one(database: Database) -> None:
    full = received(
        "a.b",
        None,
        topic="there",
        ordering_key="o",
        dedup_key="d",
        tenant="acme",
        entity_type="bet",
        entity_id="5",
        headers='{"h": null}',
        traceparent="00-1",
    )
    full.payload = '{"a": null, "b": 1.10}'
    nothing = received("a.null")
    nothing.payload = "null"
    columns = "to_jsonb(e) - '{id,run_at,created_at,updated_at,occurred_at,source}'::text[]"
    columns += " - '{causation_id,correlation_id}'::text[]"
    query = f"select {columns} from inboxd.events e order by id"
    await receive(database, direct := receipt(full, nothing, source="direct"))
    one = await database.fetch(query)
    await database.execute("with gone as (delete from inboxd.dedup) delete from inboxd.events")
    await pause(database, "held")
    await receive(database, held := receipt(full, nothing, source="held"))
    await resume(database)
    await release(database, "held")
    assert await database.fetch(query) == one
    (row, _) = await database.fetch("select * from inboxd.events order by id")
    assert row["causation_id"] == held.receipt_id != direct.receipt_id


async def test_released_events_are_deduplicated_at_their_release(database: Database) -> None:
    """The outcome is written to the receipt."""
    first = numbered(1, dedup_key="d")
    await receive(database, first)
    await pause(database)
    page = [numbered(1, dedup_key="d"), numbered(2, dedup_key="d"), numbered(3, broken="Broken")]
    await receive(database, *page)
    await resume(database)
    await release(database)
    found = await database.fetch(
        "select outcome, event_ids from inboxd.receipts order by receipt_id offset 1"
    )
    assert [row["outcome"] for row in found] == ["duplicate", "contradiction", "broken"]
    assert found[0]["event_ids"] == [first.events[0].event_id]
    statuses = await database.fetch("select status from inboxd.events order by id")
    assert [row[0] for row in statuses] == ["pending", "failed", "failed"]


async def test_sources_are_held_by_settings_too(database: Database) -> None:
    (stored,) = await receive(database, receipt(hold=True))
    assert stored.outcome == "held"
    (stored,) = await receive(database, receipt())
    assert stored.outcome == "held"
    assert await release(database) == [2]


async def test_held_sources_are_listed(database: Database) -> None:
    await pause(database, "b")
    await receive(database, receipt(source="a", hold=True), *(receipt(source="b") for _ in "12"))
    join = "insert into inboxd.receivers (id, name, host, pid, version, holds)"
    async with daemon_session(database) as session:
        found = await receipts.held(session)
        assert [(row["source"], row["receipts"], row["paused"]) for row in found] == [
            ("a", 1, False),
            ("b", 2, True),
        ]
        await session.connection.execute(
            f"{join} values (gen_random_uuid(), 'r', 'h', 1, '1', '{{a}}')"
        )
        assert [row["paused"] for row in await receipts.held(session)] == [True, True]
        await session.connection.execute("update inboxd.receivers set state = 'stopped'")
        assert [row["paused"] for row in await receipts.held(session)] == [False, True]


async def test_held_receipts_are_released_in_pages(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(receipts, "_PAGE", 3)
    await receive(database, *(receipt(received(payload={"n": n}), hold=True) for n in range(7)))
    async with daemon_session(database) as session:
        async for count in receipts.release(session, "psp"):
            assert count == 3
            break  # as if the process were killed
    assert await written(database) == [0, 1, 2]
    assert await release(database) == [3, 1]
    assert await written(database) == list(range(7))


async def test_source_is_released_by_one_session_at_a_time(database: Database) -> None:
    await receive(database, receipt(hold=True))
    async with daemon_session(database) as session, session.transaction():
        assert [count async for count in receipts.release(session, "psp")] == [1]
        assert await release(database) == []


async def test_receipt_held_at_the_end_of_a_release_is_not_left_behind(
    database: Database,
) -> None:
    """A session that saw held receipts waits for the last page, and checks again."""
    await receive(database, numbered(1), receipt(hold=True))
    answers: list[receipts.Stored] = []

    async def second() -> None:
        answers.extend(await receive(database, numbered(3)))

    async with (
        daemon_session(database) as session,
        anyio.create_task_group() as tasks,
        session.transaction(),
    ):
        assert [count async for count in receipts.release(session, "psp")] == [2]
        tasks.start_soon(second)
        await lock_awaited(database)
    assert [stored.outcome for stored in answers] == ["stored"]


async def test_release_waits_for_sessions_that_hold_receipts(database: Database) -> None:
    await receive(database, receipt(received(payload={"n": 1}), hold=True))
    released: list[int] = []

    async def end() -> None:
        released.extend(await release(database))

    async with (
        daemon_session(database) as session,
        anyio.create_task_group() as tasks,
        session.transaction(),
    ):
        await receipts.write(session, [numbered(2)])
        tasks.start_soon(end)
        await lock_awaited(database)
    assert released == [2]
    assert await written(database) == [1, 2]
