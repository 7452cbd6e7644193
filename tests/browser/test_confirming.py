"""Each confirmation of an action in a browser, and its form shown again: no barriers.

*See:* `test_pages.py`, for pages to read; `test_hostile.py`, for hostile strings on confirmations.
"""

from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect

from tests.browser.site import serving_action
from tests.browser.tabs import Tabs, barriers, overflow
from tests.screens.test_acting_forms import CASES, ActionCase
from tests.support import Database

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(120)]

# Forms with most kinds of fields; the others are tested by `make test-long`.
_SOON = ("/act/commands/replay-all", "/act/commands/edit", "/act/schedules/add", "/act/erase")
_TOO_LONG = """(form) => {
  form.reason.removeAttribute("maxlength"); form.reason.value = "r".repeat(1001); form.submit() }"""


async def _is_accessible(tab: Page) -> None:
    assert await barriers(tab) == []
    assert await overflow(tab) <= 0


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(
            each,
            id=each.path,
            marks=() if each.path.startswith(_SOON) else pytest.mark.long,
        )
        for each in CASES
    ],
)
async def test_a_confirmation_and_its_refused_form_have_no_barriers(
    browser: Browser, database: Database, case: ActionCase, tmp_path: Path
) -> None:
    async with serving_action(database, case, tmp_path / "spool") as site:
        tabs = Tabs(browser, site.url)
        for theme, width in (("light", 1440), ("dark", 360)):
            tab = await tabs.open(case.path, theme=theme, width=width)
            form = tab.locator("form.confirm")
            await expect(form).to_have_count(1)
            await _is_accessible(tab)
            await form.evaluate(_TOO_LONG)
            await expect(tab.locator("#refused")).to_contain_text("at most 1000 characters")
            await _is_accessible(tab)
        tabs.wrong[:] = [each for each in tabs.wrong if "status of 400" not in each]
        await tabs.close()
