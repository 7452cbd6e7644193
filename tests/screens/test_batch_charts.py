"""Charts of batches and workflows: their numbers, and the batches that these lead to."""

import re
from datetime import UTC, timedelta
from html import unescape
from typing import Any

import httpx
import pytest

from tests.screens.reading import read
from tests.screens.terminal import printed
from tests.support import Database

pytestmark = pytest.mark.anyio

_NUMBER = re.compile(r'<a href="(/(?:batches|workflows)\?[^"]*)">([\d,]+)</a>')
_MOMENT = re.compile(r'<a href="([^"]*)" tabindex="-1"><rect class="point"')
_SLICE = re.compile(
    r'<a href="([^"]*)" tabindex="-1"><path class="slice[^<]*<title>([^<]*): ([\d,]+)'
)
# Kind, type, status, minutes since the creation, number; the oldest first, as their ids are.
_MADE = (
    *(("batch", "mails", "succeeded", 20, 3), ("batch", "mails", "failed", 20, 1)),
    *(("batch", "", "running", 10, 2), ("workflow", "setup", "succeeded", 10, 1)),
)


@pytest.fixture(autouse=True)
async def made(database: Database) -> None:
    for kind, type_, status, minutes, many in _MADE:
        await database.execute(
            "insert into inboxd.batches (kind, name, type, status, created_at)"
            " select $1, 'n', $2, $3, now() - $4::interval from generate_series(1, $5)",
            *(kind, type_, status, timedelta(minutes=minutes), many),
        )


def _numbers(page: str) -> list[tuple[str, int]]:
    """Link and number, for each number below the chart."""
    (part,) = re.findall(r'<details class="numbers">.*?</details>', page, re.DOTALL)
    return [(unescape(link), int(number)) for link, number in _NUMBER.findall(part)]


async def _rows(screens: httpx.AsyncClient, link: str) -> list[Any]:
    path, _, query = link.partition("?")
    answer = await screens.get(f"{path}.json?{query}&limit=100")
    assert answer.status_code == 200, answer.text
    rows: list[Any] = answer.json()[path.strip("/")]
    return rows


@pytest.mark.parametrize("span", ["hour", "day"])
async def test_a_number_leads_to_the_batches_that_it_counts(
    screens: httpx.AsyncClient, span: str
) -> None:
    page = (await screens.get(f"/batches?span={span}")).text
    found = _numbers(page)
    if span == "hour":  # a chart by hours leaves out the hour that has not ended
        assert sorted(number for _, number in found) == [1, 2, 3, 4]
    for link, number in found:
        assert len(await _rows(screens, link)) == number, link


async def test_a_moment_leads_to_the_batches_that_were_created_then(
    screens: httpx.AsyncClient,
) -> None:
    page = (await screens.get("/batches?status=failed")).text
    led = [len(await _rows(screens, unescape(link))) for link in _MOMENT.findall(page)]
    assert sorted(led) == [2, 4], "steps without rows have no link"
    assert page.count('class="point"') == 59


async def test_a_slice_leads_to_the_batches_of_its_type(screens: httpx.AsyncClient) -> None:
    page = (await screens.get("/batches")).text
    ((link, title, number),) = _SLICE.findall(page)
    assert (title, number) == ("mails", "4")
    assert {row["type"] for row in await _rows(screens, unescape(link))} == {"mails"}
    assert "(no type) 2" in (await read(screens, "/batches")).text, "no filter finds them"
    ((link, title, number),) = _SLICE.findall((await screens.get("/workflows")).text)
    assert (title, number) == ("setup", "1")
    assert len(await _rows(screens, unescape(link))) == 1


async def test_times_before_the_newest_batches_are_unknown(
    screens: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.operations.recent_batches.LOOKED", 4)
    assert [number for _, number in _numbers((await screens.get("/batches")).text)] == [2]


async def test_charts_follow_the_type_and_the_tenant(screens: httpx.AsyncClient) -> None:
    page = await read(screens, "/batches?type=mails&span=hour")
    assert "(no type)" not in page.text
    assert "Nothing was created in this span." in (await read(screens, "/batches?tenant=x")).text
    assert (await screens.get("/batches?span=year")).status_code == 400


async def test_a_list_ends_at_a_time_as_on_the_command_line(
    screens: httpx.AsyncClient, database: Database
) -> None:
    at = await database.fetchval("select created_at from inboxd.batches where type = '' limit 1")
    until = f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    answer = await screens.get("/batches.json", params={"until": until})
    assert [row["type"] for row in answer.json()["batches"]] == ["mails"] * 4
    assert answer.json() == await printed(database, "batches", "list", "--until", until)
    page = await read(screens, f"/batches?until={until}")
    assert f"inboxd batches list --until {until}" in page.text
