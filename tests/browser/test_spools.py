"""The spool of this host in a browser: no accessibility barriers, narrow screens, no script."""

from collections.abc import AsyncIterator

import pytest
from playwright.async_api import expect

from tests.browser.school import fill
from tests.browser.site import Site, serving
from tests.browser.tabs import Tabs, barriers, overflow
from tests.support import Database
from tests.support.spooled import APART, GONE, HOST, host_spool

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def site(
    anyio_backend: object,
    school: Database,
    tmp_path_factory: pytest.TempPathFactory,
) -> AsyncIterator[Site]:
    """Screens on a host that has a spool."""
    await fill(school)
    async with serving(school, spool=host_spool(tmp_path_factory.mktemp("spool"))) as site:
        yield site
    await school.end_sessions()


async def test_pages_of_a_spool_fit_and_have_no_barriers(tabs: Tabs) -> None:
    for theme, width in (("light", 1440), ("dark", 360)):
        tab = await tabs.open("/spools", theme=theme, width=width)
        for path in (
            "/spools",
            f"/act/spool/drain?host={HOST}",
            f"/act/spool/insert?host={HOST}&name={APART}",
            f"/act/spool/discard?host={HOST}&name={APART}",
            f"/act/spool/discard-folder?host={HOST}&name={GONE}",
        ):
            await tab.goto(path)
            assert await barriers(tab) == [], path
            assert await overflow(tab) <= 0, path


async def test_a_receipt_set_apart_is_discarded_without_a_script(tabs: Tabs, site: Site) -> None:
    tab = await tabs.open("/spools", script=False, width=360, theme="dark")
    await tab.get_by_role("link", name="Discard it").press("Enter")
    await tab.get_by_label("To confirm, type: discard").fill("discard")
    await tab.get_by_label("Reason, for the audit").fill("it came again")
    await tab.get_by_role("button", name="Discard it").press("Enter")
    await expect(tab.locator("#told")).to_contain_text("Discarded:")
    await expect(tab.get_by_role("link", name="Discard it")).to_have_count(0)
    row = await site.database.fetch("select action, reason from inboxd.audit order by id desc")
    assert (row[0]["action"], row[0]["reason"]) == ("discard", "it came again")
