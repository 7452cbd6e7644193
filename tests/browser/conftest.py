"""A real browser before the screens of a school, as uvicorn serves them.

Chromium is Debian's (`apt install chromium`), driven by playwright; a test that asks for it is
skipped where it is missing.
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

# Milliseconds that an expectation waits: for broken code, as all bounds.
expect.set_options(timeout=1000 * patient())


@pytest.fixture(scope="module")
async def browser(anyio_backend: object) -> AsyncIterator[Browser]:
    """One for all tests of a module."""
    program = shutil.which("chromium")
    if program is None:
        pytest.skip("Chromium is not installed: apt install chromium")
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        running = await playwright.chromium.launch(
            executable_path=program, args=[*sandbox, "--disable-dev-shm-usage"]
        )
        yield running
        # It may never answer; playwright kills it when it ends itself.
        with move_on_after(patient(5), shield=True):
            await running.close()


@pytest.fixture(scope="module")
def school(server: Server | ExternalServer, template: Database) -> Iterator[Database]:
    """A database that the tests of a module share."""
    fresh = create(server, template.name)
    yield fresh
    drop(server, fresh)


@pytest.fixture(scope="module")
async def site(anyio_backend: object, school: Database) -> AsyncIterator[Site]:
    """Its screens."""
    await fill(school)
    async with serving(school) as site:
        yield site
    await school.end_sessions()


@pytest.fixture
async def tabs(browser: Browser, site: Site) -> AsyncIterator[Tabs]:
    """Tabs of the test's own, which hold at the end that nothing went wrong in any of them."""
    tabs = Tabs(browser, site.url)
    yield tabs
    await tabs.close()
