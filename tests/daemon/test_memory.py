"""Memory: a worker's memory stays small and flat, whatever the backlog and its size (promise 9).

The kernel reports it: VmHWM is the peak of the process. The tests measure no time.
"""

from pathlib import Path

import pytest

from tests.support import Database, StartWorker, Worker, eventually
from tests.support.rows import no_bounds

pytestmark = [pytest.mark.anyio, pytest.mark.own_interpreter]

_MEGABYTE = 1024  # /proc counts in kB


def _memory(worker: Worker, field: str) -> int:
    """A field of the process's status, in kB."""
    status = Path(f"/proc/{worker.process.pid}/status")
    if not status.exists():
        pytest.skip("this system has no /proc")
    lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
    return int(lines[field].split()[0])


async def _fill(database: Database, table: str, rows: int, payload: str = "'{}'") -> None:
    queue, value = ("queue, ", "'default', ") if table == "commands" else ("", "")
    await database.execute(
        f"insert into inboxd.{table} ({queue}type, payload)"
        f" select {value}'test.noop', {payload}::jsonb from generate_series(1, {rows})"
    )


async def _left(database: Database, table: str) -> int:
    left: int = await database.fetchval(f"select count(*) from inboxd.{table}")
    return left


async def _drained(database: Database, table: str, most: int = 0, within: float = 60) -> None:
    async def is_drained() -> bool:
        return await _left(database, table) <= most

    await eventually(is_drained, within)


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(50_000, marks=pytest.mark.timeout(180)),
        pytest.param(
            1_000_000, marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(900)]
        ),
    ],
)
async def test_a_backlog_costs_no_memory(
    database: Database, start_worker: StartWorker, table: str, rows: int
) -> None:
    await _fill(database, table, rows)
    worker = await start_worker({"log": {"level": "info"}})
    within = 60 + rows / 2000
    await _drained(database, table, most=rows * 3 // 4, within=within)
    early = _memory(worker, "VmHWM")
    await _drained(database, table, within=within)
    most = _memory(worker, "VmHWM")
    print(f"{rows} {table}: {early} kB after a quarter, {most} kB at most")  # noqa: T201 - a figure to look at
    assert most < 100 * _MEGABYTE
    assert most - early < 10 * _MEGABYTE, "memory grows with the rows done"


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(20, marks=pytest.mark.timeout(180)),
        pytest.param(1000, marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
async def test_heavy_rows_cost_little_memory(
    database: Database, start_worker: StartWorker, table: str, rows: int
) -> None:
    await _fill(database, table, rows, "jsonb_build_object('text', repeat('x', 5000000))")
    worker = await start_worker({"log": {"level": "info"}})
    await _drained(database, table, within=120 + rows / 2)
    most = _memory(worker, "VmHWM")
    print(f"{rows} {table} of 5 MB: {most} kB at most")  # noqa: T201 - a figure to look at
    assert most < 300 * _MEGABYTE


@pytest.mark.parametrize("size", [16_000, 20_000_000], ids=["the largest", "from before"])
async def test_heavy_headers_cost_little_memory(
    database: Database, start_worker: StartWorker, size: int
) -> None:
    """Headers of the largest size that may be written, and larger ones from before that bound."""
    rows = 15 if size > 1_000_000 else 4000
    async with no_bounds(database):
        await database.execute(
            "insert into inboxd.events (type, payload, headers) select 'test.noop', '{}',"
            f" jsonb_build_object('h', repeat('v', {size})) from generate_series(1, {rows})"
        )
    worker = await start_worker(
        {"log": {"level": "info"}, "events": {"page_rows": 4000, "page_bytes": "32MiB"}}
    )
    await _drained(database, "events", within=100)
    most = _memory(worker, "VmHWM")
    print(f"{rows} events with headers of {size} bytes: {most} kB at most")  # noqa: T201 - a figure to look at
    assert most < 250 * _MEGABYTE


@pytest.mark.parametrize("table", ["events", "commands"])
async def test_heavy_texts_from_before_the_bounds_cost_little_memory(
    database: Database, start_worker: StartWorker, table: str
) -> None:
    queue, value = ("queue, ", "'default', ") if table == "commands" else ("", "")
    async with no_bounds(database):
        await database.execute(
            f"insert into inboxd.{table} ({queue}type, payload, entity_id, tenant, correlation_id)"
            f" select {value}'test.noop', '{{}}', text, text, text"
            " from (select repeat('t', 1000000) as text) t, generate_series(1, 100)"
        )
    worker = await start_worker({"log": {"level": "info"}})
    await _drained(database, table, within=100)
    assert _memory(worker, "VmHWM") < 100 * _MEGABYTE
