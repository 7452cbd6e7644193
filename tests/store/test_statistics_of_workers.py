"""Statistics from a worker to a reader: tenants, failed writes, and pages of a roll-up."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import anyio
import anyio.lowlevel
import pytest

from inboxd.maintenance import statistics as task
from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.statistics import roll_up_statistics, write_statistics
from inboxd.model.outcome import explain
from inboxd.store import statistics
from inboxd.store.pools import open_pool
from inboxd.store.session import Session
from inboxd.store.statistics import FigureFilter
from inboxd.telemetry.metrics import Metrics
from inboxd.telemetry.tally import OTHER, Outcome, Tally
from tests.store.counting import count_of, counted, empty, roll_up, write
from tests.support import Database
from tests.support.rows import daemon_pool, daemon_session, settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

_SINCE = datetime(2000, 1, 1, tzinfo=UTC)


@pytest.fixture
async def session(database: Database) -> AsyncIterator[Session]:
    """The leader's session on empty tables."""
    await empty(database)
    async with daemon_session(database) as session:
        yield session


@dataclass
class _Worker:
    """The context and the tally of a worker's task."""

    context: MaintenanceContext
    tally: Tally

    def count(self, took: float, outcome: Outcome = "succeeded", tenant: str | None = None) -> None:
        """Count one handled event of news."""
        self.tally.add("event", "a.b", outcome, took, 1.0, "news", 0.0, "", tenant)


@pytest.fixture
async def worker(database: Database, session: Session) -> AsyncIterator[_Worker]:
    """A worker that counts, with empty tables."""
    metrics = Metrics("0")
    async with daemon_pool(database) as pool:
        yield _Worker(MaintenanceContext(pool, metrics, uuid4()), metrics.tally)


async def test_counts_of_a_failed_write_are_written_later(
    database: Database, session: Session, worker: _Worker
) -> None:
    worker.count(0.25)
    worker.count(0.5)
    await write_statistics(worker.context)
    worker.count(0.125)
    worker.count(2.0, "failed")
    await database.execute("alter table inboxd.stats_written rename to away")
    with pytest.raises(Exception, match="stats_written") as failure:
        await write_statistics(worker.context)
    assert "away" not in explain(failure.value).error
    worker.count(1.0)
    await database.execute("alter table inboxd.away rename to stats_written")
    await write_statistics(worker.context)
    await write_statistics(worker.context)
    await roll_up(session)
    (found,) = await statistics.read(session, "days", _SINCE)
    assert (found.succeeded, found.outcome("failed")) == (4, 1)
    assert (found.run.total, found.run.maximum) == (3.875, 2.0)


@pytest.mark.parametrize("pooled", [False, True])
async def test_counts_written_before_a_cancellation_are_not_written_again(
    database: Database, session: Session, monkeypatch: pytest.MonkeyPatch, pooled: bool
) -> None:
    """The insert has reached the database; pooled: the commit comes after it."""
    metrics = Metrics("0")
    given = settings_of(database).model_copy(update={"transaction_pooler": pooled})
    write_down = statistics.write

    async def write_and_be_cancelled(*arguments: Any) -> None:
        await write_down(*arguments)
        scope.cancel()
        await anyio.lowlevel.checkpoint()

    async with open_pool(given, "test", 1) as pool:
        worker = _Worker(MaintenanceContext(pool, metrics, uuid4()), metrics.tally)
        worker.count(1.0)
        with monkeypatch.context() as patch, anyio.CancelScope() as scope:
            patch.setattr(statistics, "write", write_and_be_cancelled)
            await write_statistics(worker.context)
        await write_statistics(worker.context, is_last=True)
    (found,) = await statistics.read(session, "days", _SINCE)
    assert found.succeeded == 1


async def test_roll_up_takes_all_older_rows_in_pages(
    session: Session, worker: _Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows of the current minute stay, since more may come."""
    monkeypatch.setattr(task, "_PAGE", 3)
    await write(session, counted(0.0), *(counted(180.0 + 60.0 * n) for n in range(10)))
    await roll_up_statistics(worker.context)
    assert await count_of(session, "stats_written") == 1
    assert await count_of(session, "stats_minutes") == 10


async def test_tenants_beyond_the_limit_count_as_others_from_the_start(
    session: Session, worker: _Worker
) -> None:
    worker.tally.limit_tenants(2)
    await statistics.admit_tenants(session, ["old"], 2)
    for tenant in ("a", "b", "old", "a", None):
        worker.count(1.0, tenant=tenant)
    await write_statistics(worker.context)
    for tenant in ("a", "b", "old"):
        worker.count(1.0, tenant=tenant)
    await write_statistics(worker.context)
    await roll_up(session)
    counts = {}
    for tenant in ("a", "b", "old", OTHER):
        found = await statistics.lately(session, timedelta(hours=1), of=FigureFilter(tenant=tenant))
        counts[tenant] = sum(each.succeeded for each in found.figures)
    assert counts == {"a": 3, "b": 0, "old": 1, OTHER: 3}
    every = await statistics.lately(session, timedelta(hours=1))
    assert [each.succeeded for each in every.figures] == [8]
