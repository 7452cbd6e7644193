"""Fixtures: Chromium, and the screens of a school, served by uvicorn.

Playwright drives Debian's Chromium (`apt install chromium`); without it the tests are skipped.
"""

import os
import shutil
from collections.abc import AsyncIterator, Iterator

import pytest
from anyio import move_on_after
from playwright.async_api import Browser, async_playwright, expect

from inboxd.embedded import Server
from tests.browser.school import fill
from tests.browser.site import Site, serving
from tests.browser.tabs import Tabs
from tests.support import Database, ExternalServer, create, drop
from tests.support.waiting import patient

# Milliseconds that an expectation waits before it fails.
expect.set_options(timeout=1000 * patient())


@pytest.fixture(scope="module")
async def browser(anyio_backend: object) -> AsyncIterator[Browser]:
    """Chromium, for all tests of a module."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(
            executable_path=program, args=[*sandbox, "--disable-dev-shm-usage"]
        )
        yield running
        # Chromium may never answer; playwright kills it at its own end.
        with move_on_after(patient(5), shield=True):
            await running.close()


@pytest.fixture(scope="module")
def school(server: Server | ExternalServer, template: Database) -> Iterator[Database]:
    """The database of a module."""
    fresh = create(server, template.name)
    yield fresh
    drop(server, fresh)


@pytest.fixture(scope="module")
async def site(anyio_backend: object, school: Database) -> AsyncIterator[Site]:
    """Screens of a school, for all tests of a module."""
    await fill(school)
    async with serving(school) as site:
        yield site
    await school.end_sessions()


@pytest.fixture
async def tabs(browser: Browser, site: Site) -> AsyncIterator[Tabs]:
    """Tabs of one test, which fails if an error happened in one of them."""
    tabs = Tabs(browser, site.url)
    yield tabs
    await tabs.close()
