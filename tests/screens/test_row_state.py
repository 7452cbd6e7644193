"""The page of a row shows its state among those that such a row can have, and what can follow."""

import httpx
import pytest

from inboxd import operations
from inboxd.store.operator_sessions import open_session
from tests.screens.reading import read
from tests.support import Database
from tests.support.rows import emit, send, settings_of

pytestmark = pytest.mark.anyio


async def test_a_row_is_shown_among_the_states_of_its_kind(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await send(database, 1)
    await emit(database, 1)
    command, event = await read(screens, "/commands/1"), await read(screens, "/events/1")
    for page in (command, event):
        assert page.text.count("pending now here") == 1
        assert "an operator cancels it, or it is not needed any more" in page.text
    assert "running a worker starts it" in command.text
    assert "succeeded its handler succeeds" in event.text
    assert "a worker starts it" not in event.text


async def test_a_command_with_an_ordering_key_waits_in_its_line(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await database.execute("insert into inboxd.commands (type, ordering_key) values ('a.b', 'k')")
    page = await read(screens, "/commands/1")
    assert "waiting now here" in page.text
    assert "running a worker starts it" in page.text


async def test_nothing_follows_the_end_of_a_row(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await send(database, 1)
    async with open_session(settings_of(database)) as session:
        await operations.act(session, "commands", "cancel", [1], actor="ada")
    page = await read(screens, "/commands/1")
    assert "cancelled now here" in page.text
    assert "This is its end: nothing follows." in page.text
