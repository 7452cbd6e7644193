"""Markers in charts: acts of operators, breakers that open or close, workers of a release."""

import re
from datetime import UTC, datetime, timedelta
from html import unescape
from uuid import UUID, uuid4

import httpx
import pytest

from inboxd.admin.screens.pages.markers import placed
from inboxd.operations.markers import MOST, happened
from inboxd.store import breakers, workers
from inboxd.store.markers import Marker
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from tests.support import Database
from tests.support.rows import daemon_session, settings_of

pytestmark = pytest.mark.anyio

HOSTILE = "\"'><img src=x onerror=alert(1)></title><script>alert(2)</script>"


async def _join(session: Session, release: str | None, minutes: int) -> UUID:
    """Register a worker that started `minutes` ago."""
    me = workers.WorkerIdentity(
        *(uuid4(), "w", f"node-{minutes}", 1, "1.0", (), (), (), "same"), release=release
    )
    await workers.join(session, me)
    back = f"update inboxd.workers set started_at = now() - {minutes} * interval '1 min'"
    await session.connection.execute(f"{back} where id = $1", me.id)
    return me.id


async def _act(database: Database, action: str, target: str, reason: str | None, ago: str) -> int:
    return int(
        await database.fetchval(
            "insert into inboxd.audit (at, actor, action, target, reason, count)"
            " values (now() - $1::text::interval, 'ana', $2, $3, $4, 1) returning id",
            *(ago, action, target, reason),
        )
    )


async def _happened(database: Database) -> list[Marker]:
    async with open_session(settings_of(database)) as session:
        return await happened(session, timedelta(hours=1))


async def test_acts_of_operators_stand_under_the_chart_and_in_it(
    screens: httpx.AsyncClient, database: Database
) -> None:
    entry = await _act(database, "pause", "topic mail", HOSTILE, "10 min")
    await _act(database, "view", "events 4", None, "9 min")
    await _act(database, "resume", "topic of yesterday", None, "30 hours")
    for path in ("/", "/events", "/commands", "/queues/default", "/topics/default"):
        page = (await screens.get(path)).text
        assert page.count('<g class="marker act">') == (
            1 if path in ("/events", "/commands") else 2
        )
        (listed,) = re.findall(r'<details class="happened">.*?</details>', page, re.DOTALL)
        assert f"ana: pause topic mail: {HOSTILE}" in unescape(listed), path
        assert f'href="/audit?below={entry + 1}"' in listed
        assert "<img" not in page
        assert "<script>alert" not in page
        assert "view" not in listed
    led = await screens.get(f"/audit.json?below={entry + 1}")
    assert led.json()["audit"][0]["id"] == entry


async def test_many_acts_are_bounded(database: Database) -> None:
    await database.execute(
        "insert into inboxd.audit (at, actor, action, target, count) select now() - n * interval"
        " '1 s', 'rui', case n % 3 when 0 then 'view' else 'pause' end, 'queue ' || n, 1"
        " from generate_series(1, 900) n"
    )
    found = await _happened(database)
    assert len(found) == MOST
    assert found[0]["subject"] == "queue 1", "the list begins with the newest"


async def test_a_breaker_that_opens_and_closes_is_marked_once_each(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """A failed probe opens the breaker again, and makes no second marker."""
    async with daemon_session(database) as session:
        me, reason = uuid4(), "5 of 6 calls failed"
        version = await breakers.open_(session, "mail", 0, 0.0, 1, reason)
        for opens in (2, 3):
            version = await breakers.take_probe(session, "mail", me, 10.0)
            assert version is not None
            version = await breakers.open_(session, "mail", version, 0.0, opens, reason)
        version = await breakers.take_probe(session, "mail", me, 10.0)
        assert version is not None
        assert await breakers.close(session, "mail", version) is not None
        assert await breakers.close(session, "mail", version) is None, "already closed"
    told = [(each["kind"], each["what"], each["subject"]) for each in await _happened(database)]
    assert told == [("breaker", "closed", "mail"), ("breaker", "open", "mail")]
    await database.execute("update inboxd.breaker_changes set at = now() - interval '5 min'")
    page = (await screens.get("/")).text
    assert "Breaker mail opened" in page
    assert "Breaker mail closed" in page
    await database.execute("update inboxd.breaker_changes set at = now() - interval '15 days'")
    async with daemon_session(database) as session:
        await breakers.forget(session)
    assert await database.fetchval("select count(*) from inboxd.breaker_changes") == 0


async def test_the_first_and_the_last_worker_of_a_release_are_marked(
    database: Database,
) -> None:
    """The other workers of a deploy have no marker, nor has a worker that restarts."""
    async with daemon_session(database) as session:
        old = [await _join(session, "school 1.3", minutes) for minutes in (300, 299)]
        for minutes in (30, 29):
            await _join(session, "school 1.4", minutes)
        for worker in old:
            await workers.leave(session, worker)
    found = [(each["what"], each["subject"], each["who"]) for each in await _happened(database)]
    assert found == [
        ("left", "school 1.3, inboxd 1.0", None),
        ("joined", "school 1.4, inboxd 1.0", "node-30"),
    ]


async def test_a_worker_that_is_started_again_is_no_other_release(database: Database) -> None:
    async with daemon_session(database) as session:
        for minutes in (90, 20):
            worker = await _join(session, None, minutes)
            if minutes == 90:
                await workers.leave(session, worker)
    assert await _happened(database) == []


def test_markers_outside_of_a_chart_are_left_out() -> None:
    begin = datetime(2026, 5, 1, tzinfo=UTC)
    steps = [begin + n * timedelta(minutes=1) for n in range(60)]

    def at(minutes: float) -> Marker:
        return Marker(
            at=begin + timedelta(minutes=minutes),
            kind="act",
            entry=1,
            what="pause",
            subject="queue x",
            who="ana",
            reason=None,
            rows=1,
        )

    found = placed([at(61), at(59.5), at(29.5), at(0), at(-1)], steps)
    assert [each.place for each in found] == [0.0, 0.5, 1.0]
