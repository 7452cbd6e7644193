"""Stock goes down once: every event is delivered twice, and the log shows the second delivery."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from inboxd import Connection
from inboxd.client import Inbox, NewEvent
from inboxd.store.plugin_migrations import migrate
from tests.support import Database, StartWorker
from tests.support.counted import counted
from tests.support.rows import settings_of
from tests.support.waiting import eventually

pytestmark = pytest.mark.anyio

ORDERS = [{"order_id": f"order-{n}", "article": "lamp", "pieces": n % 3 + 1} for n in range(60)]
PIECES = sum(int(str(order["pieces"])) for order in ORDERS)


@pytest.fixture
async def warehouse(database: Database) -> AsyncIterator[Connection]:
    """A connection to a warehouse with 1,000 lamps."""
    await migrate(settings_of(database), ["inventory"])
    async with database.connect() as connection:
        await connection.execute(
            "INSERT INTO warehouse.stock VALUES ('lamp', 1000);"
            "INSERT INTO warehouse.careless_stock VALUES ('lamp', 1000)"
        )
        yield connection


async def test_every_event_is_delivered_twice_and_counts_once(
    warehouse: Connection, start_worker: StartWorker
) -> None:
    worker = await start_worker(
        {
            "worker": {"plugins": ["inventory"]},
            "maintenance": {"interval": "200ms"},
            "log": {"level": "debug"},
        }
    )
    # The bus gives each delivery an id of its own; the second one comes another way than the first.
    for order in ORDERS[:30]:
        await warehouse.execute(
            "INSERT INTO inboxd.events (type, payload) VALUES ('order.created', $1)",
            orjson.dumps(order).decode(),
        )
    drafts = [NewEvent("order.created", order) for order in ORDERS]
    first = await Inbox().emit_many(warehouse, drafts[30:])
    await Inbox().emit_many(warehouse, drafts)
    assert not any(receipt.conflict for receipt in first)

    async def is_settled() -> bool:
        waiting = (
            "SELECT EXISTS (SELECT FROM inboxd.events) OR EXISTS (SELECT FROM inboxd.duplicates)"
        )
        return not await warehouse.fetchval(waiting)

    await eventually(is_settled)
    taken = "SELECT 1000 - pieces FROM warehouse."
    assert await warehouse.fetchval(f"{taken}stock") == PIECES
    assert await warehouse.fetchval(f"{taken}careless_stock") == 2 * PIECES

    async def duplicates() -> list[dict[str, Any]]:
        """The duplicates in the log, which is written after they are deleted from their table."""
        logged = [orjson.loads(line) for line in worker.output().splitlines()]
        found = [line for line in logged if line["message"] == "duplicate"]
        return found if len(found) >= len(ORDERS) else []

    lines = await eventually(duplicates)
    assert {line["topic"] for line in lines} == {"stock"}
    # The log at its usual level has the first duplicates; of many, the rest is summed up.
    assert {line["level"] for line in lines[:10]} == {"info"}
    assert sorted(line["key"] for line in lines) == sorted(str(o["order_id"]) for o in ORDERS)
    assert await worker.metric('inboxd_duplicates_total{topic="stock"}') == 60

    async def is_counted() -> bool:
        found = await counted(warehouse, "lane, outcome", "outcome = 'duplicate'")
        return found == {("stock", "duplicate"): 60}

    await eventually(is_counted)
