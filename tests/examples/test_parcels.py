"""Parcels, by workers: a busy carrier books each parcel once, and the shop gets each webhook."""

import tomllib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from inboxd.store.plugin_migrations import migrate
from parcels.stage.carrier import Carrier, served
from parcels.stage.shop import is_genuine
from tests.support import Database, StartWorker, eventually
from tests.support.customer import Customer, serving
from tests.support.endpoints import SECRET, add
from tests.support.rows import settings_of
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

EXAMPLE = Path(__file__).parents[2] / "examples" / "parcels"
ORDERS = 30


@pytest.fixture
def carrier() -> Iterator[tuple[Carrier, int]]:
    found = Carrier()
    with served(found) as port:
        yield found, port


@pytest.fixture
async def shop() -> AsyncIterator[Customer]:
    async with serving() as found:
        yield found


def _config(port: int) -> dict[str, Any]:
    """The example's settings, with this carrier and quick retries."""
    config = tomllib.loads((EXAMPLE / "config.toml").read_text())
    config["targets"]["carrier"]["url"] = f"http://127.0.0.1:{port}"
    retry = {"kind": "fixed", "base": "50ms", "attempts": 100}
    config["types"]["http.request"] = {"retry": retry}
    return config


async def test_each_parcel_is_booked_once_and_its_shop_gets_one_webhook(
    database: Database, start_worker: StartWorker, carrier: tuple[Carrier, int], shop: Customer
) -> None:
    await migrate(settings_of(database), ["parcels"])
    hooks = {"url": shop.url("/hooks"), "tenant": "lamps", "events": True, "ordered": True}
    await add(database, "lamps", "parcel.*", **hooks)
    await add(database, "other", "parcel.*", url=shop.url("/other"), tenant="other", events=True)
    for _ in range(2):
        await start_worker(_config(carrier[1]))
    for order in range(ORDERS):
        address = "nowhere" if order % 10 == 9 else f"Rua das Flores {order + 1}"
        await database.execute(
            "insert into inboxd.events (type, payload, tenant) values ('order.paid', $1, 'lamps')",
            orjson.dumps({"order_id": order, "address": address}).decode(),
        )

    async def is_done() -> bool:
        # The commands that follow a booking wait while its dead letter may be replayed.
        left = "select exists (select from inboxd.commands where status in ('pending', 'running'))"
        return len(shop.at("/hooks")) >= ORDERS and not await database.fetchval(left)

    await eventually(is_done)
    states = "select state, count(*) from dispatch.parcels group by 1 order by 1"
    got = shop.at("/hooks")
    with safety():
        assert [tuple(row) for row in await database.fetch(states)] == [
            *(("booked", ORDERS - 3), ("refused", 3)),
        ]
        assert len(carrier[0].booked) == ORDERS - 3, "the carrier books repeated requests once"
        assert set(Counter(each.data["order_id"] for each in got).values()) == {1}
        assert len(got) == ORDERS
        assert shop.at("/other") == [], "another shop gets no webhook"
    assert carrier[0].asked > ORDERS, "the carrier was busy at times"
    assert all(is_genuine(SECRET, each.headers, each.body, each.at) for each in got)
