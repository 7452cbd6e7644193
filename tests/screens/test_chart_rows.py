"""Each link in a chart (step, number, slice) leads to exactly the rows that it counts."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import httpx
import pytest

from tests.browser import school
from tests.support import Database

pytestmark = pytest.mark.anyio

_NUMBER = re.compile(r'<a href="(/(?:events|commands)\?[^"]*)">([\d,]+)(?: \w+)?</a>')
_MOMENT = re.compile(r'<a href="([^"]*)" tabindex="-1"><rect class="point"')
_SLICE = re.compile(
    r'<a href="([^"]*)" tabindex="-1"><path class="slice[^<]*<title>[^<]*: ([\d,]+)'
)
# Minutes since each outcome; every row was created two hours before now.
_WHEN = {"succeeded": 10, "dead": 20, "retried": 30, "tried": 40}


def _statement(table: str) -> str:
    lane, mode = ("topic, mode", "'default', 'single'")
    if table == "commands":
        lane, mode = "queue", "'email'"
    return (
        f"insert into inboxd.{table} ({table[:-1]}_id, {lane}, type, payload, status, attempts,"
        " errors, created_at, updated_at) select gen_random_uuid(), " + mode + ", $1, '{}', $2, 1,"
        " $3::text::jsonb, $4, $5 from generate_series(1, $6)"
    )


_SETTLE = """
with gone as (delete from inboxd.{table} where type = $1 and status = 'pending' returning *)
insert into inboxd.{table}_history ({table1}_id, id, {lane}, type, schema_version, payload, status,
    attempts, crashes, run_at, errors, created_at, updated_at, finished_at{more})
select {table1}_id, id, {lane}, type, 1, payload, 'succeeded', 1, 0, run_at, errors, created_at, $2,
    $2{values} from gone
"""


async def _settle(database: Database, table: str, type_: str, at: datetime) -> None:
    events = table == "events"
    await database.execute(
        _SETTLE.format(
            table=table,
            table1=table[:-1],
            lane="topic, mode" if events else "queue",
            more=", occurred_at"
            if events
            else ", priority, fence, cancel_requested, origin_kind, awaited",
            values=", created_at" if events else ", 0, 0, false, 'api', false",
        ),
        *(type_, at),
    )


async def _happen(database: Database, table: str, now: datetime, many: int) -> None:
    """Rows that succeeded, died, wait for a retry, or succeeded after a retry."""
    kind, lane = table[:-1], "default" if table == "events" else "email"
    minute = timedelta(minutes=1)
    at = {what: now - ago * minute for what, ago in _WHEN.items()}
    created = now - timedelta(hours=2)
    write = _statement(table)

    def error(when: datetime) -> str:
        return f'[{{"attempt": 1, "error": "no answer", "at": "{when}"}}]'

    await database.execute(write, "done", "pending", None, created, created, many)
    await _settle(database, table, "done", at["succeeded"])
    await database.execute(write, "dead", "failed", error(at["dead"]), created, at["dead"], 2)
    retried = (error(at["retried"]), created, at["retried"])
    await database.execute(write, "retried", "pending", *retried, 1)
    await database.execute(write, "tried", "pending", error(at["tried"]), created, created, 3)
    await _settle(database, table, "tried", at["succeeded"])
    counted = [
        *(("done", "succeeded", at["succeeded"], many), ("tried", "succeeded", at["succeeded"], 3)),
        *(("dead", "failed", at["dead"], 2), ("retried", "retried", at["retried"], 1)),
        ("tried", "retried", at["tried"], 3),
    ]
    for type_, outcome, when, count in counted:
        await database.execute(
            "insert into inboxd.stats_written (minute, kind, lane, type, outcome, after, count)"
            " values (date_trunc('minute', $1::timestamptz), $2, $3, $4, $5, '', $6)",
            *(when, kind, lane, type_, outcome, count),
        )


@pytest.fixture
async def filled(database: Database) -> None:
    """Recent outcomes of events and commands."""
    for table in ("events", "commands"):
        await database.execute(f"alter table inboxd.{table} disable trigger user")
        await _happen(database, table, datetime.now(UTC), 5 if table == "events" else 7)
    await database.execute("update inboxd.events set bucket = 0")


def _links(page: str) -> Iterator[tuple[str, int]]:
    """Link and number of rows, for each number below the charts and each slice."""
    for part in re.findall(r'<details class="numbers">.*?</details>', page, re.DOTALL):
        yield from ((unescape(href), int(n.replace(",", ""))) for href, n in _NUMBER.findall(part))
    yield from ((unescape(href), int(n.replace(",", ""))) for href, n in _SLICE.findall(page))


async def _rows(screens: httpx.AsyncClient, link: str) -> list[Any]:
    path, _, query = link.partition("?")
    answer = await screens.get(f"{path}.json?{query}&limit=100")
    assert answer.status_code == 200, (link, answer.text)
    rows: list[Any] = answer.json()[path.strip("/")]
    return rows


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize(
    "path",
    [
        *("/", "/events", "/commands", "/events?span=day", "/commands?type=done"),
        *("/events?span=week", "/commands?span=quarter"),
        *("/queues/email", "/queues/email?span=day", "/topics/default", "/topics/default?span=day"),
    ],
)
async def test_a_number_leads_to_the_rows_that_it_counts(
    screens: httpx.AsyncClient, path: str
) -> None:
    page = (await screens.get(path)).text
    found = Counter[str]()
    for link, number in _links(page):
        found[link] += number  # one list holds failed and retried rows: those with a failed attempt
    # A chart by hours leaves out the hour that has not ended, and one by days the day.
    fewest = 0 if re.search("day|week|quarter", path) else 1 if "type" in path else 3
    assert len(found) >= fewest
    for link, number in found.items():
        assert len(await _rows(screens, link)) == number, link


@pytest.mark.parametrize(("span", "days", "steps"), [("week", 3, 55), ("quarter", 40, 89)])
async def test_a_long_span_leads_to_rows_of_days_ago(
    screens: httpx.AsyncClient, database: Database, span: str, days: int, steps: int
) -> None:
    at = datetime.now(UTC) - timedelta(days=days)
    error = f'[{{"attempt": 1, "error": "no answer", "at": "{at}"}}]'
    await database.execute("alter table inboxd.commands disable trigger user")
    await database.execute(_statement("commands"), "dead", "failed", error, at, at, 2)
    await database.execute(
        "insert into inboxd.stats_written (minute, kind, lane, type, outcome, after, count) values"
        " (date_trunc('minute', $1::timestamptz), 'command', 'email', 'dead', 'failed', '', 2)",
        at,
    )
    page = (await screens.get(f"/commands?span={span}")).text
    found = list(_links(page))
    assert [number for _, number in found] == [2, 2], "of one step, and of one type"
    for link, number in found:
        assert len(await _rows(screens, link)) == number, link
    moments = [unescape(each) for each in _MOMENT.findall(page)]
    assert page.count('class="point"') == steps
    assert [len(await _rows(screens, link)) for link in moments] == [2]
    assert f'<time class="dated" datetime="{at:%Y-%m-%d}' in page
    day = (await screens.get("/commands?span=day")).text
    assert list(_links(day)) == []


@pytest.mark.usefixtures("filled")
async def test_a_step_leads_to_all_rows_that_ended_or_failed_then(
    screens: httpx.AsyncClient,
) -> None:
    page = (await screens.get("/commands")).text
    led = [len(await _rows(screens, unescape(link))) for link in _MOMENT.findall(page)]
    assert sorted(led) == [1, 2, 3, 10], "steps without rows have no link"
    assert page.count('class="point"') == 59


@pytest.mark.usefixtures("filled")
@pytest.mark.parametrize("query", ["queue=none", "queue=none&error=none", "status=cancelled"])
async def test_links_of_a_chart_lead_to_rows_whatever_the_list_beside_it_shows(
    screens: httpx.AsyncClient, query: str
) -> None:
    """The charts count rows of a type and a tenant, not of the other filters."""
    page = (await screens.get(f"/commands?{query}&span=hour")).text
    links = [unescape(each) for each in (*_MOMENT.findall(page), *dict(_links(page)))]
    assert len(links) >= 8
    for link in links:
        assert await _rows(screens, link), link


@pytest.mark.usefixtures("filled")
async def test_a_step_of_a_backlog_leads_to_the_rows_that_waited(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """An hour ago 13 commands waited: since then ten succeeded, two died, and one still waits."""
    assert "by=waiting" not in (await screens.get("/queues/email")).text, "no sample has a row"
    await database.execute(
        "insert into inboxd.sampled_lanes select date_trunc('hour', now(), 'UTC')"
        " - hours * interval '1 hour', 'command', 'email', 'any', many, many, many"
        " from generate_series(0, 2) hours, array_fill(1, array[60]) many"
    )
    page = (await screens.get("/queues/email")).text
    moments = [unescape(each) for each in _MOMENT.findall(page) if "by=waiting" in each]
    led = [len(await _rows(screens, link)) for link in (moments[0], moments[-1])]
    assert led == [13, 1]


async def test_a_step_without_a_sample_has_no_number(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour without a leader does not look like an empty queue."""
    monkeypatch.setattr("inboxd.admin.screens.pages.lanes._FRESH_SECONDS", 0.0)
    await school.fill(database)
    await database.execute("delete from inboxd.sampled_lanes")

    async def numbers() -> list[str]:
        page = (await screens.get("/queues/email")).text
        backlog = page.partition("Backlog")[2].partition("</table>")[0]
        return re.findall('<td class="number">([^<]*)</td>', backlog)

    assert set(await numbers()) == {"0"}
    await database.execute("delete from inboxd.samples where at < now() - interval '30 min'")
    half = await numbers()
    assert set(half) == {"0", "\u2013"}
    assert 50 < half.count("\u2013") < 70


_TREND = re.compile(
    r'<svg class="chart spark"[^>]*aria-label="([^"]*)"><title>[^<]*</title><path[^>]*d="([^"]*)"'
)


async def test_a_trend_has_gaps_and_says_so(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An hour in which no leader lived for ten minutes, of a lane that often had no rows."""
    monkeypatch.setattr("inboxd.admin.screens.pages.lanes._FRESH_SECONDS", 0.0)
    await database.execute(
        "insert into inboxd.commands (type, queue) values ('mail', 'email');"
        "insert into inboxd.events (type, topic) values ('paid', 'orders');"
        "insert into inboxd.samples select date_trunc('minute', now()) - n * interval '1 min',"
        " 0, 0, 0, 0, 0, 0, 0, null, 0, 0, 0, 0, null, 0, 0, 0, 0, 0, 1, true"
        " from generate_series(0, 60) n where n not between 21 and 30;"
        "insert into inboxd.sampled_lanes select date_trunc('hour', at, 'UTC'), kind, lane, type,"
        " none || 5, none || 0, none || 1 from (select now() - interval '40 min' as at) s,"
        " array_fill(null::integer, array[extract(minute from at)::integer]) none,"
        " (values ('command', 'email', 'mail'), ('event', 'orders', 'paid')) v(kind, lane, type)"
    )
    page = ""
    for path in ("/queues", "/topics", "/"):
        page = (await screens.get(path)).text
        trends = _TREND.findall(page)
        assert trends, path
        for title, line in trends:
            assert title == "waiting in the last hour; unknown at 10 of 60 points", path
            assert line.count("M") == 2, path
    assert "The lines have gaps at 10 of 60 points: no sample was taken." in page
    await database.execute("delete from inboxd.samples; delete from inboxd.sampled_lanes")
    page = (await screens.get("/queues")).text
    assert "<small>unknown</small>" in page
    assert not _TREND.findall(page)


@pytest.mark.usefixtures("filled")
async def test_an_unknown_time_of_rows_is_refused(screens: httpx.AsyncClient) -> None:
    answer = await screens.get("/events.json?by=yesterday")
    assert answer.status_code == 400
    assert "by must be one of created, ended, failed, done, waiting" in answer.json()["detail"]
