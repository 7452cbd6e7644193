"""Charts in a browser: links of their steps and slices, and markers of acts and breakers."""

import os
from pathlib import Path

import pytest

from tests.browser.site import Site
from tests.browser.tabs import Tabs, barriers, overflow

pytestmark = pytest.mark.anyio

LONG = "the provider says that it is down, and that nobody knows for how long: " * 4


@pytest.fixture(scope="module", autouse=True)
async def eventful(site: Site) -> Site:
    """Acts of operators and changes of a breaker in the last hour."""
    await site.database.execute(
        "insert into inboxd.audit (at, actor, action, target, reason, count) values"
        " (now() - interval '41 min', 'ana@node-a', 'pause', 'queue grading', $1, 48),"
        " (now() - interval '35 min', 'ana@node-a', 'force open', 'breaker mail', null, 1),"
        " (now() - interval '12 min', 'rui@node-b', 'replay', 'commands of group 5be2', 'ok', 11)",
        LONG,
    )
    await site.database.execute(
        "insert into inboxd.breaker_changes (at, name, state) values"
        " (now() - interval '28 min', 'mail', 'open'),"
        " (now() - interval '20 min', 'mail', 'closed')"
    )
    return site


async def test_a_moment_of_a_chart_leads_to_its_rows(tabs: Tabs) -> None:
    tab = await tabs.open("/commands?queue=email")
    await tab.locator("#dashboard").evaluate("(part) => part.open = true")
    moments = tab.locator("#dashboard .over a:has(.point)")
    assert await tab.locator("#dashboard .over .point").count() == 59  # without the running minute
    leads = [await each.get_attribute("href") for each in await moments.all()]
    assert leads
    told = tab.locator("#dashboard .numbers tbody th a")
    assert {await each.get_attribute("href") for each in await told.all()} == {*leads}
    assert {await each.get_attribute("tabindex") for each in await moments.all()} == {"-1"}
    await moments.first.click()
    await tab.wait_for_url("**/commands?by=done&since=*&until=*")
    assert await tab.locator("main table tbody tr").count() > 0
    assert await tab.locator("form.filters [name=by]").input_value() == "done"


async def test_a_slice_leads_to_its_rows(tabs: Tabs) -> None:
    tab = await tabs.open("/commands")
    slices = tab.locator(".donut a")
    assert await slices.count() > 1
    href = await slices.first.get_attribute("href")
    counts = tab.locator(".legend.tall b a")
    assert await counts.first.get_attribute("href") == href
    await slices.first.locator("path").dispatch_event("click")
    await tab.wait_for_url("**by=ended**")
    assert await tab.locator("main table tbody tr").count() > 0


@pytest.mark.parametrize(("theme", "width"), [("light", 1440), ("dark", 360)])
async def test_markers_are_drawn_and_listed(
    tabs: Tabs, tmp_path: Path, theme: str, width: int
) -> None:
    folder = Path(os.environ.get("INBOXD_TEST_SCREENSHOTS", tmp_path))
    for address in ("/", "/queues/email", "/commands"):
        tab = await tabs.open(address, width=width, theme=theme)
        marked = await tab.locator(".drawn").first.locator(".marker").count()
        assert marked >= 5, address
        flag = await tab.locator(".drawn .marker.breaker").first.locator("title").text_content()
        assert flag is not None
        assert flag.endswith("Breaker mail opened")
        happened = tab.locator("details.happened")
        assert await happened.count() == 1
        await happened.locator("summary").press("Enter")
        assert await happened.locator("li").count() == marked
        await happened.locator("a").last.focus()
        assert await barriers(tab) == [], address
        assert await overflow(tab) <= 0, address
        await tab.screenshot(path=folder / f"charts{address.replace('/', '-')}-{theme}.png")


async def test_markers_work_without_a_script(tabs: Tabs, eventful: Site) -> None:
    tab = await tabs.open("/", script=False)
    await tab.locator("details.happened summary").click()
    await tab.locator("details.happened li a", has_text="replay commands of group").click()
    await tab.wait_for_url("**/audit?below=*")
    entry = await eventful.database.fetchval(
        "select id from inboxd.audit where target = 'commands of group 5be2'"
    )
    assert await tab.locator("main tbody td").first.inner_text() == str(entry)
