"""Users from a real NATS, products from a real RabbitMQ: one topic, by the example's settings.

R0.42.
"""

import tomllib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from inboxd import Connection
from inboxd.store.plugin_migrations import migrate
from orders.stage.services import make_places, publish_product, publish_user
from tests.support import Database, StartWorker, eventually
from tests.support.nats import jetstream, nats_server
from tests.support.rabbitmq import PASSWORD, USER, RabbitMQServer, plain_channel
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples/orders"
# Order 2 has a foreign card; version 1 of the payload has other names.
SUSPECT_USER = {"user": 7, "from": "ATIVO", "to": "SUSPEITO"}
CLEARED_USER = {"user_id": 7, "previous": "suspect", "current": "active"}
SUSPECT_PRODUCT = {"product_id": 2, "previous": "offered", "current": "suspect"}


@pytest.fixture
async def shop(database: Database) -> AsyncIterator[Connection]:
    """A shop: order 2 is paid with a foreign card, order 3 is for another product."""
    await migrate(settings_of(database), ["orders"])
    async with database.connect() as connection:
        await connection.execute(
            """
            INSERT INTO shop.users (user_id, country) VALUES (7, 'BR');
            INSERT INTO shop.products (product_id) VALUES (1), (2);
            INSERT INTO shop.orders (order_id, user_id, product_id, amount, card_country)
                 VALUES (1, 7, 1, 90, 'BR'), (2, 7, 1, 900, 'US'), (3, 7, 2, 10, 'BR');
            """
        )
        yield connection


async def test_one_topic_takes_users_and_products_and_a_stopped_broker_delays_only_its_own(
    shop: Connection, start_worker: StartWorker, rabbitmq: RabbitMQServer
) -> None:
    with nats_server() as users:
        async with jetstream(users) as stream, plain_channel(rabbitmq) as channel:
            config = tomllib.loads((EXAMPLE / "sources.toml").read_text())
            config["brokers"]["nats"]["servers"] = [users.address]
            config["brokers"]["rabbitmq"] |= _login(rabbitmq)
            await make_places(stream, channel)
            worker = await start_worker(config)
            await publish_user(stream, SUSPECT_USER, version=1)
            await publish_product(channel, SUSPECT_PRODUCT)
            await _held(shop, [2, 3])

            rabbitmq.stop()
            await worker.logged("a source of messages is not read")
            await publish_user(stream, CLEARED_USER)
            await _held(shop, [3])
    rows = await shop.fetch(
        "SELECT source, type, schema_version FROM inboxd.events_history"
        " WHERE topic = 'fraud' ORDER BY source, id"
    )
    assert [tuple(row.values()) for row in rows] == [
        ("products", "product.status_updated", 1),
        ("users", "user.status_updated", 1),
        ("users", "user.status_updated", 2),
    ]


def _login(server: RabbitMQServer) -> dict[str, object]:
    return {"servers": [server.address], "user": USER, "password": PASSWORD}


async def _held(shop: Connection, orders: list[int]) -> None:
    """Wait until exactly these orders are held."""

    async def are_held() -> bool:
        rows = await shop.fetch("SELECT order_id FROM shop.orders WHERE state = 'held' ORDER BY 1")
        return [row["order_id"] for row in rows] == orders

    await eventually(are_held)
