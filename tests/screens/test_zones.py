"""A time without a zone on the screens is UTC, in any zone of their process; fields say so."""

import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.screens.confirming import act, ask, confirm
from tests.screens.reading import Read, document, read
from tests.screens.visiting import sign_in, user, visiting
from tests.support import Database
from tests.support.rows import send

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the screens' process run in New York."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.fixture
async def ada(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        visiting(database, users=[user("ada", "admin")]) as site,
        site.client() as client,
    ):
        await sign_in(client, "ada")
        yield client


async def _two(database: Database) -> list[int]:
    """Write two commands, created at 07:30 and 08:30 UTC."""
    ids = await send(database, 2)
    for id_, at in zip(ids, ("07:30", "08:30"), strict=True):
        await database.execute(
            "update inboxd.commands set created_at = $1::text::timestamptz where id = $2",
            *(f"2026-01-31T{at}Z", id_),
        )
    return ids


async def test_filters_read_times_in_utc_and_the_command_line_names_the_zone(
    database: Database, screens: httpx.AsyncClient
) -> None:
    first, second = await _two(database)
    for query, expected in (
        ("since=2026-01-31T08:00", [second]),
        ("until=2026-01-31T08:00", [first]),
        ("since=2026-01-31T03:00-05:00", [second]),
        ("since=2026-01-31", [second, first]),
    ):
        found: Any = await document(screens, f"/commands?{query}")
        assert [row["id"] for row in found["commands"]] == expected, query
    page = await read(screens, "/commands?since=2026-01-31T08:00&until=2h")
    assert "Created since" in page.text
    assert "Created until" in page.text
    assert page.attributes.count(("input", "title", "UTC without a zone")) == 2
    assert "list --since 2026-01-31T08:00:00+00:00 --until 2h" in page.text
    batches = await read(screens, "/batches?since=2026-01-31T08:00")
    assert "Created since" in batches.text
    assert ("input", "title", "UTC without a zone") in batches.attributes
    assert "inboxd batches list --since 2026-01-31T08:00:00+00:00" in batches.text
    workflows = await read(screens, "/workflows?until=2026-01-31T08:00&limit=20")
    told = "inboxd workflows list --until 2026-01-31T08:00:00+00:00 --limit 20"
    assert told in workflows.text


async def test_actions_read_times_in_utc_and_say_so_beside_the_field(
    database: Database, ada: httpx.AsyncClient
) -> None:
    first, second = await _two(database)
    told = await act(ada, f"/act/commands/reschedule?id={first}", at="2100-01-01T08:00")
    assert told == "Rescheduled to 2100-01-01 08:00:00 UTC: 1."
    asked = await ask(ada, f"/act/commands/edit?id={second}")
    assert "A time without a zone is UTC." in asked.text
    shown = await confirm(ada, asked, at="2100-01-02T08:00")
    assert "2100-01-02 08:00:00 UTC" in Read(shown.text).text
    asked = await ask(ada, "/act/commands/reschedule-all?until=2026-01-31T08:00")
    assert "1 commands" in asked.text
    assert "A time without a zone is UTC." in asked.text
    assert "--until 2026-01-31T08:00:00+00:00" in asked.text
    assert (await confirm(ada, asked, at="2100-01-03T08:00", delay="0s")).status_code == 303
    order = (await ada.get("/actions/1.json")).json()
    assert order["to"].startswith("2100-01-03T08:00:00")
    assert order["selection"]["until"].startswith("2026-01-31T08:00:00")
