"""Preferences of a visitor: kept in cookies, set without a script, and never an open redirect."""

from datetime import timedelta

import httpx
import pytest

from inboxd.admin.screens.access import Everybody
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.formatting import path_part
from inboxd.admin.screens.pages import SCREENS
from inboxd.settings import Admin, Settings
from inboxd.store.operator_sessions import open_looks
from tests.support import Database
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio


async def test_chosen_preferences_are_kept(screens: httpx.AsyncClient) -> None:
    answer = await screens.get(
        "/preferences?theme=dark&language=pt-BR&times=local&keys=off&density=compact"
        "&back=/events%3Fstatus=failed"
    )
    assert answer.status_code == 303
    assert answer.headers["location"] == "/events?status=failed"
    page = (await screens.get("/")).text
    assert 'lang="pt-BR" data-theme="dark" data-density="compact"' in page
    assert 'data-times="local" data-keys="off"' in page
    assert "<h1>Visão geral</h1>" in page


@pytest.mark.parametrize(
    "back", ["//elsewhere.example", "/\\elsewhere.example", "https://elsewhere.example", "/a%0Ab"]
)
async def test_a_choice_never_leads_to_another_site(screens: httpx.AsyncClient, back: str) -> None:
    answer = await screens.get(f"/preferences?back={back}")
    assert answer.headers["location"] == "/"


async def test_an_invalid_choice_is_not_kept(screens: httpx.AsyncClient) -> None:
    answer = await screens.get("/preferences?theme=<script>&times=&keys=maybe&density=none")
    assert "set-cookie" not in answer.headers
    screens.cookies.set("inboxd_theme", '"><script>')
    assert 'data-theme="system"' in (await screens.get("/")).text


async def test_the_language_is_the_first_that_the_browser_asks_for(
    screens: httpx.AsyncClient,
) -> None:
    async def language(accepted: str) -> str:
        answer = await screens.get("/", headers={"accept-language": accepted})
        return answer.text.partition('lang="')[2].partition('"')[0]

    assert await language("pt,en;q=0.5") == "pt-BR"
    assert await language("fr, en-GB") == "en"
    assert await language("de") == "en"


async def test_files_are_kept_by_a_name_that_changes_with_them(screens: httpx.AsyncClient) -> None:
    page = (await screens.get("/")).text
    style = page.partition('<link rel="stylesheet" href="')[2].partition('"')[0]
    answer = await screens.get(style)
    assert "immutable" in answer.headers["cache-control"]
    older = await screens.get("/static/000000000000/screens.css")
    assert (older.text, older.headers["cache-control"]) == (answer.text, "no-cache")
    assert (await screens.get("/static/000000000000/nothing.css")).status_code == 404


def test_any_name_is_one_part_of_a_path() -> None:
    assert path_part("a/b?c#d e%") == "a%2Fb%3Fc%23d%20e%25"


async def test_an_inbox_is_marked_by_its_label(database: Database) -> None:
    settings = Settings(
        database=settings_of(database), admin=Admin(label="production <1>", colour="red")
    )
    async with open_looks(settings.database, "screens", 3, timedelta(seconds=2)) as looks:
        application = Screens(settings, looks, Everybody(), SCREENS).application()
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(application), base_url="http://screens"
        ) as client:
            page = (await client.get("/")).text
            part = (await client.get("/", headers={"x-revision": "any"})).text
            form = (await client.get("/act/pause?kind=topic&name=default")).text
    mark = '<span class="label red">production &lt;1&gt;</span>'
    assert mark in page
    for each in (page, part, form):
        assert "inboxd · production &lt;1&gt;</title>" in each, "the tab's title has the label"
    assert mark in form.partition("<main ")[2], "the page of an action has the label"
