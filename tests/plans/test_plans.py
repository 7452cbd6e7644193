"""Plans: each statement reads few rows, however many others wait, were settled, or are dead.

The server reports the plan of every statement as it ran (auto_explain), with its session's
settings, also inside functions. Here the tables are full and analyzed, the best case for planners;
`test_statistics` has other statistics. The worst of those is a long test, and with a million rows a
soak: each session made its plans for empty tables, the tables have grown since, a third of the rows
is dead, and there was no vacuum or analyze. Known limit: a statement must pass over dead rows
before its cursor once, so in that state only the indexes are checked, not the pages.
"""

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest

from inboxd.embedded import Server
from inboxd.store.session import Session
from tests.plans.filling import Known, fill, index_today, leave_alone, look_up
from tests.plans.stand import Stand, sessions, undone
from tests.plans.statements import DAEMON, HANDLER, OPERATOR, PRODUCER, Case
from tests.support import Database, ExternalServer, create, drop
from tests.support.plans import told, touched_by

pytestmark = pytest.mark.anyio

Cases = Mapping[str, tuple[Case, tuple[str, ...]]]

# A statement for a page of 10 may read each row's heap page, index pages and a few more; one that
# returns more rows, 6 for each: two topics with lines have 128 buckets to survey.
BUFFERS = 420
BUFFERS_A_ROW = 6
# These read all heads of a topic, or each day of history for each of twenty rows; or survey the
# buckets of all topics, and return one row per topic; or move rows, write others in their places
# and move their edges, all in one call.
MORE = {
    "flush_chunks": 1_500,
    "batch_steps": 1_500,
    "story_waits": 1_500,
    "events_there": 2_000,  # a hundred ids, each by an index of each day
    "take_events": 900,
    "status_lines": 900,
    "replay_commands": 720,  # ten rows, with their dependents locked before
}


@dataclass(frozen=True)
class Full:
    """Sessions on a full database; `worst`: see the head of this module."""

    stand: Stand
    known: Known
    worst: bool


def _states() -> Iterator[Any]:
    yield pytest.param((50_000, False), id="50000 analyzed")
    long = [pytest.mark.long, pytest.mark.timeout(1800)]
    yield pytest.param((200_000, True), id="200000 worst", marks=long)
    soak = [*long, pytest.mark.soak]
    yield pytest.param((1_000_000, False), id="1000000 analyzed", marks=soak)
    yield pytest.param((1_000_000, True), id="1000000 worst", marks=soak)


@pytest.fixture(scope="module", params=_states())
async def full(
    request: pytest.FixtureRequest, server: Server | ExternalServer, template: Database
) -> AsyncIterator[Full]:
    """Full tables, and the sessions to measure."""
    rows, worst = request.param
    database = create(server, template.name)
    known = Known()
    try:
        async with sessions(database) as stand:
            await leave_alone(database)
            await index_today(database)
            if worst:
                await stand.plan(known)
            # Without statistics, or if the sample has none of a few rows, the planner expects no
            # rows, and then all indexes of these rows cost the same.
            await fill(database, rows, dead=20 if worst else rows // 250)
            if not worst:
                await database.execute("vacuum analyze")
            await look_up(database, known)
            yield Full(stand, known, worst)
    finally:
        drop(server, database)


async def _ask(full: Full, session: Session, cases: Cases, name: str) -> None:
    case, indexes = cases[name]
    # In the first run the driver reads types, and planning reads the catalogue; an operator's
    # statement is planned in the second run too.
    if not full.worst or session is full.stand.operator:
        await undone(session, case(session, full.known))
    nodes = await told(session, undone(session, case(session, full.known)))
    _hold(nodes, indexes)
    if not full.worst:
        touched = max(touched_by(n) for n in nodes)
        roots = (n["Actual Rows"] for n in nodes if "Parent Relationship" not in n)
        assert touched < max(MORE.get(name, BUFFERS), BUFFERS_A_ROW * max(roots))


def _hold(nodes: list[dict[str, Any]], indexes: tuple[str, ...]) -> None:
    """Check that these indexes are used, and that no large table is read from end to end."""
    scanned = {n.get("Relation Name", "") for n in nodes if n["Node Type"] == "Seq Scan"}
    large = {
        t
        for t in scanned
        if t.startswith(("events", "commands", "dedup", "duplicates", "receipts", "held"))
    }
    filled = {t for t in large if _rows_of(nodes, t) > 1000}
    assert not filled, "tables are read from end to end"
    used = {n.get("Index Name") for n in nodes}
    assert set(indexes) <= used
    for what in ("Filter", "Join Filter"):
        removed = sum(n.get(f"Rows Removed by {what}", 0) * n["Actual Loops"] for n in nodes)
        assert removed < 100, "rows are filtered, not found by an index"


def _rows_of(nodes: list[dict[str, Any]], table: str) -> int:
    """The number of rows that sequential scans of a table read."""
    scans = [n for n in nodes if n["Node Type"] == "Seq Scan" and n.get("Relation Name") == table]
    return sum(int(n["Actual Rows"] + n.get("Rows Removed by Filter", 0)) for n in scans)


@pytest.mark.parametrize("name", DAEMON)
async def test_statements_of_the_daemon(full: Full, name: str) -> None:
    await _ask(full, full.stand.daemon, DAEMON, name)


@pytest.mark.parametrize("name", OPERATOR)
async def test_statements_of_operators(full: Full, name: str) -> None:
    await _ask(full, full.stand.operator, OPERATOR, name)


@pytest.mark.parametrize("name", PRODUCER)
async def test_statements_of_producers(full: Full, name: str) -> None:
    await _ask(full, full.stand.producer, PRODUCER, name)


@pytest.mark.parametrize("name", HANDLER)
async def test_statements_of_handlers(full: Full, name: str) -> None:
    await _ask(full, full.stand.handler, HANDLER, name)
