"""The verdict can find everybody guilty: each invariant notices the row that breaks it."""

import pytest

from tests.chaos.verdict import TABLES, figures, judge
from tests.support import Database

pytestmark = pytest.mark.anyio

KEY = "00000000-0000-4000-8000-000000000001"
_ACCEPTED = f"insert into chaos_produced values ('event', '{KEY}', '{{}}')"
_EVENT = f"insert into inboxd.events (type, event_id) values ('chaos.fact', '{KEY}')"
_HISTORY = """
insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version, payload, status,
    attempts, crashes, run_at, occurred_at, created_at, updated_at, finished_at)
select {id}, '{key}', 'default', 'single', 'chaos.fact', 1, '{payload}', 'succeeded',
    1, 0, now(), now(), now(), now(), now()
"""
_DONE = _HISTORY.format(id=1, key=KEY, payload="{}")
_TRACE = f"insert into chaos_ledger values ('event', '{KEY}')"
_CHILD = (
    "insert into inboxd.commands (type, origin_kind, origin_id, causation_id, correlation_id)"
    f" values ('chaos.act', 'event', 1, '{KEY}', '{{}}')"
)


async def _broken(database: Database, *statements: str) -> set[str]:
    await database.execute(TABLES)
    for statement in statements:
        await database.execute(statement)
    found = {violation.promise for violation in await judge(database, [])}
    await figures(database)
    return found


async def test_nothing_is_wrong(database: Database) -> None:
    assert await _broken(database, _ACCEPTED, _DONE, _TRACE) == set()


@pytest.mark.parametrize(
    ("promise", "statements"),
    [
        ("nothing accepted is lost", [_ACCEPTED]),
        ("what rolled back is not there", [_DONE, _TRACE]),
        ("a row is in one place, once", [_ACCEPTED, _DONE, _DONE, _TRACE]),
        ("a row is in one place, once", [_ACCEPTED, _DONE, _EVENT, _TRACE]),
        (
            "a payload is what was written",
            [_ACCEPTED, _HISTORY.format(id=1, key=KEY, payload='{"n": 1}'), _TRACE],
        ),
        ("everything is settled, as its script says", [_ACCEPTED, _EVENT]),
        ("every effect exactly once", [_ACCEPTED, _DONE]),
        ("every effect exactly once", [_ACCEPTED, _DONE, _TRACE, _TRACE]),
        (
            "every effect outside the database at least once",
            [_DONE.replace("chaos.fact", "chaos.light")],
        ),
        (
            "every child once, and only of what succeeded",
            [_ACCEPTED, _DONE, _TRACE, _CHILD.format(KEY)],
        ),
        (
            "every child once, and only of what succeeded",
            [_HISTORY.format(id=1, key=KEY, payload='{"children": [{}]}')],
        ),
        ("a child's lineage leads to its parent", [_DONE, _CHILD.format("another story")]),
        (
            "no failure that nobody asked for",
            [_EVENT, """update inboxd.events set errors = '[{"error": "ValueError: no"}]'"""],
        ),
        (
            "ids are not ahead of their sequences",
            [_EVENT, _HISTORY.format(id=7, key=KEY, payload="{}")],
        ),
    ],
)
async def test_it_notices(database: Database, promise: str, statements: list[str]) -> None:
    assert promise in await _broken(database, *statements)
