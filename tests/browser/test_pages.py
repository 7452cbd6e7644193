"""Each page in a browser: both themes, three widths, no accessibility barriers, no script."""

import pytest
from playwright.async_api import Request

from inboxd.admin.screens.pages import SCREENS
from tests.browser.site import Crawl, Site, crawl
from tests.browser.tabs import Tabs, barriers, overflow

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
async def pages(site: Site) -> Crawl:
    return await crawl(site)


def test_links_alone_lead_to_every_page_and_none_leads_nowhere(pages: Crawl) -> None:
    assert pages.dead == []
    assert {screen.path for screen in SCREENS} - pages.addresses.keys() == set()


@pytest.mark.parametrize("width", [360, pytest.param(768, marks=pytest.mark.long)])
async def test_each_page_fits_the_screen_and_nothing_goes_wrong_in_it(
    pages: Crawl, tabs: Tabs, width: int
) -> None:
    tab = await tabs.open("/", width=width, theme="dark")
    for address, *_ in pages.addresses.values():
        await tab.goto(address)
        assert await overflow(tab) <= 0, address
        assert tabs.wrong == []


async def test_the_first_page_is_without_barriers(tabs: Tabs) -> None:
    assert await barriers(await tabs.open("/")) == []


# A check for barriers takes 1 s a page, so CI checks the narrowest and the widest width.
@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("theme", "width"),
    [
        ("light", 360),
        ("dark", 1440),
        *(
            pytest.param(theme, width, marks=pytest.mark.soak)
            for theme, width in (("dark", 360), ("light", 768), ("dark", 768), ("light", 1440))
        ),
    ],
)
async def test_each_page_in_each_theme_and_width(
    pages: Crawl, tabs: Tabs, theme: str, width: int
) -> None:
    tab = await tabs.open("/", width=width, theme=theme)
    for address in (each for some in pages.addresses.values() for each in some):
        await tab.goto(address)
        assert await barriers(tab) == [], address
        assert await overflow(tab) <= 0, address


async def test_without_a_script_a_page_reads_and_is_displayed_as_chosen(tabs: Tabs) -> None:
    tab = await tabs.open("/", script=False)
    assert await tab.locator("main h1").inner_text() == "Overview"
    await tab.get_by_role("button", name="Display").click()
    await tab.get_by_label("Dark").check(force=True)
    await tab.get_by_label("Português").check(force=True)
    await tab.get_by_role("button", name="Apply").click()
    await tab.wait_for_url("**/")
    assert await tab.locator("html").get_attribute("data-theme") == "dark"
    assert await tab.locator("html").get_attribute("lang") == "pt-BR"
    assert await tab.locator("main h1").inner_text() == "Visão geral"


async def test_a_page_is_light_to_load_and_lighter_to_refresh(tabs: Tabs) -> None:
    tab = await tabs.open("about:blank")
    loaded: list[Request] = []
    tab.on("requestfinished", lambda asked: loaded.append(asked))  # noqa: PLW0108 - no builtin
    await tab.goto("/", wait_until="networkidle")
    sizes = {asked.url: (await asked.sizes())["responseBodySize"] for asked in loaded}
    assert any(url.endswith(".css") for url in sizes)
    assert sum(sizes.values()) <= 120_000, sizes
    refresh = await tab.evaluate(
        """async () => {
          await (await fetch(location.href, {headers: {"x-revision": "none"}})).text();
          return performance.getEntriesByType("resource").at(-1).encodedBodySize; }"""
    )
    assert 0 < refresh <= 10_000


_CUT = """() => [...document.querySelectorAll("main .scroll")].filter(
  (box) => box.scrollWidth > box.clientWidth).map((box) => box.innerText.slice(0, 80))"""


@pytest.mark.parametrize("language", ["en", pytest.param("pt-BR", marks=pytest.mark.long)])
async def test_no_table_is_cut_off_where_there_is_room(
    pages: Crawl, tabs: Tabs, language: str
) -> None:
    """Portuguese words are longer, so tables are wider."""
    tab = await tabs.open("/", width=1280)
    await tab.goto(f"/preferences?language={language}&back=/")
    assert await tab.locator("html").get_attribute("lang") == language
    for address, *_ in pages.addresses.values():
        await tab.goto(address)
        assert await tab.evaluate(_CUT) == [], address


async def test_a_printed_page_fits_the_paper(tabs: Tabs) -> None:
    tab = await tabs.open("/", width=760)
    for address in ("/", "/events", "/commands?status=failed", "/queues"):
        await tab.goto(address)
        await tab.emulate_media(media="print")
        assert await overflow(tab) <= 0, address


async def test_found_rows_are_on_the_first_screen(tabs: Tabs) -> None:
    tab = await tabs.open("/commands?status=failed&type=school.send_email", width=1280)
    first = await tab.locator("main > .scroll tbody tr").first.bounding_box()
    assert first is not None
    assert first["y"] + first["height"] < 900
