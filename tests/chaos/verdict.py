"""Checks the promises on the rows that a run has left.

Each invariant is a query for the rows that break it. The `ledger` has what happened; the script of
each row has what was expected.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import asyncpg

from tests.chaos.lanes import LANES
from tests.chaos.ledger import GATHER
from tests.chaos.rows import ROWS
from tests.support import Database
from tests.support.counted import COUNTED
from tests.support.groups import WRONG_GROUPS
from tests.support.verdicts import Kind

_SHOWN = 5
_GROUPS = {f"batches and workflows: {name}": query for name, query in WRONG_GROUPS.items()}
_INVARIANTS = {**ROWS, **LANES, **_GROUPS}

_FIGURES = f"""
select (select count(*) from chaos_produced where kind = 'event') as events_accepted,
       (select count(*) from chaos_produced where kind = 'command') as commands_accepted,
       (select count(*) from chaos_rows where kind = 'command' and parent is not null) as children,
       (select count(*) from chaos_rows where kind = 'event' and parent is not null) as emitted,
       (select count(*) from chaos_ledger where line is not null) as effects_in_lines,
       (select count(distinct chunk) from chaos_ledger) as chunks,
       (select count(*) from inboxd.batches) as batches,
       (select count(*) from inboxd.batches where kind = 'workflow') as workflows,
       (select count(*) from inboxd.replays) as replays,
       (select count(distinct id) from chaos_moves where queue = 'chaos.scarce') as of_a_limit,
       (select count(distinct id) from chaos_moves where queue = 'chaos.paced') as of_a_rate,
       (select count(distinct id) from chaos_moves where unique_key is not null) as of_unique_keys,
       (select count(*) from chaos_rows where kind = 'command' and status = 'cancelled')
           as cancelled,
       (select count(*) from chaos_produced where kind = 'once') as of_dedup_keys,
       (select count(*) from chaos_rows where type = 'chaos.once') as of_them_written,
       (select count(*) from chaos_produced where kind = 'due') as runs_of_schedules,
       (select count(*) from chaos_rows where status = 'failed') as dead_letters_asked_for,
       (select count(*) from chaos_rows where crashes > 0) as rows_that_crashed,
       (select sum(attempts) from chaos_rows) as attempts,
       (select sum(count) from {COUNTED}
         where outcome <> 'deferred'
           and (type like 'chaos.%' or type = 'testplugin.later'))
           as attempts_in_statistics,
       (select count(*) from chaos_traces) - (select count(distinct key) from chaos_traces)
           as effects_outside_repeated
"""
_ERRORS = """
select substring(error ->> 'error' from '^[A-Za-z]+') || ', ' || kind as error, count(*)
from chaos_rows, jsonb_array_elements(errors) as error group by 1 order by 2 desc
"""


@dataclass(frozen=True)
class BrokenPromise:
    """A promise that did not hold, and the rows that show it."""

    promise: str
    rows: tuple[str, ...]
    kind: Kind = "violation"

    def __str__(self) -> str:
        """The text for a terminal: the first rows; the folder has all of them."""
        more = len(self.rows) - _SHOWN
        lines = [f"VIOLATED: {self.promise}", *(f"    {row}" for row in self.rows[:_SHOWN])]
        return "\n".join([*lines, f"    … and {more} more"] if more > 0 else lines)


async def judge(database: Database, traced: Sequence[str]) -> list[BrokenPromise]:
    """Return the broken promises, once all processes rest. traced: keys of traces outside."""
    async with database.connect() as connection:
        records = [(key,) for key in traced]
        await connection.copy_records_to_table("chaos_traces", records=records)
        await connection.execute(GATHER, timeout=120)
        found = []
        for promise, query in _INVARIANTS.items():
            rows = await connection.fetch(query, timeout=120)
            if rows:
                found.append(BrokenPromise(promise, tuple(map(show, rows))))
    return found


async def figures(database: Database) -> dict[str, object]:
    """The totals of a run, for its last lines."""
    [row] = await database.fetch(_FIGURES)
    errors = await database.fetch(_ERRORS)
    return {**dict(row), "errors": {row["error"]: row["count"] for row in errors}}


def show(row: asyncpg.Record) -> str:
    """A row on one line."""
    return json.dumps(dict(row), default=str)
