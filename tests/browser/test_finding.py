"""A newcomer finds out in three clicks why an e-mail is not sent."""

import re

import pytest
from playwright.async_api import Page, expect

from tests.browser.site import Site
from tests.browser.tabs import Tabs

pytestmark = pytest.mark.anyio

_MOST = 3
# The command's breaker is open, or an operator has paused its queue.
_WHY = re.compile("breaker|paused", re.IGNORECASE)
_PENDING = "select {} from inboxd.commands where type = 'school.send_email' and status = 'pending'"
_ROW = "main tbody tr:has-text('pending') a[href^='/commands/']"
_GRADES = _ROW.replace("tr:", "tr:has-text('Grade answer'):")


async def _ask(tabs: Tabs, text: str) -> Page:
    """Search by the field that each page has."""
    tab = await tabs.open("/")
    field = tab.locator("#find")
    await field.fill(text)
    await field.press("Enter")
    await tab.wait_for_load_state()
    return tab


@pytest.mark.parametrize("column", ["id", "command_id::text"])
async def test_a_number_or_uuid_leads_to_the_cause_at_once(
    site: Site, tabs: Tabs, column: str
) -> None:
    found = await site.database.fetchval(_PENDING.format(column) + " order by id desc limit 1")
    tab = await _ask(tabs, f"command {found}" if column == "id" else found)
    await expect(tab.locator("#why")).to_contain_text(_WHY)


@pytest.mark.parametrize(
    ("asked", "clicks"),
    [
        ("school.send_email", ["main nav >> text=Pending", _ROW]),
        ("malta", ["main a[href='/commands?tenant=malta']", _GRADES]),
        ("email", ["main .tile a[href*='status=pending'][href*='queue=email']", _ROW]),
    ],
)
async def test_a_type_tenant_or_queue_leads_to_the_cause_in_a_few_clicks(
    tabs: Tabs, asked: str, clicks: list[str]
) -> None:
    tab = await _ask(tabs, asked)
    assert len(clicks) <= _MOST
    for link in clicks:
        await tab.locator(link).first.click()
    await tab.wait_for_url("**/commands/*")
    await expect(tab.locator("#why")).to_contain_text(_WHY)
    assert (await tab.locator("#why b").inner_text()).endswith(".")
    # The reason links to the page of the paused queue or open breaker.
    await tab.locator("#why a").first.click()
    await expect(tab.get_by_role("heading", level=1)).to_be_visible()
