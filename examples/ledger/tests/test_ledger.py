"""The chunk handler by itself, without PostgreSQL: `pip install pytest`, then `pytest tests`."""

from datetime import UTC, datetime
from decimal import Decimal
from unittest.mock import AsyncMock

import pytest

from inboxd import Connection
from inboxd.testing import run_chunk
from ledger.plugin import handlers

pytestmark = pytest.mark.anyio

MORNING = {"created_at": datetime(2026, 6, 1, 8, 30, tzinfo=UTC)}  # 10:30 in Berlin
EVENING = {"created_at": datetime(2026, 6, 1, 18, 30, tzinfo=UTC)}
NEXT_DAY = datetime(2026, 6, 2, 9, 0, tzinfo=UTC)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def booked(amount: str, currency: str = "EUR") -> dict[str, str]:
    return {"branch": "Mitte", "currency": currency, "amount": amount}


async def test_a_day_has_a_report_for_each_currency_and_a_summary() -> None:
    connection = AsyncMock(spec=Connection)
    result = await run_chunk(
        handlers,
        "daily-report",
        [
            ("transaction.booked", booked("1200.50"), MORNING),
            ("transaction.booked", booked("-200.00"), MORNING),
            ("transaction.booked", booked("0.00"), MORNING),
            ("transaction.booked", booked("7", "USD"), EVENING),
        ],
        key="Mitte",
        now=NEXT_DAY,
        connection=connection,
    )

    assert result.error is None
    day = datetime(2026, 6, 1, tzinfo=UTC).date()
    [(_, reports)] = [call.args for call in connection.executemany.await_args_list]
    assert reports == [
        ("Mitte", day, "EUR", 2, Decimal("1200.50"), Decimal(200), Decimal("1200.50")),
        ("Mitte", day, "USD", 1, Decimal(7), Decimal(0), Decimal(7)),
    ]
    [(_, *summary)] = [call.args for call in connection.execute.await_args_list]
    assert summary[:5] == ["Mitte", day, 3, 1, 10]
    assert summary[5] == (
        "3 transactions, EUR +1,000.50, USD +7.00; most of them between 10:00 and 11:00; "
        "1 rejected."
    )
