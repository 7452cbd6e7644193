"""Lists of names read a bounded number of rows at once, and go on after them."""

from typing import Any

import httpx
import pytest

from inboxd.admin.screens.pages import paging
from inboxd.operations import messages
from inboxd.operations import overview as status
from tests.screens.reading import document, read
from tests.screens.terminal import printed
from tests.support import Database

pytestmark = pytest.mark.anyio

NAMES = [f"name-{n:02}" for n in range(47)]
_WRITE = """
insert into inboxd.endpoints (name, url, types, secrets, enabled, disabled_at, disabled_by)
    select name, 'https://example', '{*}', '["s"]', name <> 'name-40',
           case name when 'name-40' then now() end, case name when 'name-40' then 'operator' end
      from unnest($1::text[]) name;
"""
_SCHEDULES = """
insert into inboxd.schedules (name, source, cron, zone, missed, kind, type, schema_version, lane,
    priority, payload, next_at)
    select name, 'a', '0 3 * * *', 'UTC', 'skip', 'command', 'a.do', 1, 'default', 0, '{}',
           now() + interval '1 h' from unnest($1::text[]) name
"""
_BREAKERS = """
insert into inboxd.breakers (name, mode, state, open_until, reason, uses)
    select name, 'auto', 'open', now() + interval '1 h', 'down', '{}' from unnest($1::text[]) name
"""

_TOPICS = """
insert into inboxd.topics (name, mode, rules, source, relay)
    select name, 'single', '{}', 'a', false from unnest($1::text[]) name where name <> 'name-21'
"""
_PAUSES = """
insert into inboxd.controls (kind, name, actor)
    select 'schedule', name, 'olga-k' from unnest($1::text[]) name
"""


@pytest.fixture
async def _names(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "LOOKED", 20)
    await database.execute("insert into inboxd.events (type, topic) values ('a.b', 'name-21')")
    for statement in (_WRITE, _SCHEDULES, _BREAKERS, _TOPICS):
        await database.execute(statement, NAMES)


@pytest.mark.usefixtures("_names")
async def test_a_list_of_names_is_read_in_parts(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """Each name is on one page; the command line prints all at once. A topic is known by a row."""
    for what in ("endpoints", "schedules", "breakers", "topics"):
        name = "topic" if what == "topics" else "name"
        seen, after = [], ""
        while after is not None:
            found: Any = await document(screens, f"/{what}?limit=15&after={after}")
            assert len(found[what]) <= 15
            seen += [row[name] for row in found[what]]
            after = found.get("next")
        assert seen == NAMES, what
        assert len((await printed(database, what, "list"))[what]) == len(NAMES)
        page = await read(screens, f"/{what}?limit=15&after=name-25")
        assert "15 shown of 20+" in page.text, what
        assert "name-26" in page.text


@pytest.mark.usefixtures("_names")
async def test_a_search_of_names_goes_on(screens: httpx.AsyncClient) -> None:
    """It continues also after a name that was removed meanwhile."""
    for path in (
        "/endpoints?q=me-4",
        "/endpoints?state=disabled",
        "/breakers?q=me-45",
        "/topics?q=me-41",
    ):
        page = await read(screens, path)
        pages = 1
        while "name-4" not in page.text:
            assert "Searched (20 rows): 0 found." in page.text
            (link,) = {link for link in page.links if "after=" in link}
            page = await read(screens, f"{path.partition('?')[0]}{link}")
            pages += 1
        assert pages == 3, path
    assert "name-04" in (await read(screens, "/schedules?after=name-03x")).text


@pytest.mark.usefixtures("_names")
async def test_the_overview_has_banners_of_the_first_pauses_and_breakers(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await database.execute(_PAUSES, NAMES)
    page = await read(screens, "/")
    assert "27 more are paused" in page.text
    assert "27 more breakers are not closed" in page.text
    assert page.text.count("olga-k") == 20
    found: Any = await document(screens, "/index.json")
    assert len(found["paused"]) == len(NAMES)


@pytest.mark.usefixtures("_names")
async def test_pauses_are_read_up_to_a_bound_and_those_of_a_page_always(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status, "MOST_PAUSES", 25)
    await database.execute(_PAUSES, NAMES)
    await database.execute(
        "insert into inboxd.controls (kind, name, actor) values ('topic', 'name-21', 'o')"
    )
    found: Any = await document(screens, "/index.json")
    assert (len(found["paused"]), found["paused_left_out"]) == (25, 23)
    (lane,) = found["lanes"]
    assert lane["paused"]
    assert "28 more are paused" in (await read(screens, "/")).text
    assert "olga-k" in (await read(screens, "/schedules?after=name-45")).text
    assert "Paused since" in (await read(screens, "/topics/name-21")).text
    assert len((await printed(database, "paused"))["paused"]) == len(NAMES) + 1


async def test_streams_that_are_not_shown_are_counted(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(messages, "MOST_SHOWN", 10)
    await database.execute(
        "insert into inboxd.stream_positions (source, stream, position, identity)"
        " select 'bets', name, 7, 'i' from unnest($1::text[]) name",
        NAMES,
    )
    page = await read(screens, "/sources")
    assert "10 shown of 10+" in page.text
    assert "Streams of brokers 10 · 37 more are not shown" in page.text
    found: Any = await document(screens, "/sources")
    assert (len(found["streams"]), found["streams_left_out"]) == (10, 37)
    assert "Sources of messages 39 more" in (await read(screens, "/")).text
