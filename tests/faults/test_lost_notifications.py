"""All notifications are suppressed: only latency grows, up to the poll interval (promise 4)."""

import pytest

from tests.support import Config, Database, StartWorker, eventually
from tests.support.rows import ExactlyOnce, emit, send

pytestmark = pytest.mark.anyio


async def _is_quiet(database: Database) -> bool:
    """Whether no row is unsettled, so that the workers go to sleep."""
    left: int = await database.fetchval(
        "select (select count(*) from inboxd.events) + (select count(*) from inboxd.commands)"
    )
    return left == 0


@pytest.mark.parametrize("how", ["mode off", "no triggers", "silent session", "flag left at 0"])
async def test_rows_are_handled_without_wake_ups(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, how: str
) -> None:
    config: Config = {"wakeups": {"mode": "off"}} if how == "mode off" else {}
    workers = [await start_worker(config) for _ in range(2)]
    if how == "no triggers":
        await ledger.execute(
            "alter table inboxd.events disable trigger events_inserted;"
            "alter table inboxd.commands disable trigger commands_inserted"
        )
    events: list[int] = []
    commands: list[int] = []
    async with ledger.connect() as producer:
        if how == "silent session":
            await producer.execute("set inboxd.notify = 'off'")
        for _ in range(3):
            await eventually(lambda: _is_quiet(ledger))
            if how == "flag left at 0":  # a worker that dies during a claim leaves them so
                await producer.execute(
                    "select setval('inboxd.events_flag', 0), setval('inboxd.commands_flag', 0)"
                )
            async with producer.transaction():
                events += await emit(producer, 20)
                commands += await send(producer, 20)
    await exactly_once("event", events)
    await exactly_once("command", commands)
    for kind in ("event", "command"):
        polls = f'inboxd_wakeups_total{{cause="poll",kind="{kind}"}}'
        assert sum([await each.metric(polls) for each in workers]) >= 1, "no poll found the rows"


async def test_a_retry_needs_no_wake_up(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce
) -> None:
    """A worker's own timer finds due rows, long before the poll."""
    await start_worker({"worker": {"poll_interval": "1h"}})
    await eventually(lambda: _is_quiet(ledger))
    async with ledger.connect() as producer:
        later = await send(producer, 3)
        await producer.execute("update inboxd.commands set run_at = now() + interval '1 s'")
    await ledger.execute("notify inboxd_commands")
    await exactly_once("command", later)
