"""Times and ages: in zones far east and far west, and in nights when clocks change.

The server sends instants in UTC and ages in seconds; the browser's clock changes neither.
"""

import re

import pytest
from playwright.async_api import Page

from tests.browser.site import Site
from tests.browser.tabs import Tabs

pytestmark = pytest.mark.anyio

EAST, WEST = "Pacific/Kiritimati", "Pacific/Pago_Pago"
# Instant, zone, local time: nights with an hour that comes twice or not at all; zones far away.
NIGHTS = [
    ("2026-03-29T00:59:59Z", "Europe/Berlin", "2026-03-29 01:59:59 GMT+1"),
    ("2026-03-29T01:00:00Z", "Europe/Berlin", "2026-03-29 03:00:00 GMT+2"),
    ("2026-10-25T00:30:00Z", "Europe/Berlin", "2026-10-25 02:30:00 GMT+2"),
    ("2026-10-25T01:30:00Z", "Europe/Berlin", "2026-10-25 02:30:00 GMT+1"),
    ("2026-11-01T05:30:00Z", "America/New_York", "2026-11-01 01:30:00 EDT"),
    ("2026-11-01T06:30:00Z", "America/New_York", "2026-11-01 01:30:00 EST"),
    ("2026-02-28T10:30:00Z", EAST, "2026-03-01 00:30:00 GMT+14"),
    ("2026-03-01T10:30:00Z", WEST, "2026-02-28 23:30:00 GMT-11"),
    ("2026-03-01T10:30:00Z", "Asia/Kolkata", "2026-03-01 16:00:00 GMT+5:30"),
]
# One second before clocks in Berlin go back, before they go forward, and before a year ends.
CHANGES = ["2026-10-25T00:59:59Z", "2026-03-29T00:59:59Z", "2025-12-31T22:59:59Z"]
_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


async def _event(site: Site, occurred_at: str) -> str:
    """Write an event that occurred then; return the path of its page."""
    id_ = await site.database.fetchval(
        "insert into inboxd.events (type, payload, occurred_at) values"
        " ('answer.given', '{}', $1::text::timestamptz) returning id",
        occurred_at,
    )
    return f"/events/{id_}"


async def _shown_as(tab: Page, how: str, url: str) -> None:
    """Set the visitor's preference for times: local, utc or relative."""
    await tab.context.add_cookies([{"name": "inboxd_times", "value": how, "url": url}])


def _seconds(told: str) -> float:
    """Parse an age such as "1h 5m" to seconds."""
    found = _SPAN.findall(told)
    assert found, told
    return sum(float(number) * _SECONDS[unit] for number, unit in found)


@pytest.mark.parametrize(("instant", "zone", "local"), NIGHTS)
async def test_an_instant_is_told_where_the_visitor_is(
    site: Site, tabs: Tabs, instant: str, zone: str, local: str
) -> None:
    path = await _event(site, instant)
    tab = await tabs.open("about:blank", zone=zone)
    of = f"main time[datetime='{instant.replace('Z', '.000Z')}']"
    utc = instant.replace("T", " ").replace("Z", " UTC")
    await _shown_as(tab, "local", tabs.url)
    await tab.goto(path)
    assert await tab.locator(of).first.inner_text() == local
    assert await tab.locator(of).first.get_attribute("title") == utc
    await _shown_as(tab, "utc", tabs.url)
    await tab.goto(path)
    assert await tab.locator(of).first.inner_text() == utc


async def test_ages_and_relative_times_are_the_same_everywhere(site: Site, tabs: Tabs) -> None:
    found = set[str]()
    for zone, now in (
        ("UTC", "2026-07-01T12:00:00Z"),
        (EAST, "2026-10-25T00:59:59Z"),
        (WEST, "2031-01-01T00:00:00Z"),
        ("Europe/Berlin", "2019-03-31T00:59:59Z"),
    ):
        tab = await tabs.open("about:blank", zone=zone)
        await tab.clock.install(time=now)
        await _shown_as(tab, "relative", tabs.url)
        await tab.goto("/")
        found.add(await tab.locator("main .banner time").first.inner_text())
        age = await tab.locator("main .banner time").first.get_attribute("title")
        assert age is not None
        assert age.endswith("UTC")
    minutes = {int(number) for told in found for number in re.findall(r"^(\d+) minutes ago$", told)}
    # A full minute may have passed between two pages.
    assert len(found) <= 2, found
    assert minutes
    assert max(minutes) - min(minutes) <= 1, found


@pytest.mark.parametrize("now", CHANGES)
async def test_an_age_goes_on_by_seconds_while_clocks_are_changed(tabs: Tabs, now: str) -> None:
    """An open page neither loses nor gains an hour in that night."""
    tab = await tabs.open("about:blank", zone="Europe/Berlin")
    await tab.clock.install(time=now)
    await tab.goto("/")
    await tab.keyboard.press("r")  # paused, so only the browser counts the age on
    age = tab.locator("main data.age").first
    before = _seconds(await age.inner_text())
    await tab.clock.run_for(5_000)
    assert abs(_seconds(await age.inner_text()) - before) <= 65, "5 s more, up to rounding"
    assert _seconds(await tab.locator("#live .age").inner_text()) >= 4
    assert _seconds(await tab.locator("#live .age").inner_text()) < 60
