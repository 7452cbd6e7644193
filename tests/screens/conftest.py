"""Screens of the test's database, by requests without a socket."""

from collections.abc import AsyncIterator
from datetime import timedelta

import httpx
import pytest

from inboxd.admin.screens.access import Everybody
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.pages import SCREENS
from inboxd.settings import Settings
from inboxd.store.operator_sessions import open_looks
from tests.support import Database
from tests.support.rows import settings_of


@pytest.fixture
async def screens(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    """A client with the role admin, for all tenants."""
    settings = Settings(database=settings_of(database))
    async with open_looks(settings.database, "screens", 3, timedelta(seconds=2)) as looks:
        application = Screens(settings, looks, Everybody(), SCREENS).application()
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(application), base_url="http://screens"
        ) as client:
            yield client
