"""The handlers by themselves, without PostgreSQL: `pip install pytest`, then `pytest tests`."""

from unittest.mock import AsyncMock

import pytest

from inboxd import Connection
from inboxd.testing import run_event
from rewards.plugin import GOLD, handlers

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("type_", "payload", "before", "after"),
    [
        ("purchase.completed", {"user_id": 7, "amount": 100}, 0, 100),
        ("purchase.completed", {"user_id": 7, "amount": 100}, 900, 1_000),
        ("purchase.completed", {"user_id": 7, "amount": 100}, 1_000, 1_200),
        ("purchase.refunded", {"user_id": 7, "amount": 100}, 30, 0),
        ("bonus.granted", {"user_id": 7, "percent": 10}, 155, 170),
    ],
)
async def test_the_balance_is_read_and_written_back(
    type_: str, payload: dict[str, int], before: int, after: int
) -> None:
    connection = AsyncMock(spec=Connection)
    connection.fetchval.return_value = before

    result = await run_event(handlers, type_, payload, topic="rewards", connection=connection)

    assert result.error is None
    [call] = connection.execute.await_args_list
    assert call.args[1:] == (7, after)
    reached = ["gold.reached"] if before < GOLD <= after else []
    assert [event.type for event in result.events] == reached


async def test_an_event_of_a_user_without_an_account_fails() -> None:
    connection = AsyncMock(spec=Connection)
    connection.fetchval.return_value = None
    payload = {"user_id": 7, "amount": 1}

    result = await run_event(
        handlers, "purchase.completed", payload, topic="rewards", connection=connection
    )

    assert isinstance(result.error, LookupError)
    connection.execute.assert_not_awaited()
