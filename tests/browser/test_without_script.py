"""Each action in a browser without a script, by keyboard: its page, its form, its result.

`tests/screens/test_acting_forms.py` has the cases, and checks that each action has one.
"""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.site import serving, serving_action
from tests.browser.tabs import Tabs
from tests.screens.test_acting_forms import CASES, ActionCase
from tests.screens.test_acting_kinds import SETTING
from tests.support import Database

pytestmark = pytest.mark.anyio

# These show the changes first, so their form is sent twice.
_TWICE = ("/act/commands/replay-with", "/act/commands/edit")


async def _type(tab: Page, typed: dict[str, str]) -> None:
    """Fill the fields of the form."""
    for name, value in typed.items():
        field = tab.locator(f'form.confirm [name="{name}"]')
        kind = await field.first.get_attribute("type")
        if kind == "radio":
            await tab.locator(f'form.confirm [name="{name}"][value="{value}"]').check()
        elif kind == "checkbox":
            await field.check()
        else:
            await field.fill(value)


async def _send(tab: Page) -> None:
    await tab.locator("form.confirm button.main").press("Enter")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.path)
async def test_each_action_is_done_without_a_script(
    browser: Browser, database: Database, case: ActionCase, tmp_path: Path
) -> None:
    async with serving_action(database, case, tmp_path / "spool") as site:
        tabs = Tabs(browser, site.url)
        tab = await tabs.open(case.path, script=False)
        await _type(tab, case.typed)
        await _send(tab)
        if case.path.startswith(_TWICE):
            await expect(tab.get_by_role("heading", name="Changes", exact=True)).to_be_visible()
            assert await database.fetchval("select count(*) from inboxd.audit") == 0
            await _send(tab)
        await expect(tab.locator("#told")).to_be_visible()
        # An answer with a secret stays at the address of the form.
        assert ("/act/" in tab.url) == (case.status == 200)
        await tabs.close()
    assert await database.fetchval("select count(*) from inboxd.audit") == 1


async def test_an_erasure_first_asks_for_its_subject(browser: Browser, database: Database) -> None:
    """The first form opens the address of the second one, which needs no script."""
    await database.execute(SETTING)
    async with serving(database) as site:
        tabs = Tabs(browser, site.url)
        tab = await tabs.open("/audit", script=False)
        await tab.get_by_role("link", name="Erase").press("Enter")
        await _type(tab, {"tenant": "acme"})
        await _send(tab)
        await expect(tab.get_by_role("heading", level=1)).to_contain_text("acme")
        await _type(tab, {"unsettled": "1"})
        await _send(tab)
        await expect(tab.locator("#told")).to_contain_text("Erased")
        await tabs.close()
