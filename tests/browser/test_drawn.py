"""Drawings in a browser: bars of a story's times, and the graph of a workflow."""

import orjson
import pytest

from tests.browser.site import Site
from tests.browser.tabs import Tabs, barriers, overflow
from tests.browser.test_hostile import STRINGS
from tests.support.known_story import write_known_story

pytestmark = pytest.mark.anyio


async def _flow(site: Site, names: list[str]) -> str:
    """The page of a workflow whose steps each wait for the step before."""
    steps = [
        {"name": name, "type": "school.seed_users", "queue": "default", "after": names[:n][-1:]}
        for n, name in enumerate(names)
    ]
    id_ = await site.database.fetchval(
        "select id from inboxd.send_workflow('set up', $1)", orjson.dumps(steps).decode()
    )
    return f"/batches/{id_}"


@pytest.mark.parametrize(("theme", "width"), [("light", 360), ("dark", 1440), ("light", 768)])
async def test_drawings_are_without_barriers_and_fit(
    site: Site, tabs: Tabs, theme: str, width: int
) -> None:
    story = await write_known_story(site.database)
    flow = await _flow(site, [f"step {n}" for n in range(12)])
    tab = await tabs.open("/", width=width, theme=theme)
    for address in (f"/story/event/{story.event}", f"{flow}", f"{flow}?layer=1"):
        await tab.goto(address)
        assert await barriers(tab) == [], address
        assert await overflow(tab) <= 0, address


async def test_bars_stand_below_each_other_and_leave_room_for_their_figures(
    site: Site, tabs: Tabs
) -> None:
    story = await write_known_story(site.database)
    for width in (360, 1440):
        tab = await tabs.open(f"/story/event/{story.event}", width=width)
        boxes = [await bar.bounding_box() for bar in await tab.locator("svg.bars").all()]
        assert len(boxes) == len(story.rows)
        assert len({(box["x"], box["width"]) for box in boxes if box}) == 1, "one time axis"
        assert all(box and box["width"] > 200 for box in boxes)


async def test_a_workflow_is_a_drawing_and_on_a_telephone_a_table(site: Site, tabs: Tabs) -> None:
    flow = await _flow(site, ["first", "second"])
    wide = await tabs.open(flow)
    node = wide.locator(".graph a", has_text="second")
    await node.click()
    await wide.wait_for_url("**/commands/*")
    narrow = await tabs.open(flow, width=360)
    assert not await narrow.locator(".graph").is_visible()
    assert await narrow.locator("#steps td strong", has_text="second").is_visible()


async def test_drawings_are_there_without_a_script(site: Site, tabs: Tabs) -> None:
    story = await write_known_story(site.database)
    tab = await tabs.open(f"/story/event/{story.event}", script=False)
    assert await tab.locator("svg.bars").count() == len(story.rows)
    await tab.goto(await _flow(site, ["first", "second"]))
    assert await tab.locator(".graph a").count() == 2


async def test_a_drawing_shows_what_has_changed_by_itself(site: Site, tabs: Tabs) -> None:
    flow = await _flow(site, ["first", "second"])
    tab = await tabs.open(flow)
    assert await tab.locator(".graph a.pending").count() == 1
    await site.database.execute(
        "update inboxd.commands set status = 'failed', attempts = 1 where command_id ="
        " (select member from inboxd.steps where batch_id = $1 and name = 'first')",
        int(flow.rpartition("/")[2]),
    )
    # The page is read anew when the overview changes, and every 15 s at the latest.
    await tab.locator(".graph a.failed").wait_for()


async def test_names_of_steps_are_no_more_than_text(site: Site, tabs: Tabs) -> None:
    flow = await _flow(site, list(STRINGS))
    tab = await tabs.open(flow)
    assert await tab.locator(".graph a").count() == len(STRINGS)
    assert await tab.locator("iframe, main script, main img, [onerror], [onload]").count() == 0
    told = await tab.locator("#steps tbody").inner_text()
    for string in STRINGS[:6]:
        assert string in told
