"""Pictures of the screens: `make screenshots` writes those of the README and of docs/screens.md.

`make screenshots SCREENSHOTS=all` writes one of every page, in both themes and three widths, to
look at. Other runs write them to a temporary folder, which tests their making.
"""

import os
import re
from itertools import product
from pathlib import Path

import pytest

from tests.browser.site import Crawl, Site, crawl
from tests.browser.tabs import Tabs

pytestmark = pytest.mark.anyio

# Looks that also CI takes pictures of.
_OF_CI = (("light", 360), ("dark", 1440))
LOOKS = [
    pytest.param(*look, marks=() if look in _OF_CI else pytest.mark.soak)
    for look in product(("light", "dark"), (360, 768, 1440))
]


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


@pytest.fixture(scope="module")
async def pages(site: Site) -> Crawl:
    return await crawl(site)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("theme", "width"), LOOKS)
async def test_a_picture_of_every_page_is_made(
    pages: Crawl, tabs: Tabs, tmp_path: Path, theme: str, width: int
) -> None:
    folder = Path(os.environ.get("INBOXD_TEST_SCREENSHOTS", tmp_path))
    tab = await tabs.open("/", width=width, theme=theme)
    made = set[Path]()
    for path, (address, *_) in pages.addresses.items():
        await tab.goto(address)
        picture = folder / f"{_name(path)}-{theme}-{width}.png"
        await tab.screenshot(path=picture, full_page=True)
        assert picture.stat().st_size > 5_000, address
        made.add(picture)
    assert len(made) == len(pages.addresses), "each page has a picture of its own"


def _name(path: str) -> str:
    """The name of a page's picture: `failures-group` for `/failures/{group:path}`."""
    plain = re.sub(r"\{(\w+)(?::\w+)?\}", r"\1", path).strip("/")
    return plain.replace("/", "-") or "overview"
