"""The handlers by themselves, without PostgreSQL: `pip install pytest`, then `pytest tests`."""

from unittest.mock import AsyncMock

import pytest

from inboxd import Connection
from inboxd.testing import run_event
from inventory.plugin import handlers

pytestmark = pytest.mark.anyio

ORDER = {"order_id": "7", "article": "lamp", "pieces": 3}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(("topic", "table"), [("stock", "stock"), ("careless", "careless_stock")])
async def test_an_order_takes_its_pieces_from_the_topics_table(topic: str, table: str) -> None:
    connection = AsyncMock(spec=Connection)

    result = await run_event(handlers, "order.created", ORDER, topic=topic, connection=connection)

    assert result.error is None
    connection.execute.assert_awaited_once_with(
        f"UPDATE warehouse.{table} SET pieces = pieces - $2 WHERE article = $1", "lamp", 3
    )


async def test_an_order_without_pieces_names_the_field() -> None:
    wrong = {"order_id": "7", "article": "lamp"}
    result = await run_event(handlers, "order.created", wrong, topic="stock")

    assert "pieces" in str(result.error)
