"""Empty pages, refused pages and pages at 200 percent have no accessibility barriers.

*See:* `test_pages.py`, for pages with rows.
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
# Filters and searches that match no row.
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


async def _is_accessible(tab: Page, address: str) -> None:
    assert await barriers(tab) == [], address
    assert await overflow(tab) <= 0, address


async def _refused(tabs: Tabs, tab: Page, address: str, status: int) -> None:
    """The page gives the reason; only the status is an error on the browser's console."""
    answer = await tab.goto(address)
    assert answer is not None
    assert answer.status == status, address
    assert await tab.locator("main h1").count() == 1, address
    await _is_accessible(tab, address)
    tabs.wrong[:] = [each for each in tabs.wrong if f"status of {status}" not in each]


@pytest.mark.parametrize(("theme", "width"), LOOKS)
async def test_an_empty_inbox_has_no_barriers(
    browser: Browser, database: Database, theme: str, width: int
) -> None:
    async with serving(database) as site, _tabs(browser, site.url) as tabs:
        tab = await tabs.open("/", theme=theme, width=width)
        for address in PAGES:
            await tab.goto(address)
            await _is_accessible(tab, address)


@pytest.mark.parametrize(("theme", "width"), LOOKS)
async def test_a_search_without_hits_has_no_barriers(tabs: Tabs, theme: str, width: int) -> None:
    tab = await tabs.open("/", theme=theme, width=width)
    for address in NOTHING:
        await tab.goto(address)
        await _is_accessible(tab, address)


@pytest.mark.parametrize(("theme", "width"), LOOKS)
async def test_a_refusal_has_no_barriers(tabs: Tabs, theme: str, width: int) -> None:
    tab = await tabs.open("/", theme=theme, width=width)
    for address, status in REFUSED:
        await _refused(tabs, tab, address, status)


async def test_sign_in_and_refusals_by_role_have_no_barriers(
    browser: Browser, database: Database
) -> None:
    """The form, the form after a wrong password, and the refusals of a role that is too low."""
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
            await _is_accessible(tab, f"password {password}")
        tabs.wrong.clear()  # the browser's own errors about refused requests
        await _refused(tabs, tab, f"/commands/{command}?payload=1", 403)
        await _refused(tabs, tab, f"/act/commands/cancel?id={command}", 403)


async def test_pages_without_a_database_have_no_barriers(
    server: Server | ExternalServer, browser: Browser, database: Database
) -> None:
    """An open page keeps its content with a banner; an opened page says that it cannot be read."""
    async with serving(database) as site, _tabs(browser, site.url) as tabs:
        tab = await tabs.open("/", width=360)
        async with away(server, database):
            await expect(tab.locator("#trouble")).to_be_visible()
            await _is_accessible(tab, "/")
            await _refused(tabs, tab, "/events", 503)
            tabs.wrong.clear()


@pytest.fixture(scope="module")
async def pages(site: Site) -> Crawl:
    return await crawl(site)


async def test_each_page_fits_at_200_percent(pages: Crawl, tabs: Tabs) -> None:
    """WCAG 1.4.4 asks for a window of 1280 pixels."""
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
async def test_each_page_is_accessible_at_200_percent(pages: Crawl, tabs: Tabs, theme: str) -> None:
    tab = await tabs.open("/", width=1280, theme=theme, zoom=2)
    for address in (each for some in pages.addresses.values() for each in some):
        await tab.goto(address)
        await _is_accessible(tab, address)
