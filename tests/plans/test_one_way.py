"""One way to each row (ADR 16): where a table is believed empty, no second plan is as good.

Every statement is planned in emptied and analyzed tables. Then each index that it uses is dropped
in a transaction that is rolled back, and the statement is planned again: the new plan must cost
much more, or be disabled. In such tables costs differ only by the height of an index, which depends
on the length of names and keys; this test asks the planner, so it needs no such names. Known limit:
a table is recognized by its alias. If several tables in joined subqueries have the same alias, the
server numbers them by the order of joins, which may change with an index: so each needs its own
alias.
"""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from inboxd.embedded import Server
from inboxd.store.session import Session
from tests.plans.filling import Known, empty, fill, index_today, leave_alone
from tests.plans.stand import Stand, sessions, undone
from tests.plans.statements import DAEMON, HANDLER, OPERATOR, PRODUCER, Case
from tests.support import Database, ExternalServer, create, drop
from tests.support.plans import TELL, nodes_of
from tests.support.rows import join

pytestmark = pytest.mark.anyio

Plans = dict[str, dict[str, Any]]
Emptied = tuple[Stand, Known, dict[str, str]]

# One level of an index costs 1.5 % of a lookup here, and there are few levels.
_AS_GOOD = 1.12
# The cost that the server adds to a disabled step, up to version 17.
_DISABLED = 1e9
# Both indexes find the members of one batch.
_EQUAL = {("commands_held_up", "commands_batch")}


@pytest.fixture(scope="module")
async def emptied(server: Server | ExternalServer, template: Database) -> AsyncIterator[Emptied]:
    """Sessions on tables that are believed empty, and the statement that drops each index."""
    database = create(server, template.name)
    try:
        await leave_alone(database)
        await index_today(database)
        await fill(database, 200, 20)
        await empty(database)
        await database.execute("analyze")
        async with sessions(database) as stand:
            for session in (stand.daemon, stand.operator, stand.producer, stand.handler):
                await session.connection.execute(TELL)
            yield stand, Known(worker=await join(stand.operator)), await _drops(database)
    finally:
        drop(server, database)


async def _drops(database: Database) -> dict[str, str]:
    rows = await database.fetch(
        "select c.relname as index, i.indrelid::regclass::text as of, con.conname as constraint"
        "  from pg_index i join pg_class c on c.oid = i.indexrelid"
        "  left join pg_constraint con on con.conindid = c.oid and con.conrelid = i.indrelid"
        " where c.relnamespace = 'inboxd'::regnamespace and not c.relispartition"
    )
    return {
        row["index"]: f"alter table {row['of']} drop constraint {row['constraint']} cascade"
        if row["constraint"]
        else f"drop index inboxd.{row['index']} cascade"
        for row in rows
    }


async def _plans(session: Session, case: Case, known: Known, before: str = "") -> Plans:
    """The plans of a case's statements, also inside functions; it may fail for lack of rows."""
    heard: list[str] = []

    def hear(_: object, message: asyncpg.PostgresLogMessage) -> None:
        heard.append(str(message.message))

    async def work() -> None:
        if before:
            await session.connection.execute(before)
        try:
            await case(session, known)
        except asyncpg.PostgresError:
            assert before, "the case may fail only without an index"

    session.connection.add_log_listener(hear)
    await undone(session, work())
    session.connection.remove_log_listener(hear)
    told = [json.loads(text[text.index("{") :]) for text in heard if "plan:" in text]
    return {each["Query Text"]: each["Plan"] for each in told}


def _ways(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The steps that read a table by an index, and are not disabled."""
    for node in nodes_of(plan):
        if "Index Name" in node and not node.get("Disabled") and node["Total Cost"] < _DISABLED:
            yield {"Alias": "", **node}  # a part of a bitmap has no alias


def _as_good(plan: dict[str, Any], index: str, other: dict[str, Any]) -> Iterator[str]:
    """The indexes that read the same table in place of `index` at a similar cost."""
    known = {(way["Alias"], way["Index Name"]) for way in _ways(plan)}
    for way in _ways(plan):
        if way["Index Name"] == index:
            for twin in _ways(other):
                if (
                    twin["Alias"] == way["Alias"]
                    and (twin["Alias"], twin["Index Name"]) not in known
                    and twin["Total Cost"] <= _AS_GOOD * way["Total Cost"]
                    and (index, twin["Index Name"]) not in _EQUAL
                ):
                    yield f"{index} for {way['Alias']}, or {twin['Index Name']}"


@pytest.mark.parametrize("name", [*DAEMON, *OPERATOR, *PRODUCER, *HANDLER])
async def test_there_is_one_way(emptied: Emptied, name: str) -> None:
    stand, known, drops = emptied
    ((session, case),) = [(s, case) for each, s, case in stand.cases() if each == name]
    await undone(session, case(session, known))
    plans = await _plans(session, case, known)
    used = {way["Index Name"] for plan in plans.values() for way in _ways(plan)}
    ties = set()
    for index in sorted(used & drops.keys()):
        others = await _plans(session, case, known, drops[index])
        for query in plans.keys() & others.keys():
            for tie in _as_good(plans[query], index, others[query]):
                ties.add(f"{tie}: {' '.join(query.split())[:100]}")
    assert not ties
