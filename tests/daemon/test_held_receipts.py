"""The leader releases held receipts of sources that are no longer paused."""

import signal
from functools import partial
from uuid import uuid4

import asyncpg
import pytest

from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.receipts import release_held
from inboxd.telemetry.metrics import Metrics
from tests.support import Database, StartWorker, Worker, eventually
from tests.support.receipts import receipt, receive
from tests.support.rows import daemon_pool
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def there(database: Database) -> set[str]:
    """The sources whose events are written."""
    return {row[0] for row in await database.fetch("select source from inboxd.events")}


async def test_receipts_of_sources_without_a_pause_are_released(database: Database) -> None:
    sources = ("free", "operator", "settings", "receiver")
    await receive(database, *(receipt(source=name, hold=True) for name in sources))
    await database.execute(
        "insert into inboxd.controls (kind, name, actor) values ('source', 'operator', 'me')"
    )
    await database.execute(
        "insert into inboxd.receivers (id, name, host, pid, version, holds)"
        " values (gen_random_uuid(), 'r', 'h', 1, '1', '{receiver}')"
    )
    async with daemon_pool(database) as pool:
        context = MaintenanceContext(pool, Metrics("0"), uuid4())
        await release_held(context, {"settings"})
        assert await there(database) == {"free"}
        await database.execute("delete from inboxd.controls")
        await database.execute("update inboxd.receivers set beat_at = now() - interval '25 hours'")
        await release_held(context, ())
    assert await there(database) == set(sources)


async def test_a_source_that_cannot_be_released_delays_no_other(database: Database) -> None:
    await receive(database, *(receipt(source=name, hold=True) for name in ("a", "b", "c")))
    await database.execute(
        "create function refuse() returns trigger language plpgsql as $$ begin"
        " if new.source = 'a' then raise exception 'not this one'; end if; return new; end $$;"
        "create trigger refuse before insert on inboxd.events for each row"
        " execute function refuse()"
    )
    async with daemon_pool(database) as pool:
        context = MaintenanceContext(pool, Metrics("0"), uuid4())
        with pytest.raises(asyncpg.RaiseError):
            await release_held(context, ())
        with safety():
            assert await there(database) == {"b", "c"}
        await database.execute("drop trigger refuse on inboxd.events")
        await release_held(context, ())
    with safety():
        assert await there(database) == {"a", "b", "c"}


async def test_a_leading_worker_releases_receipts(
    database: Database, start_worker: StartWorker
) -> None:
    await receive(database, receipt(source="free", hold=True))
    await start_worker()

    async def released() -> bool:
        return not await database.fetch("select from inboxd.held_receipts")

    await eventually(released)


async def shown(worker: Worker, held: float) -> bool:
    return await worker.metric('inboxd_webhook_held_receipts{source="bets"}') == held


async def test_held_receipts_are_shown_and_a_reload_ends_the_pause(
    database: Database, start_worker: StartWorker
) -> None:
    bets = {"type": "bets.won", "scheme": "github", "keys": [{"secret": "s"}], "paused": "hold"}
    await receive(database, *(receipt(source="bets", hold=True) for _ in range(2)))
    worker = await start_worker(
        {"inbound": {"webhooks": {"bets": bets}}, "maintenance": {"interval": "1s"}}
    )
    await eventually(partial(shown, worker, 2))
    assert await there(database) == set()
    settings = worker.log.with_suffix(".toml")
    settings.write_text(settings.read_text().replace('"hold"', '"no"'))
    worker.process.send_signal(signal.SIGHUP)
    await eventually(partial(shown, worker, 0))
    assert await there(database) == {"bets"}
