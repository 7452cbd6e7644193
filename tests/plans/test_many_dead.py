"""Failure groups of many dead letters: what is read of them has a bound, and counts say so.

The blocks are those that the server reads for the list of groups, its trends and the spread of the
largest group, each time in a new session, also for planning: in vacuumed tables, where an index
entry is enough, and in others, where it costs a look at its row.
"""

import pytest

from inboxd.embedded import Server
from inboxd.operations.failures import (
    COUNTED,
    COUNTED_EACH,
    Group,
    failures,
    spread_of,
    trends_of,
)
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import connect
from tests.plans.filling import leave_alone
from tests.plans.statistics import PAGES
from tests.support import Database, ExternalServer, create, drop
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio

BLOCKS = 2_000
# One for each index entry of both tables that is counted, with its row, and the other reads.
BLOCKS_WITH_ROWS = 2 * COUNTED + BLOCKS
# Rows with one failure, with another one of two types, and without a group.
_DEAD = """
insert into inboxd.{table} (type, status, attempts, fingerprint, errors)
    select case when n % 10 = 1 then 'mail.check' else 'mail.send' end, 'failed', 1,
           case n % 10 when 0 then 'g2' when 1 then 'g2' when 2 then null else 'g1' end,
           jsonb_build_array(jsonb_build_object('error', 'no such mailbox', 'process', 'h:1'))
      from generate_series(1, {rows}) n
"""


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rows", [100_000, pytest.param(1_000_000, marks=pytest.mark.long)])
async def test_groups_of_many_dead_letters_are_read_within_a_bound(
    server: Server | ExternalServer, template: Database, rows: int
) -> None:
    database = create(server, template.name)
    try:
        await leave_alone(database)
        for table in ("events", "commands"):
            await database.execute(_DEAD.format(table=table, rows=rows))
        await database.execute("analyze")
        unvacuumed, found = await _read(database)
        await database.execute("vacuum analyze")
        vacuumed, again = await _read(database)
        async with open_session(settings_of(database)) as session:
            (one, other) = await failures(session, "g1")
    finally:
        drop(server, database)
    share = COUNTED // 4
    assert unvacuumed <= BLOCKS_WITH_ROWS
    assert vacuumed <= BLOCKS
    assert found == again
    assert {(each.kind, each.fingerprint): each.count for each in found} == {
        (kind, name): count
        for kind in ("event", "command")
        for name, count in (("g1", share), ("g2", 2 * share), (None, share))
    }
    assert all(each.at_least for each in found)
    assert found[0].types == {"mail.check": share, "mail.send": share}
    assert (one.count, one.at_least) == (other.count, other.at_least) == (COUNTED_EACH, True)


async def test_rows_that_small_groups_leave_over_go_to_large_ones(database: Database) -> None:
    await database.execute(
        "insert into inboxd.events (type, status, attempts, fingerprint, errors)"
        " select 'a.b', 'failed', 1, case when n <= 200 then 'small' || n else 'large' end,"
        """ '[{"error": "no"}]' from generate_series(1, 9200) n"""
    )
    async with open_session(settings_of(database)) as session:
        largest, *others = await failures(session)
    assert (largest.fingerprint, largest.count, largest.at_least) == ("large", 9_000, False)
    assert {(each.count, each.at_least) for each in others} == {(1, False)}


async def _read(database: Database) -> tuple[int, list[Group]]:
    """Read as the pages do: the blocks that it took, and the groups."""
    settings = settings_of(database)
    observer = await connect(settings, "operator", plans={})
    try:
        async with open_session(settings) as session:
            await session.connection.execute("select pg_stat_force_next_flush()")
            before = await observer.connection.fetchval(PAGES)
            found = await failures(session)
            await trends_of(session, found)
            await spread_of(session, found[0])
            await session.connection.execute("select pg_stat_force_next_flush()")
            return int(await observer.connection.fetchval(PAGES) - before), found
    finally:
        observer.connection.terminate()
