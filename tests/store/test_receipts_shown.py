"""Receipts as operators see them, with the outcomes of their events."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

import pytest

from inboxd.store import receipts
from tests.support import Database
from tests.support.receipts import receipt, receive, received, release
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio

_SETTLED = """
with gone as (delete from inboxd.events where type = $1 returning *)
insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version, status,
        attempts, crashes, run_at, occurred_at, created_at, updated_at, finished_at)
    select id, event_id, topic, mode, type, schema_version, $2, 1, 0, run_at, occurred_at,
           created_at, updated_at, now() from gone
"""


async def became(database: Database) -> list[str | None]:
    """The outcomes of all receipts' events, the newest receipt first."""
    async with daemon_session(database) as session:
        return [row["became"] for row in await receipts.page(session)]


async def test_receipts_are_listed_newest_first_in_pages(database: Database) -> None:
    given = [receipt(source=f"s{n % 2}") for n in range(6)]
    await receive(database, *given)
    ids = [each.receipt_id for each in reversed(given)]
    async with daemon_session(database) as session:
        first = await receipts.page(session, limit=4)
        assert [row["receipt_id"] for row in first] == ids[:4]
        rest = await receipts.page(session, after=ids[3], limit=4)
        assert [row["receipt_id"] for row in rest] == ids[4:]
        of_one = await receipts.page(session, "s1", after=ids[0])
        assert [row["receipt_id"] for row in of_one] == ids[2::2]
        assert await receipts.page(session, "another") == []


async def test_receipt_is_shown_with_its_body_on_request(database: Database) -> None:
    given = receipt()
    await receive(database, given)
    async with daemon_session(database) as session:
        row = await receipts.one(session, given.receipt_id)
        assert row is not None
        assert (row["body"], row["headers"], row["has_body"]) == (None, None, True)
        assert (row["source"], row["address"], row["key_id"]) == ("psp", "192.0.2.1", "k1")
        assert (row["statuses"], row["became"]) == ({"pending": 1}, "pending")
        row = await receipts.one(session, given.receipt_id, raw=True)
        assert row is not None
        assert (row.get("body"), row.get("headers")) == (given.body, given.headers)
        assert await receipts.one(session, uuid4()) is None


@pytest.mark.parametrize(
    ("status", "word"),
    [("succeeded", "handled"), ("dismissed", "failed"), ("cancelled", "failed")],
)
async def test_outcome_of_a_receipt_is_the_outcome_of_its_events(
    database: Database, status: str, word: str
) -> None:
    await receive(database, receipt(received("first"), received("second")))
    await database.execute(_SETTLED, "first", status)
    assert await became(database) == ["pending" if word == "handled" else word]
    await database.execute(_SETTLED, "second", "succeeded")
    assert await became(database) == [word]
    await database.execute("delete from inboxd.events_history")
    assert await became(database) == [None]


async def test_a_dead_letter_of_one_topic_is_a_failure(database: Database) -> None:
    one, two = received(topic="a"), received(topic="b")
    two.event_id = one.event_id
    await receive(database, receipt(one, two))
    await database.execute("update inboxd.events set status = 'failed' where topic = 'b'")
    assert await became(database) == ["failed"]


async def test_duplicate_has_the_outcome_of_the_first_event(database: Database) -> None:
    """The same if the first event was settled long before."""
    await receive(database, receipt(received("a", dedup_key="d")))
    await database.execute(_SETTLED, "a", "succeeded")
    yesterday = datetime.now(UTC) - timedelta(days=1)
    await database.execute("update inboxd.events_history set finished_at = $1", yesterday)
    await receive(database, receipt(received("a", dedup_key="d")))
    async with daemon_session(database) as session:
        again, _ = await receipts.page(session)
    assert (again["outcome"], again["statuses"]) == ("duplicate", {"succeeded": 1})


async def test_held_receipt_is_pending_until_its_release(database: Database) -> None:
    await receive(database, receipt(hold=True))
    async with daemon_session(database) as session:
        (row,) = await receipts.page(session)
        assert (row["held"], row["statuses"], row["became"]) == (True, {"held": 1}, "pending")
        await release(database)
        (row,) = await receipts.page(session)
        assert (row["held"], row["statuses"]) == (False, {"pending": 1})
