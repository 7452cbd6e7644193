"""What tests of webhooks out share."""

from collections.abc import AsyncIterator

import pytest

from tests.support.customer import Customer, serving


@pytest.fixture
async def customer() -> AsyncIterator[Customer]:
    """A customer's server."""
    async with serving() as found:
        yield found
