"""Fixtures for tests of webhooks out."""

from collections.abc import AsyncIterator

import pytest

from tests.support.customer import Customer, serving


@pytest.fixture
async def customer() -> AsyncIterator[Customer]:
    """The server of a customer who receives webhooks."""
    async with serving() as found:
        yield found
