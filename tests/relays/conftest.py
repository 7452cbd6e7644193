"""A broker of the test's own."""

from collections.abc import AsyncIterator

import pytest

from tests.support.line_broker import LineBroker, line_broker


@pytest.fixture
async def broker() -> AsyncIterator[LineBroker]:
    """A broker that confirms what comes."""
    async with line_broker() as started:
        yield started
