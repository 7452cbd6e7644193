"""Pages of the screens on two months of history, beside a worker that always has rows.

The test counts the statements of a page, and all blocks that the server reads for them, also for
planning, on a session that has read the page before. The screens have a role of their own, so that
blocks of the worker and the producer are not included. Data that visitors share (the overview,
totals, figures) is read before, and counted separately; an examination by the doctor has a limit of
its own. Known limits: a story reads level by level, as much as its levels need; here it has two.
Rows that the worker has just settled are passed over until no snapshot needs them.
"""

import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

import anyio
import httpx
import pytest
from starlette.routing import compile_path

from inboxd.admin.screens.access import Everybody
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.pages import SCREENS
from inboxd.settings import Settings
from inboxd.store.operator_sessions import open_looks
from tests.browser import school
from tests.support import Database, Worker, create_migrated, eventually, temporary_server
from tests.support.large_history import fill, rows_a_day
from tests.support.rows import create_ledger, emit, send

pytestmark = [pytest.mark.anyio, pytest.mark.long, pytest.mark.timeout(1800)]

BLOCKS, STATEMENTS = 2_000, 8
# An examination reads each day's tables in the catalogue; of our tables it reads no more than a
# page.
EXAMINED = 30_000
# Seconds for 95 % of the pages; on an idle machine they take a fifth of it.
SLOWEST = 1.0
DAYS, ROWS_A_DAY = 60, rows_a_day(5_000)
ACTIONS = 300_000
# The producer keeps this number of rows of each kind waiting.
WAITING, AT_ONCE = 500, 100
_SCREENS = Path(__file__).parents[1] / "screens"
# Ids of an event that enqueued a command: an old one and a new one.
_OLD, _NEW = 10 * ROWS_A_DAY, DAYS * ROWS_A_DAY - 100
_COUNTED = """
select coalesce(sum(calls), 0)::int as statements,
       coalesce(sum(shared_blks_hit + shared_blks_read), 0)::int as blocks
  from pg_stat_statements s join pg_roles on pg_roles.oid = s.userid where rolname = 'screens'
"""


@dataclass(frozen=True)
class Cost:
    """The cost of a page for the server, and the seconds until its answer."""

    statements: int
    blocks: int
    seconds: float


@dataclass(frozen=True)
class Visited:
    """The screens of a large history, and the costs of their pages so far."""

    client: httpx.AsyncClient
    database: Database
    since: datetime
    costs: dict[str, Cost] = field(default_factory=dict)

    async def cost(self, path: str) -> Cost:
        """The cost of a page that another visitor has read before."""
        await self.client.get(path)
        self.costs[path] = found = await self.cost_at_first(path)
        return found

    async def cost_at_first(self, path: str) -> Cost:
        """The cost of a page that was not read before, with the shared data."""
        await self.database.execute("select pg_stat_statements_reset()")
        begun = perf_counter()
        answer = await self.client.get(path)
        seconds = perf_counter() - begun
        assert answer.status_code == httpx.codes.OK, path
        [found] = await self.database.fetch(_COUNTED)
        return Cost(found["statements"], found["blocks"], seconds)

    async def settled(self) -> int:
        """The number of events and commands that the worker has settled since the first page."""
        both = " union all ".join(
            f"select from inboxd.{table}_history where finished_at > $1 and type = 'test.ledger'"
            for table in ("events", "commands")
        )
        return int(await self.database.fetchval(f"select count(*) from ({both}) x", self.since))


@pytest.fixture(scope="module")
def counting() -> Iterator[Database]:
    """A database on a server that counts what each role's statements read."""
    with temporary_server(shared_preload_libraries="pg_stat_statements") as server:
        yield create_migrated(server)


@pytest.fixture(scope="module")
async def database(anyio_backend: object, counting: Database) -> AsyncIterator[Database]:
    """A database with data for all pages, and a role for the screens."""
    await counting.execute(
        "create extension pg_stat_statements; create role screens login in role inboxd_operator;"
        " alter role screens set pg_stat_statements.track_planning = on;"
        " alter role screens set pg_stat_statements.track_utility = off"
    )
    await fill(counting, "events", DAYS, ROWS_A_DAY)
    await fill(counting, "commands", DAYS, ROWS_A_DAY // 10)
    await _operate(counting)
    await create_ledger(counting)
    yield counting
    await counting.end_sessions()


@pytest.fixture(scope="module")
async def worker(
    database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Worker]:
    """A worker that always has rows."""
    config = {"history": {"events": "90d"}}
    worker = Worker(tmp_path_factory.mktemp("worker"), database.dsn, config)
    try:
        await worker.ready()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_produce, database)
            yield worker
            tasks.cancel_scope.cancel()
    finally:
        worker.kill()


async def _produce(database: Database) -> None:
    """Write rows as fast as the worker handles them."""

    async def few_wait() -> bool:
        waiting = "(select id from inboxd.{} where type = 'test.ledger' limit {})"
        counts = " , ".join(
            f"(select count(*) from {waiting.format(table, WAITING)} x)"
            for table in ("events", "commands")
        )
        [found] = await database.fetch(f"select {counts}")
        return bool(min(found) < WAITING)

    while True:
        await eventually(few_wait)
        await emit(database, AT_ONCE)
        await send(database, AT_ONCE)


@pytest.fixture(scope="module")
async def visited(database: Database, worker: Worker) -> AsyncIterator[Visited]:
    """The screens, with a role of their own."""
    dsn = urlsplit(database.dsn)
    own = dsn._replace(netloc=f"screens@{dsn.netloc.rpartition('@')[2]}").geturl()
    settings = Settings.model_validate({"database": {"dsn": own}})
    async with open_looks(settings.database, "screens", 1, timedelta(seconds=20)) as looks:
        application = Screens(settings, looks, Everybody(), SCREENS).application()
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://screens") as client:
            yield Visited(client, database, datetime.now(UTC))


async def _operate(database: Database) -> None:
    """Write data for pages about operation, with many actions of operators."""
    await school.fill(database)
    await database.execute((_SCREENS / "operating.sql").read_text())
    await database.execute(
        "insert into inboxd.audit (actor, action, target, count)"
        " select case n % 10 when 0 then 'ana' else 'rui' end, 'pause', 'queue ' || n % 50, 0"
        f" from generate_series(1, {ACTIONS}) n"
    )


@pytest.fixture(autouse=True)
def shared_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the data that visitors share, however slow the machine is."""
    for name in (
        *("rows._TOTALS_SECONDS", "rows._FIGURES_SECONDS", "rows._NAMES_SECONDS"),
        *("batches._TOTALS_SECONDS", "batches._FIGURES_SECONDS"),
        *("titles._FRESH_SECONDS", "doctor._FRESH_SECONDS"),
        *(
            "markers._FRESH_SECONDS",
            "failures._FRESH_SECONDS",
            "row._ACTS_SECONDS",
            "matches._FRESH_SECONDS",
        ),
    ):
        monkeypatch.setattr(f"inboxd.admin.screens.pages.{name}", 3600.0)
    monkeypatch.setattr("inboxd.admin.screens.writing._CHECK_SECONDS", 3600.0)
    for name in ("_FRESH_SECONDS", "_COMPLETED_SECONDS"):
        monkeypatch.setattr(f"inboxd.admin.screens.snapshot.{name}", 3600.0)
    monkeypatch.setattr("inboxd.store.operator_sessions._RIGHTS", 3600.0)


PATHS = (
    *("/", "/events", "/commands", f"/events?below={_OLD}", "/events?limit=100"),
    *("/events?span=week", "/commands?span=quarter"),
    *("/events?type=order.created", "/events?type=rare.type", "/events?type=none"),
    *("/events?commands=succeeded", "/events?tenant=tiny", "/events?error=none"),
    *("/commands?status=failed", f"/events/{_NEW}", f"/events/{_OLD}", "/commands/40"),
    *("/batches", "/workflows", "/batches/1", "/find?q=none", "/find?q=17"),
    *(f"/story/event/{_NEW}", "/failures", "/failures/5be2077d41aa", "/failures/-"),
    *("/queues", "/queues/email?span=day", "/queues/grading", "/topics", "/topics/points"),
    *("/topics/default?span=day", "/types", "/types/command/school.send_email"),
    *("/types/event/answer.given", "/schedules", "/breakers", "/endpoints", "/endpoints/acme"),
    *("/endpoints/acme?status=succeeded", "/sources", "/spools", "/workers?all=1"),
    *("/history?all=1", "/doctor", "/audit", "/audit?actor=ana", "/audit?actor=nobody"),
    "/statement",
    *(
        "/actions",
        "/actions/1",
        "/audit?action=erase",
        "/audit?target=none",
        f"/audit?target=none&below={ACTIONS // 2}",
    ),
)


def test_each_page_of_the_router_is_measured() -> None:
    paths = [path.partition("?")[0] for path in PATHS]
    patterns = {screen.path: compile_path(screen.path)[0] for screen in SCREENS}
    missing = [path for path, pattern in patterns.items() if not any(map(pattern.fullmatch, paths))]
    assert missing == []


@pytest.mark.parametrize("path", PATHS)
async def test_a_page_reads_few_blocks(visited: Visited, path: str) -> None:
    """Dead rows that some snapshot still needs may be read once more."""

    async def reads_few() -> bool:
        cost = await visited.cost(path)
        assert cost.blocks <= BLOCKS, cost
        return True

    await eventually(reads_few)
    assert visited.costs[path].statements <= STATEMENTS


async def test_an_examination_reads_few_blocks(
    visited: Visited, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.admin.screens.pages.doctor._FRESH_SECONDS", 0.0)
    assert (await visited.cost_at_first("/doctor")).blocks <= EXAMINED


async def test_pages_are_quick_while_the_worker_goes_on(visited: Visited) -> None:
    for path in PATHS:
        await visited.cost(path)
    for path, cost in sorted(visited.costs.items(), key=lambda each: -each[1].blocks):
        sys.stdout.write(f"{path}: {cost}\n")  # shown with `-s`, or if the test fails
    seconds = sorted(each.seconds for each in visited.costs.values())
    most = seconds[int(len(seconds) * 0.95)]
    sys.stdout.write(f"of {len(seconds)} pages 95 % took at most {most:.3f} s\n")
    assert most <= SLOWEST
    assert await visited.settled() > AT_ONCE
