"""An open page updates itself and does not disturb a visitor who reads or types."""

import re

import anyio
import pytest
from playwright.async_api import Page, Request, Route, expect

from inboxd.embedded import Server
from tests.browser.site import Site, away
from tests.browser.tabs import Tabs
from tests.support import ExternalServer
from tests.support.rows import send

pytestmark = pytest.mark.anyio

_DEAD = "main .tile:has-text('Dead letters') .value"

# Milliseconds for many tabs on a busy machine.
_MANY = 60_000

_OLD = """<p>1 row</p>
<form><input name=q value=""><select name=s><option>a<option>b</select></form>
<ul><li><a href="/1">one</a></li><li><a href="/2">two</a></li></ul>"""
_FRESH = """<p>2 rows</p><p class="new">new</p>
<form><input name=q value=""><select name=s><option>a<option>b</select></form>
<ul><li><a href="/0">zero</a></li><li><a href="/2">two!</a></li></ul>"""
_MORPHED = """async ([before, after]) => {
  const {morph} = await import(document.querySelector("script[src]").src);
  const old = document.createElement("div"), fresh = document.createElement("div");
  document.body.append(old);
  old.innerHTML = before;
  fresh.innerHTML = after;
  const input = old.querySelector("input"), second = old.querySelectorAll("a")[1];
  input.focus();
  input.value = "half ty";
  input.setSelectionRange(2, 4);
  old.querySelector("select").selectedIndex = 1;
  morph(old, fresh);
  return [old.innerText.split(/\\s+/).join(" "), document.activeElement === input, input.value,
    input.selectionStart, old.querySelector("select").selectedIndex,
    old.querySelectorAll("a")[1] === second]; }"""


async def _fail_one(site: Site) -> None:
    (id_,) = await send(site.database, 1, "school.tell_teacher")
    await site.database.execute(
        "update inboxd.commands set status = 'failed', fingerprint = 'live', attempts = 1,"
        ' errors = \'[{"error": "ValueError: no class"}]\' where id = $1',
        id_,
    )
    await site.database.execute("delete from inboxd.newest_sample")


async def test_a_change_is_shown_and_the_focus_stays(site: Site, tabs: Tabs) -> None:
    tab = await tabs.open("/")
    before = int(await tab.locator(_DEAD).inner_text())
    link = tab.locator("main table a", has_text="Send e-mail").first
    await link.focus()
    await tab.locator("main details.numbers").first.locator("summary").evaluate("(e) => e.click()")
    await tab.evaluate("document.activeElement.mark = 'the same element'")
    await _fail_one(site)
    await expect(tab.locator(_DEAD)).to_have_text(str(before + 1))
    assert await tab.evaluate("document.activeElement.mark") == "the same element"
    await expect(tab.locator("main details.numbers").first).to_have_attribute("open", "")


async def test_twenty_tabs_of_one_browser_are_all_kept_up_to_date(site: Site, tabs: Tabs) -> None:
    """Polls hold no connection: a browser has six, so a seventh tab would never load."""
    first = await tabs.open("/", width=600)
    first.context.set_default_timeout(_MANY)
    all_ = [first, *[await tabs.beside(first) for _ in range(19)]]
    before = int(await first.locator(_DEAD).inner_text())
    await _fail_one(site)
    for tab in all_:
        await expect(tab.locator(_DEAD)).to_have_text(str(before + 1), timeout=_MANY)
        await expect(tab.locator("#live .word")).to_have_text("Live", timeout=_MANY)
    another = await tabs.beside(first, "/events")
    await expect(another.get_by_role("heading", level=1)).to_contain_text("Events", timeout=_MANY)


async def test_half_typed_text_stays(tabs: Tabs) -> None:
    tab = await tabs.open("/")
    kept = await tab.evaluate(_MORPHED, [_OLD, _FRESH])
    assert kept == ["2 rows new a b zero two!", True, "half ty", 2, 1, True]


def _polls(tab: Page) -> list[Request]:
    polls: list[Request] = []
    tab.on("request", lambda asked: polls.append(asked) if "x-revision" in asked.headers else None)
    return polls


async def test_a_hidden_or_paused_page_is_not_polled(tabs: Tabs) -> None:
    tab = await tabs.open("about:blank")
    await tab.clock.install()
    await tab.goto("/")
    polls = _polls(tab)
    async with tab.expect_response(lambda answer: "x-revision" in answer.request.headers):
        await tab.clock.run_for(2_500)  # a visible page is polled
    await tab.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    polls.clear()
    await tab.clock.run_for(20_000)
    assert polls == []
    async with tab.expect_response(lambda answer: "x-revision" in answer.request.headers):
        await tab.evaluate(
            "Object.defineProperty(document, 'hidden', {value: false, configurable: true});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )
    await tab.keyboard.press("r")
    await expect(tab.locator("#live")).to_have_attribute("aria-pressed", "false")
    polls.clear()
    await tab.clock.run_for(20_000)
    assert polls == []


async def test_the_page_stays_while_the_server_does_not_answer(site: Site, tabs: Tabs) -> None:
    tab = await tabs.open("/")
    shown = await tab.locator("main .tile").count()
    await tab.route("**/*", lambda route: route.abort())
    await expect(tab.locator("#live .word")).to_have_text("Offline")
    assert await tab.locator("main .tile").count() == shown
    assert tabs.wrong  # the browser's own errors about requests that failed
    tabs.wrong.clear()
    await tab.unroute("**/*")
    await expect(tab.locator("#live .word")).to_have_text("Live")
    tabs.wrong.clear()


async def test_a_slow_answer_is_shown(tabs: Tabs) -> None:
    tab = await tabs.open("/commands")
    answered = anyio.Event()

    async def hold(route: Route) -> None:
        await answered.wait()
        await route.continue_()

    await tab.route(tab.url, hold)
    await expect(tab.locator("#live .word")).to_have_text("Loading")
    answered.set()
    await expect(tab.locator("#live .word")).to_have_text("Live")


async def test_a_page_that_does_not_come_at_once_shows_a_bar(tabs: Tabs) -> None:
    """The page notes the bar itself, since a browser may not answer while a page is requested."""
    tab = await tabs.open("/")

    async def slow(route: Route) -> None:
        await anyio.sleep(3)
        await route.continue_()

    await tab.evaluate(
        """() => new MutationObserver(() => {
          const busy = document.querySelector("main").getAttribute("aria-busy")
          if ("loading" in document.body.dataset && busy) sessionStorage.seen = busy
        }).observe(document.body, {attributes: true, subtree: true})"""
    )
    await tab.route("**/workers", slow)
    await tab.locator("nav.pages a[href='/workers']").click(no_wait_after=True)
    await tab.wait_for_url("**/workers")
    assert await tab.evaluate("() => sessionStorage.seen") == "true"
    await expect(tab.locator("body")).not_to_have_attribute("data-loading", "")


async def test_ages_grow_by_the_server_s_clock(tabs: Tabs) -> None:
    tab = await tabs.open("about:blank")
    await tab.clock.install(time="2031-01-01T00:00:00Z")  # the browser's clock is years ahead
    await tab.context.add_cookies([{"name": "inboxd_times", "value": "relative", "url": tabs.url}])
    await tab.goto("/")
    told = await tab.locator("main .banner time").first.inner_text()
    minutes = re.search(r"(\d+) minutes ago", told)
    assert minutes, told
    assert 23 <= int(minutes[1]) < 60
    age = tab.locator("main data.age").first
    before = await age.inner_text()
    await tab.clock.run_for(5_000)
    assert await age.inner_text() != before


async def test_an_outage_of_the_database_is_shown_with_one_age(
    server: Server | ExternalServer, site: Site, tabs: Tabs
) -> None:
    tab = await tabs.open("/")
    async with away(server, site.database):
        await expect(tab.locator("#live .word")).to_have_text("Database away")
        await expect(tab.locator("#trouble")).to_be_visible()
        await expect(tab.locator("#live")).to_have_class("plain live offline")
        ages = """() => ["#trouble data", "#live .age"].map(
          (where) => parseFloat(document.querySelector(where).textContent))"""
        told = await tab.evaluate(ages)
        assert told[0] == pytest.approx(told[1], abs=1.5)
    await expect(tab.locator("#live .word")).to_have_text("Live")
