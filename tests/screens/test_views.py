"""Saved views: kept in a browser, listed beside the filter, harmless whatever the cookie holds."""

from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator

import httpx
import orjson
import pytest

from tests.screens.reading import read
from tests.screens.visiting import SAME, Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.rows import send

pytestmark = pytest.mark.anyio

HOSTILE = "\"'><img src=x onerror=alert(1)> {7}"


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    async with visiting(database) as site:
        yield site


@pytest.fixture
async def browser(site: Visited) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        yield client


async def _keep(browser: httpx.AsyncClient, name: str, to: str) -> httpx.Response:
    return await browser.post("/views", data={"name": name, "to": to}, headers=SAME)


def _cookie(views: object) -> str:
    return urlsafe_b64encode(orjson.dumps(views)).rstrip(b"=").decode()


async def test_a_view_is_kept_listed_opened_and_removed(browser: httpx.AsyncClient) -> None:
    filter_ = "status=failed&status=pending&type=a.b&span=day"
    offered = await read(browser, f"/commands?{filter_}&below=7&chosen=all")
    (keep,) = [link for link in offered.links if link.startswith("/views?to=")]
    form = (await browser.get(keep)).text
    assert f'name="to" value="/commands?{filter_.replace("&", "&amp;")}"' in form
    done = await _keep(browser, f"  {HOSTILE} ", f"/commands?{filter_}&below=7")
    assert (done.status_code, done.headers["location"]) == (303, f"/commands?{filter_}")
    for path in (f"/commands?{filter_}", "/commands"):
        page = await read(browser, path)
        assert HOSTILE in page.text
        assert f"/commands?{filter_}" in page.links
        is_current = ("a", "aria-current", "page") in page.attributes
        assert is_current == (path != "/commands")
        assert "img" not in page.tags
    assert HOSTILE not in (await read(browser, "/events")).text
    assert (await _keep(browser, HOSTILE, "/events?type=c.d")).status_code == 303
    every = await read(browser, "/views")
    assert {f"/commands?{filter_}", "/events?type=c.d"} <= set(every.links)
    removed = {"to": "/commands", "remove": HOSTILE}
    gone = await browser.post("/views", data=removed, headers=SAME)
    assert (gone.status_code, gone.headers["location"]) == (303, "/views")
    assert HOSTILE not in (await read(browser, "/commands")).text
    assert HOSTILE in (await read(browser, "/events")).text, "a view of another list"


async def test_a_view_replaces_one_of_the_same_name(browser: httpx.AsyncClient) -> None:
    for type_ in ("a.b", "c.d"):
        await _keep(browser, "mine", f"/events?type={type_}")
    links = (await read(browser, "/views")).links
    assert "/events?type=c.d" in links
    assert "/events?type=a.b" not in links


async def test_another_browser_has_no_views_of_this_one(
    site: Visited, browser: httpx.AsyncClient, database: Database
) -> None:
    """Visitors share readings of a page, and their drawings."""
    await send(database, 1)
    known = {"x-revision": "any"}
    await _keep(browser, "mine alone", "/commands?type=test.ledger")
    async with site.client() as other:
        for _ in range(2):
            assert "mine alone" in (await browser.get("/commands")).text
            assert "mine alone" not in (await other.get("/commands")).text
            assert "mine alone" in (await browser.get("/commands", headers=known)).text
            assert "mine alone" not in (await other.get("/commands", headers=known)).text


@pytest.mark.parametrize(
    ("name", "to"),
    [
        *(("", "/events?type=a"), ("   ", "/events?type=a"), ("x" * 41, "/events?type=a")),
        *(("two\nlines", "/events?type=a"), ("\u202eturned", "/events?type=a")),
        *(("a", "/events"), ("a", "/events?below=7"), ("a", f"/events?type={'x' * 1_001}")),
        *(("a", "/doctor?x=1"), ("a", "//evil.example/events?type=a"), ("a", "")),
    ],
)
async def test_an_invalid_view_is_not_kept(browser: httpx.AsyncClient, name: str, to: str) -> None:
    refused = await _keep(browser, name, to)
    assert refused.status_code == 400
    assert "inboxd_views" not in refused.headers.get("set-cookie", "")


async def test_a_browser_keeps_as_many_views_as_a_cookie_holds(browser: httpx.AsyncClient) -> None:
    for n in range(20):
        assert (await _keep(browser, f"view {n}", f"/events?type=t{n}")).status_code == 303
    refused = await _keep(browser, "one more", "/events?type=x")
    assert (refused.status_code, "at most 20 views" in refused.text) == (409, True)
    assert (await _keep(browser, "view 3", "/events?type=x")).status_code == 303, "instead"
    browser.cookies.clear()
    kept = 0
    while (await _keep(browser, f"long {kept}", f"/events?type={'x' * 990}")).status_code == 303:
        kept += 1
    assert 0 < kept < 20
    assert f"Saved views {kept}" in (await read(browser, "/views")).text


@pytest.mark.parametrize(
    "text",
    [
        *("x", "%%%", "é", "A" * 5_000, _cookie({"a": 1}), _cookie([1, [2], ["a", "/events"]])),
        *(_cookie([["evil", "//evil.example", "type=a"]]), _cookie([["evil", "/doctor", "a=1"]])),
        *(_cookie([["evil", "/events", "type=a#x\r\nb"]]), _cookie([["evil\n", "/events", "a=1"]])),
        *(_cookie([["evil", "/events", 1]]), _cookie([["e" * 41 + "vil", "/events", "a=1"]])),
    ],
)
async def test_a_cookie_may_contain_anything(browser: httpx.AsyncClient, text: str) -> None:
    cookie = {b"cookie": f"inboxd_views={text}".encode("latin-1")}
    for path in ("/events", "/views"):
        answer = await browser.get(path, headers=cookie)
        assert answer.status_code == 200
        assert "evil" not in answer.text


async def test_other_sites_and_strangers_keep_nothing(database: Database) -> None:
    data = {"name": "mine", "to": "/events?type=a"}
    async with visiting(database, users=[user("ada")]) as site, site.client() as client:
        for answer in (
            await client.get("/views"),
            await client.post("/views", data=data, headers=SAME),
        ):
            assert answer.status_code == 303
            assert answer.headers["location"].startswith("/sign-in")
            assert "inboxd_views" not in answer.headers.get("set-cookie", "")
        await sign_in(client, "ada")
        forged = await client.post("/views", data=data, headers={"sec-fetch-site": "cross-site"})
        assert forged.status_code == 403
        assert "inboxd_views" not in forged.headers.get("set-cookie", "")
        kept = await client.post("/views", data=data, headers=SAME)
        header = kept.headers["set-cookie"]
        assert "HttpOnly" in header
        assert "SameSite=lax" in header
