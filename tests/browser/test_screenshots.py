"""Pictures of the README and of docs/screens.md, which `make screenshots` writes.

Other runs write them to a temporary folder, which tests their making.
"""

import os
from pathlib import Path

import pytest

from tests.browser.site import Site
from tests.browser.tabs import Tabs

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_pictures_are_made(site: Site, tabs: Tabs, tmp_path: Path, theme: str) -> None:
    folder = Path(os.environ.get("INBOXD_TEST_SCREENSHOTS", tmp_path))
    event = await site.database.fetchval(
        "select origin_id from inboxd.batches where status = 'failed' and kind = 'batch'"
    )
    for name, path in (("overview", "/"), ("event", f"/events/{event}?payload=1")):
        tab = await tabs.open(path, width=1280, theme=theme)
        picture = folder / f"{name}-{theme}.png"
        await tab.screenshot(path=picture)
        assert picture.stat().st_size > 20_000  # an empty page is smaller
