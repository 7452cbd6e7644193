"""A handler blocks the event loop: the lease is kept, the log names the handler, a bound holds."""

import json
from functools import partial

import pytest

from tests.support import Config, Database, StartWorker, eventually
from tests.support.rows import ExactlyOnce, Hasty, emit, send

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("seconds", "lease"),
    [
        pytest.param(15, {"lease": "10s", "heartbeat_interval": "2s"}, id="longer than the lease"),
        pytest.param(
            60,
            {},
            id="a minute, as it comes",
            marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(240)],
        ),
    ],
)
@pytest.mark.parametrize("kind", ["event", "command"])
async def test_a_blocked_loop_is_not_declared_dead(
    ledger: Database,
    start_worker: StartWorker,
    exactly_once: ExactlyOnce,
    kind: str,
    seconds: int,
    lease: dict[str, str],
) -> None:
    """The heartbeat's thread goes on, so no other worker takes over its rows."""
    config: Config = {
        "worker": {"lease": "30s", "heartbeat_interval": "5s", **lease, "stall_timeout": "90s"},
        # Without this the server ends a session that is idle for this time.
        "database": {"idle_in_transaction_timeout": "2m"},
    }
    blocked = await start_worker(config)
    write = emit if kind == "event" else send
    (row,) = await write(ledger, 1, "test.block", seconds=seconds)
    await blocked.logged("event loop is blocked")
    other = await start_worker(config)
    others = await write(ledger, 20)
    # Handled by the other worker, or by this one if the other starts late.
    for each in others:
        await eventually(partial(_is_settled, ledger, kind, each))
    assert other.process.poll() is None
    await eventually(lambda: _is_settled(ledger, kind, row), within=seconds + 30)
    await exactly_once(kind, [*others, row])
    # A busy machine may have blocked the loop before; then no handler is named.
    named = [
        found["by"]
        for found in map(json.loads, blocked.output().splitlines())
        if found["message"] == "event loop is blocked" and found["by"] != "no handler"
    ]
    assert named == [f"handler of {kind} test.block (id {row})"]
    history = await ledger.fetch(f"select distinct attempts, crashes from inboxd.{kind}s_history")
    assert [tuple(found) for found in history] == [(1, 0)]
    states = await ledger.fetch("select state from inboxd.workers")
    assert [found["state"] for found in states] == ["running"] * 2


async def _is_settled(database: Database, kind: str, row: int) -> bool:
    found: bool = await database.fetchval(
        f"select exists (select from inboxd.{kind}s_history where id = $1)", row
    )
    return found


async def test_a_worker_ends_after_stall_timeout(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """Nothing of its page of events took effect, and the next worker handles all of it."""
    worker = await start_worker(hasty(worker={"stall_timeout": "1500ms"}))
    before = await emit(ledger, 5)
    (row,) = await emit(ledger, 1, "test.block", seconds=3)
    assert await worker.wait() == 70
    assert f"handler of event test.block (id {row}) blocks" in worker.output()
    # Its stall_timeout is higher, and its server waits longer.
    await start_worker(hasty(database={"idle_in_transaction_timeout": "20s"}))
    await exactly_once("event", [*before, row])
