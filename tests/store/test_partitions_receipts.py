"""Receipts are dropped by days, as history is; receipts of unsettled events are kept."""

from uuid import UUID

import pytest

from inboxd.errors import Conflict
from inboxd.maintenance.partitions import manual
from inboxd.store import receipts
from tests.store.retained import MONTH, let_go, told
from tests.support import Database
from tests.support.history import day, make_day
from tests.support.receipts import receive, received, received_ago
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio


async def days_of(database: Database) -> set[str]:
    """The partitions of receipts whose days are over."""
    rows = await database.fetch(
        "select part from inboxd.every_partition"
        " where parent = 'receipts' and high < now() - interval '1 day'"
    )
    return {row[0] for row in rows}


async def kept(database: Database) -> set[UUID]:
    return {row[0] for row in await database.fetch("select receipt_id from inboxd.kept_receipts")}


async def test_day_of_receipts_is_dropped_as_a_whole(database: Database) -> None:
    for days in (30, 31, 32):
        await make_day(database, days, "receipts")
        await receive(database, received_ago(days))
    await database.execute("delete from inboxd.events")
    metrics = await let_go(database, {**MONTH, "export": "/nowhere"})
    assert await days_of(database) == {f"receipts{day(30)}"}
    assert told(metrics, "inboxd_partitions_dropped_total", "receipts") == 2
    assert await kept(database) == set()
    await let_go(database, {**MONTH, "receipts": "forever"})
    assert await days_of(database) == {f"receipts{day(30)}"}


async def test_unsettled_event_keeps_its_receipt(database: Database) -> None:
    """The receipts of a dead letter and of held events are kept until these are settled."""
    await make_day(database, 40, "receipts")
    page = [received_ago(40, received(type_)) for type_ in ("settled", "waits", "dead")]
    held = received_ago(40)
    held.source, held.hold = "held", True
    await receive(database, *page, held)
    await database.execute("delete from inboxd.events where type = 'settled'")
    await database.execute("update inboxd.events set status = 'failed' where type = 'dead'")
    await let_go(database)
    assert await days_of(database) == set()
    needed = [*page[1:], held]
    assert await kept(database) == {each.receipt_id for each in needed}
    async with daemon_session(database) as session:
        for each in needed:
            row = await receipts.one(session, each.receipt_id, raw=True)
            assert row is not None
            assert (row.get("body"), row["became"] != "handled") == (each.body, True)
        assert await receipts.one(session, page[0].receipt_id) is None
    await database.execute("delete from inboxd.events where type = 'waits'")
    await make_day(database, 41, "receipts")
    await let_go(database)
    assert await kept(database) == {each.receipt_id for each in needed[1:]}


async def test_receipts_are_dropped_by_hand_and_not_exported(database: Database) -> None:
    await make_day(database, 5, "receipts")
    part = f"receipts{day(5)}"
    async with daemon_session(database) as session:
        with pytest.raises(Conflict, match="only history is exported"):
            await manual.chosen(session, [part], to_drop=False)
        (found,) = await manual.chosen(session, [part], to_drop=True)
        assert await manual.drop(session, found, None, actor="me")
    assert await days_of(database) == set()


async def test_the_older_codes_view_shows_no_receipts(database: Database) -> None:
    """The older code cannot handle partitions of receipts."""
    parents = await database.fetch("select distinct parent from inboxd.partitions")
    assert {row[0] for row in parents} == {"bodies", "events_history", "commands_history"}
