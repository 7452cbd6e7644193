"""What a page costs: at most eight statements, and what is shared is read once for all visitors.

Counted is all that is asked of the database for a page, but for the snapshot that all pages share,
which is read at most every two seconds. What visitors share besides (totals, figures, labels, an
examination) is read with the first page, and then again when some seconds are over: a page that is
the first to be opened asks for it too.
Known limits: a story asks one statement more for each level beyond its fourth; a list that begins
at a time may ask a ninth, which looks for its id.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import httpx
import pytest

from inboxd.admin.screens.pages import SCREENS
from tests.browser import school
from tests.screens.asked import AskedStatements, listen
from tests.screens.test_batches import send_batch, send_workflow
from tests.support import Database
from tests.support.bulk_actions import ordered

pytestmark = pytest.mark.anyio

MOST: Final = 8
# Of what is shared: totals (8), figures (3), names and labels. An examination is apart.
SHARED: Final = 13
EXAMINED: Final = "/doctor"
# Each page of the router, as it is asked for; in braces a row of the database.
VISITS: Final[Mapping[str, tuple[str, ...]]] = {
    "/": ("/",),
    "/events": (
        *("/events", "/events?status=failed", "/events?commands=failed&type=answer.given"),
        *("/events?type=none&tenant=none", "/events?error=none", "/events?below=100"),
        *("/events?until=1m&type=answer.given", "/events?entity=none", "/events?payload=none%3D1"),
    ),
    "/commands": (
        *("/commands", "/commands?type=school.send_email", "/commands?type=none&status=succeeded"),
        *("/commands?queue=none", "/commands?error=none", "/commands?span=day&limit=100"),
    ),
    "/events/{id}": ("/events/{event}", "/events/{event}?payload=1", "/events/{pending}"),
    "/commands/{id}": (
        *("/commands/{dead}", "/commands/{command}", "/commands/{command}?payload=1"),
        "/commands/{next}",
    ),
    "/batches": ("/batches", "/batches?status=failed&tenant=none"),
    "/workflows": ("/workflows",),
    "/batches/{id}": ("/batches/{batch}", "/batches/{workflow}", "/batches/{batch}?status=failed"),
    "/story/{kind}/{id}": ("/story/event/{event}", "/story/batch/{workflow}"),
    "/find": ("/find", "/find?q=nobody", "/find?q={event}", "/find?q=malta"),
    "/failures": ("/failures",),
    "/failures/{group:path}": ("/failures/{group}", "/failures/-"),
    "/queues": ("/queues",),
    "/queues/{name:path}": ("/queues/grading", "/queues/email?span=day"),
    "/topics": ("/topics",),
    "/topics/{name:path}": ("/topics/points", "/topics/default?span=day"),
    "/types": ("/types",),
    "/types/{kind}/{type:path}": ("/types/command/school.send_email", "/types/event/answer.given"),
    "/schedules": ("/schedules",),
    "/breakers": ("/breakers",),
    "/endpoints": ("/endpoints",),
    "/endpoints/{name:path}": ("/endpoints/acme", "/endpoints/acme?status=succeeded"),
    "/sources": ("/sources",),
    "/spools": ("/spools",),
    "/workers": ("/workers", "/workers?all=1"),
    "/history": ("/history", "/history?all=1"),
    "/statement": ("/statement", "/statement?source=none"),
    "/doctor": (EXAMINED,),
    "/actions": ("/actions", "/actions?below=9"),
    "/actions/{id}": ("/actions/{action}",),
    "/audit": ("/audit", "/audit?actor=nobody"),
}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> AskedStatements:
    """The statements that pages ask; the snapshot and what is shared stay."""
    monkeypatch.setattr("inboxd.admin.screens.snapshot._FRESH", 3600.0)
    for name in (
        *("rows._TOTALS", "rows._FIGURES", "rows._NAMES", "batches._TOTALS"),
        *("titles._FRESH", "doctor._FRESH"),
    ):
        monkeypatch.setattr(f"inboxd.admin.screens.pages.{name}", 3600.0)
    monkeypatch.setattr("inboxd.store.session._RIGHTS", 3600.0)
    return listen(monkeypatch)


@pytest.fixture
async def rows(database: Database) -> dict[str, object]:
    """A school, what it lacks for the pages of how the inbox runs, and rows of it to look at."""
    await school.fill(database)
    operating = Path(__file__).with_name("operating.sql")
    await database.execute(operating.read_text())
    batch = await send_batch(database, "mails", 3)
    workflow = await send_workflow(database)
    await database.execute("analyze")
    (found,) = await database.fetch(
        "select (select max(origin_id) from inboxd.commands_history where origin_kind = 'event'),"
        " (select max(id) from inboxd.commands_history), (select max(id) from inboxd.events),"
        " (select min(id) from inboxd.commands where status = 'failed'),"
        " (select min(fingerprint) from inboxd.commands where status = 'failed')"
    )
    event, command, pending, dead, group = found
    # One that nothing holds: then it is asked as well what claims take first.
    await database.execute(
        "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
        " declares) values (gen_random_uuid(), 'w', '', 1, '', '{}', '{next.due}', '{}', '')"
    )
    ((next_,),) = await database.fetch(
        "insert into inboxd.commands (queue, type) values ('next', 'next.due') returning id"
    )
    return {
        "event": event,
        "command": command,
        "pending": pending,
        "next": next_,
        "dead": dead,
        "group": group,
        "batch": batch,
        "workflow": workflow,
        "action": await ordered(database),
    }


async def _counted(screens: httpx.AsyncClient, asked: AskedStatements, path: str) -> list[str]:
    asked.begin()
    answer = await screens.get(path)
    assert answer.status_code in (200, 303, 307), (path, answer.status_code)
    return await asked.statements()


def test_each_page_of_the_router_is_visited() -> None:
    assert VISITS.keys() == {screen.path for screen in SCREENS}


async def test_a_page_asks_at_most_eight_statements(
    asked: AskedStatements, screens: httpx.AsyncClient, rows: dict[str, object]
) -> None:
    await screens.get("/spools")  # the snapshot
    beyond: dict[str, list[str]] = {}
    for path in (path.format(**rows) for paths in VISITS.values() for path in paths):
        first = await _counted(screens, asked, path)
        again = await _counted(screens, asked, path)
        if len(again) > MOST:
            beyond[path] = again
        if path != EXAMINED:
            assert len(first) <= MOST + SHARED, (path, first)
    assert beyond == {}


async def test_no_page_asks_the_same_twice(
    asked: AskedStatements, screens: httpx.AsyncClient, rows: dict[str, object]
) -> None:
    for path in (path.format(**rows) for paths in VISITS.values() for path in paths):
        await _counted(screens, asked, path)
        again = await _counted(screens, asked, path)
        assert {each for each in again if again.count(each) > 1} == set(), path


async def test_what_visitors_share_is_read_once(
    asked: AskedStatements, screens: httpx.AsyncClient, rows: dict[str, object]
) -> None:
    """Totals and figures cost fifty visitors what they cost one; an examination nothing more."""
    await screens.get("/events")
    await screens.get(EXAMINED)
    for _ in range(5):
        again = await _counted(screens, asked, "/events")
        assert not [query for query in again if "census" in query or "stats_" in query]
        assert await _counted(screens, asked, EXAMINED) == []
