"""The pages that each statement reads, whatever the planner believes of the tables.

Owns the states of statistics: how a table gets into each, when plans are made, and when they run; a
generic plan is kept, so the two differ. The server's own counters give the pages, also those that
EXPLAIN hides for data-modifying WITH; time is not measured.

    python -m tests.plans 10000        # a table of all statements, states and pages

Known limit: rows deleted under a held snapshot stay in the indexes, and a statement that reads from
the beginning passes over them once, whatever its plan is.
"""

from collections.abc import AsyncIterator, Awaitable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import TypeAlias

import asyncpg

from inboxd.store.connections import Connection
from inboxd.store.session import Session
from tests.plans.filling import WORKER, Known, empty, fill, index_today, leave_alone, look_up
from tests.plans.stand import Stand, pooled_sessions, sessions
from tests.support import Database, create, drop, eventually
from tests.support.databases import AnyServer
from tests.support.rows import SQL, join

# The state that other states are compared with: full, analyzed, and planned in that state.
GOOD = "full and analyzed"
# Courses into states: a word is a step of `_Site`, a phrase in quotes is a state's name.
Courses: TypeAlias = tuple[tuple[tuple[str, str], ...], ...]
COURSES: Courses = (
    (("plan fill", "never analyzed"),),
    (
        ("few empty vacuum analyze plan fill", "planned when vacuumed and analyzed empty"),
        ("new", "filled since it was vacuumed and analyzed empty"),
    ),
    (
        ("few empty analyze plan fill", "planned when emptied and analyzed"),
        ("new", "filled since it was emptied and analyzed"),
    ),
    (
        ("fill vacuum analyze new", GOOD),
        ("plan empty few", "emptied since it was analyzed full"),
        ("vacuum new", "emptied and vacuumed"),
        ("plan empty fill", "planned when emptied and vacuumed"),
    ),
    (
        ("fill vacuum analyze hold empty analyze plan few", "emptied under a snapshot, analyzed"),
        ("empty fill", "planned when emptied under a snapshot"),
        ("new", "filled since it was emptied under a snapshot"),
    ),
)
STATES = tuple(name for course in COURSES for _, name in course)
# Behind a pooler a statement is planned each time, by the statistics of that moment.
POOLED = (
    (
        ("fill vacuum analyze pooled", GOOD),
        ("empty vacuum analyze fill", "filled since it was vacuumed and analyzed empty"),
        ("empty analyze fill", "filled since it was emptied and analyzed"),
        ("hold empty analyze fill", "filled since it was emptied under a snapshot"),
    ),
)

_ROWS_WHEN_FEW = 200
_DEAD_LETTERS = 20
PAGES = """
select coalesce(sum(heap_blks_read + heap_blks_hit + coalesce(idx_blks_read + idx_blks_hit, 0)
           + coalesce(toast_blks_read + toast_blks_hit, 0)
           + coalesce(tidx_blks_read + tidx_blks_hit, 0)), 0)::bigint
  from pg_statio_all_tables where schemaname = 'inboxd'
"""


@dataclass
class Touched:
    """The pages of each statement in each state, and the number of dead rows there."""

    pages: dict[str, dict[str, int]] = field(default_factory=dict)
    dead: dict[str, int] = field(default_factory=dict)


@dataclass
class _Site:
    """A database on its way through a course of states."""

    database: Database
    rows: int
    observer: Connection
    holder: Connection
    stack: AsyncExitStack
    stand: Stand
    known: Known = field(default_factory=Known)
    old: list[int] = field(default_factory=list)
    deleted: int = 0

    async def step(self, word: str) -> None:
        """Run one step of a course."""
        match word:
            case "plan":
                if self.known.worker == WORKER:  # a worker that has not joined claims nothing
                    self.known.worker = await join(Session(self.observer, SQL))
                await self.stand.plan(self.known)
            case "new" | "pooled":
                self.old += await self.stand.count()
                anew = sessions if word == "new" else pooled_sessions
                self.stand = await self.stack.enter_async_context(anew(self.database))
            case "fill" | "few":
                rows = self.rows if word == "fill" else _ROWS_WHEN_FEW
                await fill(self.database, rows, _DEAD_LETTERS)
                await look_up(self.database, self.known)
                self.deleted += rows  # half of it events, half commands
            case "empty":
                self.deleted += await empty(self.database)
            case "hold":
                await self.holder.execute(
                    "begin isolation level repeatable read; select 1 from inboxd.workers"
                )
            case _:
                await self.database.execute(word)
                self.deleted = 0 if word == "vacuum" else self.deleted

    async def measure(self) -> dict[str, int]:
        """The pages of each statement now; it runs twice, so that the first run makes its plan."""
        found = {}
        await self._all_is_counted()
        for name, session, case in self.stand.cases():
            await self.stand.undone(session, case(session, self.known))
            again = self.stand.undone(session, case(session, self.known))
            found[name] = await self._pages_of(session, again)
        return found

    async def _all_is_counted(self) -> None:
        """Wait until the server has counted all earlier pages, also those of ended sessions."""
        await self.database.end_sessions()
        ours = [*self.old, *await self.stand.count()]
        ours += [each.get_server_pid() for each in (self.observer, self.holder)]
        others = (
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and pid <> all ($1)"
        )

        async def others_are_gone() -> bool:
            return bool(await self.observer.fetchval(others, ours) == 0)

        await eventually(others_are_gone)

    async def _pages_of(self, session: Session, work: Awaitable[object]) -> int:
        await session.connection.execute("select pg_stat_force_next_flush()")
        before = await self.observer.fetchval(PAGES)
        await work
        await session.connection.execute("select pg_stat_force_next_flush()")
        after = await self.observer.fetchval(PAGES)
        return int(after - before)


async def touched(
    server: AnyServer, template: Database, rows: int, courses: Courses = COURSES
) -> Touched:
    """Run all courses with tables of `rows` rows."""
    found = Touched()
    for course in courses:
        async with _site(server, template, rows) as site:
            for words, state in course:
                for word in words.split():
                    await site.step(word)
                found.pages[state] = await site.measure()
                found.dead[state] = site.deleted
    return found


@asynccontextmanager
async def _site(server: AnyServer, template: Database, rows: int) -> AsyncIterator[_Site]:
    database = create(server, template.name)
    try:
        await leave_alone(database)
        await index_today(database)
        observer, holder = [await asyncpg.connect(database.dsn) for _ in range(2)]
        async with AsyncExitStack() as stack:
            stack.callback(observer.terminate)
            stack.callback(holder.terminate)
            stand = await stack.enter_async_context(sessions(database))
            yield _Site(database, rows, observer, holder, stack, stand)
    finally:
        drop(server, database)


def table(found: Touched) -> str:
    """All results as Markdown, the states as numbers."""
    lines = [f"{number}. {state}" for number, state in enumerate(STATES, 1)]
    lines += ["", "| statement | " + " | ".join(str(n + 1) for n in range(len(STATES))) + " |"]
    lines.append("|---" * (len(STATES) + 1) + "|")
    lines += [_row(name, found.pages) for name in found.pages[GOOD]]
    return "\n".join(lines)


def _row(name: str, pages: Mapping[str, Mapping[str, int]]) -> str:
    return f"| {name} | " + " | ".join(str(pages[state][name]) for state in STATES) + " |"
