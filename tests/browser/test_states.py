"""Pages with nothing to show, pages that are refused, and pages twice as large: for everybody.

Pages with rows are in `test_pages.py`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import Browser, Page, expect

from inboxd.admin.screens.navigation import GROUPS
from inboxd.embedded import Server
from tests.browser.site import Crawl, Site, away, crawl, listening, serving
from tests.browser.tabs import Tabs, barriers, overflow
from tests.screens.visiting import PASSWORD, user, visiting
from tests.support import Database, ExternalServer
from tests.support.rows import send

pytestmark = pytest.mark.anyio

PAGES = [link.path for _, group in GROUPS for link in group]
# Where something is looked for that is not there.
NOTHING = [
    *("/events?type=none", "/commands?error=none", "/events?by=failed&type=none", "/find?q=none"),
    *("/failures?q=none", "/failures?archived=1", "/audit?actor=nobody", "/batches?tenant=none"),
    *("/statement?source=none", "/endpoints?state=disabled"),
]
REFUSED = [
    ("/nowhere", 404),
    ("/events/999999999", 404),
    ("/types/command/none", 404),
    ("/queues/none", 404),
    ("/events?status=none", 400),
    ("/events?since=never", 400),
    ("/commands?payload=%7B", 400),
    ("/statement?day=never", 400),
    ("/act/commands/cancel?id=999999999", 404),
]
LOOKS = [("light", 360), ("dark", 1440)]


@asynccontextmanager
async def _tabs(browser: Browser, url: str) -> AsyncIterator[Tabs]:
    tabs = Tabs(browser, url)
    yield tabs
    await tabs.close()


async def _is_for_everybody(tab: Page, address: str) -> None:
    assert await barriers(tab) == [], address
    assert await overflow(tab) <= 0, address


async def _refused(tabs: Tabs, tab: Page, address: str, status: int) -> None:
    """The page says why; the browser says on its console that it got no 200."""
    answer = await tab.goto(address)
    assert answer is not None
    assert answer.status == status, address
    assert await tab.locator("main h1").count() == 1, address
    await _is_for_everybody(tab, address)
    tabs.wrong[:] = [each for each in tabs.wrong if f"status of {status}" not in each]


@pytest.mark.parametrize(("theme", "width"), LOOKS)
async def test_an_inbox_in_which_nothing_is(
    browser: Browser, database: Database, theme: str, width: int
) -> None:
    async with serving(database) as site, _tabs(browser, site.url) as tabs:
        tab = await tabs.open("/", theme=theme, width=width)
        for address in PAGES:
            await tab.goto(address)
            await _is_for_everybody(tab, address)


@pytest.mark.parametrize(("theme", "width"), LOOKS)
async def test_a_search_that_finds_nothing(tabs: Tabs, theme: str, width: int) -> None:
    tab = await tabs.open("/", theme=theme, width=width)
    for address in NOTHING:
        await tab.goto(address)
        await _is_for_everybody(tab, address)


@pytest.mark.parametrize(("theme", "width"), LOOKS)
async def test_a_page_that_is_refused(tabs: Tabs, theme: str, width: int) -> None:
    tab = await tabs.open("/", theme=theme, width=width)
    for address, status in REFUSED:
        await _refused(tabs, tab, address, status)


async def test_whoever_may_not(browser: Browser, database: Database) -> None:
    """Before the sign-in, with a wrong password, and with a role that is not enough."""
    [command] = await send(database, 1)
    async with (
        visiting(database, users=[user("eve")]) as visited,
        listening(visited.site) as url,
        _tabs(browser, url) as tabs,
    ):
        tab = await tabs.open("/", width=360)
        for password in (None, "wrong", PASSWORD):
            if password is not None:
                await tab.get_by_label("Name").fill("eve")
                await tab.get_by_label("Password").fill(password)
                await tab.locator("main form button").click()
            await expect(tab.locator("main h1")).to_be_visible()
            await _is_for_everybody(tab, f"password {password}")
        tabs.wrong.clear()  # the browser's own words on what was refused
        await _refused(tabs, tab, f"/commands/{command}?payload=1", 403)
        await _refused(tabs, tab, f"/act/commands/cancel?id={command}", 403)


async def test_the_database_is_away(
    server: Server | ExternalServer, browser: Browser, database: Database
) -> None:
    """What is kept is shown with a banner, and what was never read is a page that says so."""
    async with serving(database) as site, _tabs(browser, site.url) as tabs:
        tab = await tabs.open("/", width=360)
        async with away(server, database):
            await expect(tab.locator("#trouble")).to_be_visible()
            await _is_for_everybody(tab, "/")
            await _refused(tabs, tab, "/events", 503)
            tabs.wrong.clear()


@pytest.fixture(scope="module")
async def pages(site: Site) -> Crawl:
    return await crawl(site)


async def test_each_page_fits_at_200_percent(pages: Crawl, tabs: Tabs) -> None:
    """A window of 1280 pixels, as WCAG 1.4.4 has it."""
    tab = await tabs.open("/", width=1280, zoom=2)
    assert await tab.evaluate("[innerWidth, devicePixelRatio]") == [640, 2]
    assert await barriers(tab) == []
    for address, *_ in pages.addresses.values():
        await tab.goto(address)
        assert await overflow(tab) <= 0, address
    for address, status in REFUSED[:2]:
        await _refused(tabs, tab, address, status)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_each_page_is_for_everybody_at_200_percent(
    pages: Crawl, tabs: Tabs, theme: str
) -> None:
    tab = await tabs.open("/", width=1280, theme=theme, zoom=2)
    for address in (each for some in pages.addresses.values() for each in some):
        await tab.goto(address)
        await _is_for_everybody(tab, address)
