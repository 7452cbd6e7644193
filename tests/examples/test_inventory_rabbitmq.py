"""Orders that a real RabbitMQ delivers twice, by the example's own settings: the stock is exact.

R1.12, R1.13.
"""

import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from aio_pika.abc import AbstractChannel

from inboxd import Connection
from inboxd.store.plugin_migrations import migrate
from inventory.stage import bus
from tests.messages.consuming import being_stored, slow_commit
from tests.support import Config, Database, StartWorker, eventually
from tests.support.counted import counted
from tests.support.rabbitmq import PASSWORD, USER, RabbitMQServer, plain_channel
from tests.support.rows import settings_of
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples/inventory"
ORDERS = [{"order_id": f"order-{n}", "article": "lamp", "pieces": n % 3 + 1} for n in range(60)]
PIECES = sum(int(str(order["pieces"])) for order in ORDERS)


@pytest.fixture
async def channel(rabbitmq: RabbitMQServer) -> AsyncIterator[AbstractChannel]:
    """The bus's channel; the queue does not exist yet."""
    async with plain_channel(rabbitmq) as opened:
        await opened.queue_delete(bus.QUEUE)
        yield opened


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


async def test_every_message_is_delivered_twice_and_counts_once(
    warehouse: Connection,
    start_worker: StartWorker,
    rabbitmq: RabbitMQServer,
    channel: AbstractChannel,
) -> None:
    await bus.deliver(channel, ORDERS[:20])  # before a worker runs
    worker = await start_worker(_config(rabbitmq))
    await bus.deliver(channel, ORDERS[20:])
    # Each topic has handled its deliveries, and none is left.
    await _settled(warehouse, careless=2 * len(ORDERS))
    with safety():
        assert await _taken(warehouse, "stock") == PIECES
        assert await _taken(warehouse, "careless_stock") == 2 * PIECES

    async def duplicates() -> list[tuple[str, str, str]]:
        """The duplicates in the log, which is written after they are deleted from their table."""
        logged = [orjson.loads(line) for line in worker.output().splitlines()]
        found = [line for line in logged if line["message"] == "duplicate"]
        lines = [(line["topic"], line["source"], line["key"]) for line in found]
        return lines if len(lines) >= len(ORDERS) else []

    assert sorted(await eventually(duplicates)) == sorted(
        ("stock", "orders", str(order["order_id"])) for order in ORDERS
    )
    assert await worker.metric('inboxd_duplicates_total{topic="stock"}') == len(ORDERS)


async def test_deliveries_stored_but_not_acknowledged_at_a_workers_death_count_once(
    database: Database,
    warehouse: Connection,
    start_worker: StartWorker,
    rabbitmq: RabbitMQServer,
    channel: AbstractChannel,
) -> None:
    worker = await start_worker(_config(rabbitmq))
    await bus.deliver(channel, ORDERS[:1])
    await _settled(warehouse, careless=2)
    async with slow_commit(database):
        await bus.deliver(channel, ORDERS[1:])
        await being_stored(database)
        worker.kill()
    again = await _stored(warehouse)
    await start_worker(_config(rabbitmq))
    await _settled(warehouse, careless=2 * len(ORDERS) + again)
    outcomes = await counted(warehouse, "outcome", "lane = 'stock'")
    with safety():
        assert await _taken(warehouse, "stock") == PIECES
        assert outcomes["duplicate",] == len(ORDERS) + again


def _config(server: RabbitMQServer) -> Config:
    """The example's settings, with this broker; duplicates are logged at once."""
    config = tomllib.loads((EXAMPLE / "rabbitmq.toml").read_text())
    config["brokers"]["bus"] |= {"servers": [server.address], "user": USER, "password": PASSWORD}
    return {**config, "maintenance": {"interval": "200ms"}, "log": {"level": "debug"}}


async def _stored(warehouse: Connection) -> int:
    """The deliveries that the dead worker had stored: the server commits what it received."""

    async def are_stored() -> int:
        waiting = "SELECT count(*) FROM inboxd.events WHERE topic = 'careless'"
        return int(await warehouse.fetchval(waiting))

    return await eventually(are_stored)


async def _settled(warehouse: Connection, careless: int) -> None:
    """Wait until the careless topic has handled this many events, and none is left."""

    async def are_settled() -> bool:
        handled = "SELECT count(*) FROM inboxd.events_history WHERE topic = 'careless'"
        waiting = (
            "SELECT EXISTS (SELECT FROM inboxd.events) OR EXISTS (SELECT FROM inboxd.duplicates)"
        )
        if await warehouse.fetchval(handled) < careless:
            return False
        return not await warehouse.fetchval(waiting)

    await eventually(are_settled)


async def _taken(warehouse: Connection, table: str) -> int:
    return int(await warehouse.fetchval(f"SELECT 1000 - pieces FROM warehouse.{table}"))
