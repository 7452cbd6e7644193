"""The handlers by themselves, without PostgreSQL: `pip install pytest`, then `pytest tests`."""

from unittest.mock import AsyncMock

import pytest

from inboxd import Connection
from inboxd.testing import run_command, run_event
from orders.plugin import handlers

pytestmark = pytest.mark.anyio

USER = {"user_id": 7, "previous": "active", "current": "suspect"}
PRODUCT = {"product_id": 3, "previous": "suspect", "current": "offered"}
ORDER = {
    "state": "active",
    "card_country": "US",
    "country": "BR",
    "product_id": 3,
    "user_suspect": True,
    "product_suspect": False,
}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def connection() -> AsyncMock:
    """A connection without answers: each test sets those that it needs."""
    return AsyncMock(spec=Connection)


@pytest.mark.parametrize(
    ("type_", "payload"),
    [
        ("user.status_updated", USER),
        ("user.status_updated", {**USER, "previous": "suspect", "current": "active"}),
        ("product.status_updated", PRODUCT),
    ],
)
async def test_a_change_to_or_from_suspect_reviews_each_order(
    connection: AsyncMock, type_: str, payload: dict[str, object]
) -> None:
    connection.fetch.return_value = [{"order_id": 1}, {"order_id": 2}]

    result = await run_event(handlers, type_, payload, topic="fraud", connection=connection)

    assert result.error is None
    [reviews] = result.batches
    assert [sent.payload for sent in reviews.commands] == [{"order_id": 1}, {"order_id": 2}]
    assert [sent.type for sent in reviews.then] == ["orders.close_review"]


async def test_other_changes_review_nothing(connection: AsyncMock) -> None:
    payload = {**USER, "current": "closed"}
    result = await run_event(
        handlers, "user.status_updated", payload, topic="fraud", connection=connection
    )

    assert result.error is None
    assert not result.batches


@pytest.mark.parametrize(
    ("found", "state", "reason"),
    [
        (ORDER, "held", "card from US, user from BR"),
        ({**ORDER, "card_country": "BR"}, "active", None),
        ({**ORDER, "product_suspect": True, "card_country": "BR"}, "held", "product 3 is suspect"),
        ({**ORDER, "state": "held", "user_suspect": False}, "active", None),
    ],
)
async def test_an_order_is_held_while_there_is_a_reason(
    connection: AsyncMock, found: dict[str, object], state: str, reason: str | None
) -> None:
    connection.fetchrow.return_value = found

    result = await run_command(
        handlers, "orders.review_order", {"order_id": 1}, connection=connection
    )

    assert result.error is None
    [call] = connection.execute.await_args_list
    assert call.args[1:] == (1, state, reason)
    emitted = [event.payload for event in result.events]
    changed = {"order_id": 1, "state": state, "reason": reason}
    assert emitted == ([] if state == found["state"] else [changed])


async def test_an_order_that_is_not_open_stays_as_it_is(connection: AsyncMock) -> None:
    connection.fetchrow.return_value = None

    result = await run_command(
        handlers, "orders.review_order", {"order_id": 1}, connection=connection
    )

    assert result.error is None
    connection.execute.assert_not_awaited()
