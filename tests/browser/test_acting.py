"""Actions in a browser: by keyboard, without a script, and without accessibility barriers."""

import pytest
from playwright.async_api import Page, expect

from tests.browser.site import Site
from tests.browser.tabs import Tabs, barriers
from tests.support.rows import send

pytestmark = pytest.mark.anyio


async def _dead(site: Site, count: int) -> list[int]:
    ids = await send(site.database, count, "school.send_email", note="told")
    await site.database.execute(
        "update inboxd.commands set status = 'failed', errors = '[{\"error\": \"gone\"}]'"
        " where id = any($1)",
        ids,
    )
    return ids


async def _tab_to(tab: Page, name: str) -> None:
    """Press Tab until the element with this name has the focus."""
    for _ in range(80):
        await tab.keyboard.press("Tab")
        focused = tab.locator(":focus")
        if name in (
            (await focused.inner_text()).strip(),
            await focused.get_attribute("name"),
            await focused.get_attribute("aria-label"),
        ):
            return
    pytest.fail(f"{name} is not reached")


async def test_a_row_is_replayed_by_keyboard_without_a_script(tabs: Tabs, site: Site) -> None:
    [dead] = await _dead(site, 1)
    tab = await tabs.open(f"/commands/{dead}", script=False)
    await _tab_to(tab, "Replay")
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("Replay")
    await _tab_to(tab, "reason")
    await tab.keyboard.type("the mail server is back")
    await _tab_to(tab, "Replay")
    await tab.keyboard.press("Enter")
    await expect(tab.locator("#told")).to_contain_text(f"{dead} runs again as")
    await tab.reload()
    await expect(tab.locator("#told")).to_have_count(0)
    row = await site.database.fetch("select reason from inboxd.audit order by id desc limit 1")
    assert row[0]["reason"] == "the mail server is back"


async def test_chosen_rows_are_dismissed_by_keyboard(tabs: Tabs, site: Site) -> None:
    """Chosen rows stay chosen while the script refreshes the list."""
    ids = await _dead(site, 2)
    tab = await tabs.open("/commands?status=failed&type=school.send_email")
    for each in reversed(ids):
        await tab.get_by_label(f"Choose {each}", exact=True).focus()
        await tab.keyboard.press("Space")
    async with tab.expect_response(lambda answer: answer.request.resource_type == "fetch"):
        pass
    await tab.locator("#chosen").get_by_role("button", name="Dismiss").press("Enter")
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("2 commands")
    await tab.locator("form.confirm").get_by_role("button").press("Enter")
    await expect(tab.locator("#told")).to_have_text("Dismissed: 2. Close")
    assert "status=failed" in tab.url
    await expect(tab.locator("#told")).to_be_focused()


async def test_pages_of_actions_have_no_barriers(tabs: Tabs, site: Site) -> None:
    first, second = await _dead(site, 2)
    for theme, width in (("light", 1440), ("dark", 360)):
        tab = await tabs.open(
            f"/act/commands/dismiss?id={first}&id={second}", theme=theme, width=width
        )
        assert await barriers(tab) == []
        await tab.goto(f"/act/commands/replay-with?id={first}")
        await tab.locator("textarea").fill('{"note": "mended"}')
        await tab.get_by_role("button", name="Show the changes").click()
        await expect(tab.locator(".diff ins")).to_have_text('+   "note": "mended"')
        assert await barriers(tab) == []
        await tab.goto(f"/commands/{first}")
        await tab.locator("footer.same summary").first.click()
        assert await barriers(tab) == []
        wide = await tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        assert not wide


async def test_all_that_match_are_ordered_and_undone_by_keyboard_without_a_script(
    tabs: Tabs, site: Site
) -> None:
    await _dead(site, 2)
    tab = await tabs.open(
        "/commands?status=failed&type=school.send_email", script=False, width=360, theme="dark"
    )
    await tab.locator("p.acts").get_by_role("link", name="Replay").focus()
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("Replay all that match")
    await _tab_to(tab, "delay")
    await tab.keyboard.type("1d")
    await _tab_to(tab, "Replay all that match")
    await tab.keyboard.press("Enter")
    await expect(tab.locator("#told")).to_contain_text("Until then it can be undone here")
    await tab.reload()
    await _tab_to(tab, "Undo")
    await tab.keyboard.press("Enter")
    await expect(tab.get_by_role("heading", level=1)).to_contain_text("End it")
    await _tab_to(tab, "End it")
    await tab.keyboard.press("Enter")
    await expect(tab.locator("#undone")).to_be_visible()


async def test_pages_of_bulk_actions_have_no_barriers(tabs: Tabs, site: Site) -> None:
    await _dead(site, 1)
    for theme, width in (("light", 1440), ("dark", 360)):
        for address in (
            "/act/commands/replay-all?type=school.send_email",
            "/actions",
            "/actions/1",
            "/act/action/abort?action=1",
            "/commands?status=failed",
        ):
            tab = await tabs.open(address, theme=theme, width=width)
            assert await barriers(tab) == [], address
            wide = await tab.evaluate("document.documentElement.scrollWidth > innerWidth")
            assert not wide, address


async def test_why_an_email_is_not_sent_is_known_after_three_clicks(tabs: Tabs, site: Site) -> None:
    """The operator knows only the number of an order."""
    await site.database.execute(
        "insert into inboxd.commands (type, queue, correlation_id)"
        " values ('school.send_email', 'email', 'order-17');"
        "insert into inboxd.controls (kind, name, actor, reason)"
        " values ('queue', 'email', 'ana', 'provider down')"
    )
    tab = await tabs.open("/find")
    await tab.locator("#find").fill("order-17")
    await tab.locator("#find").press("Enter")
    clicks = 1
    await expect(tab.get_by_role("heading", level=1)).to_be_visible()
    if "/find" in tab.url:
        await tab.locator("main table").get_by_role("link").first.click()
        clicks += 1
    await expect(tab.locator("#why")).to_contain_text("provider down")
    await expect(tab.locator("#why")).to_contain_text("by ana")
    assert clicks <= 3
    await site.database.execute("delete from inboxd.controls where name = 'email'")


async def test_secret_of_a_new_endpoint_is_shown_once(tabs: Tabs) -> None:
    for theme, width in (("light", 1440), ("dark", 360)):
        tab = await tabs.open("/endpoints", theme=theme, width=width)
        await tab.get_by_role("link", name="Add an endpoint").click()
        await tab.locator("input[name=name]").fill(f"crm-{theme}")
        await tab.locator("input[name=url]").fill("https://crm.example/in")
        await tab.locator("input[name=types]").fill("user.*")
        assert await barriers(tab) == []
        await tab.locator("form.confirm").get_by_role("button").click()
        secret = await tab.locator("#secret code").inner_text()
        assert secret.startswith("whsec_")
        assert await barriers(tab) == []
        assert not await tab.evaluate("document.documentElement.scrollWidth > innerWidth")
        await tab.get_by_role("link", name="Continue").click()
        await expect(tab.get_by_role("heading", level=1)).to_contain_text(f"crm-{theme}")
        assert secret not in await tab.content()
        assert await barriers(tab) == []
