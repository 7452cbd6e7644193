"""The size of pages after a reload of the settings, for pages of 100 rows before it."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock, MagicMock

import pytest

from inboxd.events.processing import EventProcessing

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("rows", "expected"), [(40, [40, 40]), (150, [150, 150]), (400, [200, 400])]
)
async def test_pages_reach_the_size_of_a_reload(rows: int, expected: list[int]) -> None:
    parts: Any = MagicMock()
    parts.settings.events.page_rows = 100
    processing = EventProcessing(parts, MagicMock(), MagicMock(), MagicMock())
    limits: Any = SimpleNamespace(page_rows=rows)
    processing.reload(limits)
    page: Any = SimpleNamespace(rows=range(100), end=AsyncMock(return_value=None))
    seen = []
    for _ in range(2):
        await processing._end(page)
        seen.append(processing._size.now)
    assert seen == expected
