"""The command at the foot of a page gets what the page shows, with its filters."""

import httpx
import pytest

from tests.screens.reading import read
from tests.support import Database
from tests.support.endpoints import add

pytestmark = pytest.mark.anyio


async def test_filters_and_pages_are_options_of_the_command(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await add(database, "acme")
    for path, command in (
        ("/audit", "inboxd audit JSON"),
        (
            "/audit?actor=ana&action=pause&target=a+b&below=9&limit=50",
            "inboxd audit --actor ana --action pause --target 'a b' --after 9 --limit 50",
        ),
        ("/endpoints/acme", "inboxd endpoints show acme , inboxd endpoints deliveries acme JSON"),
        ("/endpoints/acme?status=failed", "inboxd endpoints deliveries acme --status failed"),
        ("/batches?open=1&name=a", "inboxd batches list --name a --open"),
        ("/events?topic=orders&commands=failed", "list --topic orders --commands failed"),
    ):
        assert command in (await read(screens, path)).text, path
