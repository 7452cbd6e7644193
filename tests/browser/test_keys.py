"""The screens by keyboard: links, rows, pages, help; no effect while keys are switched off."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.tabs import Tabs, barriers

pytestmark = pytest.mark.anyio


async def _focused(tab: Page) -> str:
    return str(await tab.evaluate("document.activeElement.textContent.trim()"))


async def test_the_first_stop_leads_past_the_navigation(tabs: Tabs) -> None:
    tab = await tabs.open("/")
    await tab.keyboard.press("Tab")
    assert await _focused(tab) == "Skip to the page"
    await tab.keyboard.press("Enter")
    assert await tab.evaluate("document.activeElement.id") == "page"


async def test_rows_are_walked_and_opened(tabs: Tabs) -> None:
    tab = await tabs.open("/events")
    rows = await tab.locator("main tbody tr:visible a[href]").all_inner_texts()
    await tab.keyboard.press("j")
    await tab.keyboard.press("j")
    await tab.keyboard.press("k")
    await tab.keyboard.press("j")
    second = tab.locator("main tbody tr:visible:has(a[href])").nth(1)
    first = await second.locator("a[href]").first.inner_text()
    assert await _focused(tab) == first
    assert first in rows
    await tab.keyboard.press("Enter")
    await tab.wait_for_url("**/events/*")


async def test_a_key_chooses_rows(tabs: Tabs) -> None:
    tab = await tabs.open("/commands")
    boxes = tab.locator("main tbody tr input[type=checkbox]")
    await tab.keyboard.press("x")  # no row has the focus
    assert await tab.locator("main tbody input:checked").count() == 0
    for key in "jxjx":
        await tab.keyboard.press(key)
    for place in (0, 1):
        await expect(boxes.nth(place)).to_be_checked()
    for key in "kx":
        await tab.keyboard.press(key)
    await expect(boxes.first).not_to_be_checked()
    await expect(boxes.nth(1)).to_be_checked()


async def test_two_keys_lead_to_a_page(tabs: Tabs) -> None:
    tab = await tabs.open("/")
    await tab.keyboard.press("g")
    await tab.keyboard.press("e")
    await tab.wait_for_url("**/events")
    await tab.keyboard.press("e")  # no key by itself
    assert tab.url.endswith("/events")


async def test_help_opens_and_closes(tabs: Tabs) -> None:
    tab = await tabs.open("/")
    await tab.keyboard.press("?")
    await expect(tab.get_by_role("dialog")).to_be_visible()
    assert await barriers(tab) == []
    await tab.keyboard.press("t")  # a key of the page behind the dialog
    assert await tab.locator("html").get_attribute("data-theme") == "system"
    await tab.keyboard.press("Escape")
    await expect(tab.get_by_role("dialog")).to_be_hidden()


async def test_the_theme_is_kept(tabs: Tabs) -> None:
    tab = await tabs.open("/")
    async with tab.expect_response("**/preferences?theme=dark"):
        await tab.keyboard.press("t")
    await expect(tab.locator("html")).to_have_attribute("data-theme", "dark")
    await tab.goto("/events")
    await expect(tab.locator("html")).to_have_attribute("data-theme", "dark")


async def test_a_compact_page_shows_more_rows(tabs: Tabs) -> None:
    tab = await tabs.open("/events")
    height = "document.querySelector('main > .scroll > table tbody tr').offsetHeight"
    tall = await tab.evaluate(height)
    await tab.get_by_role("button", name="Display").click()
    async with tab.expect_response("**/preferences?density=compact"):
        await tab.get_by_role("group", name="Density").get_by_label("Compact").click(force=True)
    assert await tab.evaluate(height) < tall, "without a new page"
    await tab.goto("/events")
    await expect(tab.locator("html")).to_have_attribute("data-density", "compact")
    assert await tab.evaluate(height) < tall
    assert await barriers(tab) == []


async def test_keys_that_are_off_do_nothing(tabs: Tabs) -> None:
    tab = await tabs.open("/")
    await tab.get_by_role("button", name="Display").click()
    async with tab.expect_navigation():
        await tab.get_by_role("group", name="Keys").get_by_label("Off").click(force=True)
    await tab.keyboard.press("t")
    await tab.keyboard.press("?")
    await expect(tab.locator("html")).to_have_attribute("data-theme", "system")
    await expect(tab.get_by_role("dialog")).to_be_hidden()


async def test_on_a_telephone_the_pages_are_behind_a_button(tabs: Tabs) -> None:
    tab = await tabs.open("/", width=360)
    await expect(tab.get_by_role("link", name="Events", exact=True)).to_be_hidden()
    await tab.get_by_role("button", name="Pages").press("Enter")
    await tab.get_by_role("link", name="Events", exact=True).click()
    await tab.wait_for_url("**/events")
