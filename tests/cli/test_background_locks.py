"""Bulk actions and rows that another session has locked: skipped, and handled later."""

from typing import Any

import pytest

from inboxd import operations
from inboxd.operations import OrderTerms, Selection, bulk, bulk_runs
from inboxd.store import operations as store
from inboxd.store.connections import Row
from tests.cli.dead_letters import operator
from tests.support import Database
from tests.support.bulk_actions import step
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

_ALL = Selection()
_NOW = OrderTerms(delay=OrderTerms().delay * 0)
_TOPIC = (
    "INSERT INTO inboxd.topics (name, mode, key_path, source)"
    " VALUES ('points', 'sequential', '{key}', 'plugin')"
)
_BUCKET = "SELECT {} (hashtext('inboxd/points'), $1)"

_HELD = (
    "SELECT count(*) FROM pg_locks JOIN pg_database d ON d.oid = database"
    " WHERE locktype = 'advisory' AND objsubid = 2 AND datname = current_database()"
)


async def _ordered(
    database: Database, table: Any, verb: Any, wanted: Selection = _ALL, **terms: Any
) -> None:
    async def act(session: Any) -> None:
        given = OrderTerms(delay=_NOW.delay, **terms)
        await operations.order(session, table, verb, wanted, given, actor="me")

    await operator(database, act)


async def _action(database: Database) -> Row:
    [row] = await database.fetch("SELECT * FROM inboxd.actions")
    return row


async def _two_keys(database: Database, each: int = 3) -> list[Row]:
    """Make dead letters of two keys in two buckets, alternating."""
    await database.execute(_TOPIC)
    for _ in range(each):
        await database.execute(
            "INSERT INTO inboxd.events (type, topic, ordering_key) VALUES"
            " ('a.b', 'points', 'one'), ('a.b', 'points', 'two')"
        )
    await database.execute("UPDATE inboxd.events SET status = 'failed', position = id")
    buckets = await database.fetch(
        "SELECT ordering_key, min(bucket) AS bucket FROM inboxd.events GROUP BY 1 ORDER BY 1"
    )
    assert buckets[0]["bucket"] != buckets[1]["bucket"]
    return list(buckets)


async def _left(database: Database) -> dict[str, int]:
    rows = await database.fetch(
        "SELECT ordering_key, count(*) AS n FROM inboxd.events WHERE status = 'failed' GROUP BY 1"
    )
    return {row["ordering_key"]: row["n"] for row in rows}


async def test_locked_bucket_is_skipped_and_handled_once_it_is_free(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_runs, "PAGE", 2)
    one, _ = await _two_keys(database)
    await _ordered(database, "events", "replay")
    async with database.connect() as other:
        await other.execute(_BUCKET.format("pg_advisory_lock"), one["bucket"])
        await step(database, 9)
        row = await _action(database)
        assert (row["status"], row["done"], row["left_out"]) == ("running", 3, 0)
        assert await _left(database) == {"one": 3}
        # The action itself holds no lock of the skipped bucket.
        assert await database.fetchval(_HELD) == 1
        await other.execute(_BUCKET.format("pg_advisory_unlock"), one["bucket"])
    # A row that failed again after its replay is not replayed twice.
    await database.execute(
        "UPDATE inboxd.events SET status = 'failed'"
        " WHERE id = (SELECT min(id) FROM inboxd.events WHERE ordering_key = 'two')"
    )
    await step(database, 3)
    row = await _action(database)
    assert (row["status"], row["done"], row["left_out"]) == ("completed", 6, 0)
    assert await _left(database) == {"two": 1}
    assert await database.fetchval("SELECT count(*) FROM inboxd.replays") == 6
    assert await database.fetchval("SELECT count FROM inboxd.audit") == 6


async def test_canary_takes_free_rows_first(database: Database) -> None:
    one, _ = await _two_keys(database, 8)
    await _ordered(database, "events", "replay", canary=True)
    async with database.connect() as other:
        await other.execute(_BUCKET.format("pg_advisory_lock"), one["bucket"])
        await step(database, 3)
        assert (await _action(database))["status"] == "canary"
        assert await _left(database) == {"one": 8}
    await step(database, 1)
    row = await _action(database)
    assert (row["status"], row["done"], len(row["canary_ids"])) == ("canary", 10, 10)


async def _dead_in(database: Database, bucket: str, error: str) -> None:
    """Make the rows of a key dead letters with this error, as after a replay that failed."""
    await database.execute(
        "UPDATE inboxd.events SET status = 'failed', updated_at = now(), fingerprint = $2,"
        " errors = jsonb_build_array(jsonb_build_object('error', $2::text))"
        " WHERE ordering_key = $1",
        bucket,
        error,
    )


@pytest.mark.parametrize("again", ["gone", "other"])
async def test_skipped_row_with_another_error_since_is_left_out(
    database: Database, again: str
) -> None:
    """While the bucket was locked, another operator replayed its rows, and all failed again."""
    one, _ = await _two_keys(database)
    for key in ("one", "two"):
        await _dead_in(database, key, "gone")
    await _ordered(database, "events", "replay", wanted=Selection(error="gone", group="gone"))
    async with database.connect() as other:
        await other.execute(_BUCKET.format("pg_advisory_lock"), one["bucket"])
        await step(database, 3)
        assert (await _action(database))["done"] == 3
        await _dead_in(database, "one", again)
        await other.execute(_BUCKET.format("pg_advisory_unlock"), one["bucket"])
    await step(database, 3)
    row = await _action(database)
    done, left = (6, 0) if again == "gone" else (3, 3)
    with safety():
        assert (row["status"], row["done"], row["left_out"]) == ("completed", done, left)
        assert await _left(database) == ({} if again == "gone" else {"one": 3})
        assert await database.fetchval("SELECT count FROM inboxd.audit") == done


async def test_row_of_a_page_with_another_error_since_is_left_out(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ids are looked up many pages ahead, also for an action at a terminal."""
    monkeypatch.setattr(bulk, "_PAGE_ROWS", 1)
    await database.execute("INSERT INTO inboxd.events (type) VALUES ('a.b'), ('a.b'), ('a.b')")
    await database.execute(
        "UPDATE inboxd.events SET status = 'failed', fingerprint = 'gone',"
        """ errors = '[{"error": "gone"}]'"""
    )
    locked = store.lock

    async def lock(session: Any, table: Any, ids: Any, uuids: Any, **more: Any) -> list[Row]:
        """Before the last page, let its row be replayed and fail again."""
        if 3 in ids:
            await database.execute("UPDATE inboxd.events SET fingerprint = 'other' WHERE id = 3")
        return await locked(session, table, ids, uuids, **more)

    monkeypatch.setattr(store, "lock", lock)

    async def act(session: Any) -> int:
        wanted, terms = Selection(group="gone"), operations.Terms(actor="me")
        return await operations.act_on_all(session, "events", "replay", wanted, terms)

    done = await operator(database, act)
    left = await database.fetch("SELECT id FROM inboxd.events WHERE status = 'failed'")
    with safety():
        assert (done, [row["id"] for row in left]) == (2, [3])


@pytest.mark.parametrize("verb", ["cancel", "reschedule"])
async def test_locked_row_is_handled_once_it_is_free_or_deleted(
    database: Database, verb: str
) -> None:
    await database.execute(
        "INSERT INTO inboxd.commands (type) SELECT 'a.b' FROM generate_series(1, 4)"
    )
    at = (
        await database.fetchval("SELECT now() + interval '1 day'") if verb == "reschedule" else None
    )
    await _ordered(database, "commands", verb, to=at)
    async with database.connect() as other:
        async with other.transaction():
            await other.execute("SELECT FROM inboxd.commands WHERE id IN (1, 2) FOR UPDATE")
            await step(database, 5)
            row = await _action(database)
            assert (row["status"], row["done"], row["left_out"]) == ("running", 2, 0)
            assert sorted(row["passed_ids"]) == [1, 2]
            await other.execute("DELETE FROM inboxd.commands WHERE id = 1")
        await step(database)
    row = await _action(database)
    assert (row["status"], row["done"], row["left_out"]) == ("completed", 3, 1)


async def test_lock_timeout_delays_an_order_and_does_not_pause_it(
    database: Database,
) -> None:
    """The lock belongs to a consequence of the action, so that the row cannot be skipped."""
    await database.execute("INSERT INTO inboxd.commands (type) VALUES ('a.b')")
    await _ordered(database, "commands", "cancel")
    await database.execute(
        "CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
        " RAISE EXCEPTION 'canceling statement due to lock timeout' USING ERRCODE = '55P03';"
        " END $$"
    )
    await database.execute(
        "CREATE TRIGGER wait BEFORE DELETE ON inboxd.commands FOR EACH ROW EXECUTE FUNCTION wait()"
    )
    await step(database, 4)
    row = await _action(database)
    assert (row["status"], row["failures"], row["done"]) == ("scheduled", 0, 0)
    assert "lock timeout" in row["note"]
    await database.execute("DROP TRIGGER wait ON inboxd.commands")
    await step(database, 2)
    row = await _action(database)
    assert (row["status"], row["done"], row["note"]) == ("completed", 1, None)
