"""Notices: one event when a cause begins and one when it is gone, whichever worker leads."""

import json
from typing import Any
from uuid import uuid4

import anyio
import pytest

from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.notices import NoticeTask, close_notices
from inboxd.maintenance.samples import Sampler
from inboxd.settings import Settings
from inboxd.store import notices, samples
from inboxd.store.pools import Pool
from inboxd.telemetry.metrics import Metrics
from tests.support import Config, Database, StartWorker, eventually
from tests.support.rows import daemon_pool, send

pytestmark = pytest.mark.anyio

FAIL = "update inboxd.commands set status = 'failed', updated_at = now() where id = any($1)"
AGAIN = "update inboxd.commands set status = 'pending' where id = any($1)"


class Leader:
    """A leader's tasks for notices, run once by each `look`."""

    def __init__(self, database: Database, pool: Pool, **given: Any) -> None:
        settings = Settings.model_validate(
            {
                "database": {"dsn": database.dsn},
                "notices": {"topic": "notices", "settled": "1ms", **given},
            }
        )
        context = MaintenanceContext(pool, Metrics("0"), uuid4())
        sampling = settings.maintenance.sampling / 10**6  # so that each sample is new enough
        asked = settings.notices.backlog_rows
        self._sampler = Sampler(context, settings.database, sampling, dict, asked)
        self.notifier = NoticeTask(context, settings, "notices")

    async def look(self) -> None:
        """Take a sample, and write its notices."""
        await self._sampler.sample()
        await self.notifier.tell()


async def told(database: Database) -> list[tuple[str, str, dict[str, Any]]]:
    """The events of notices: type, story, payload."""
    query = "select type, correlation_id, payload::text from inboxd.events order by id"
    return [(type_, story, json.loads(text)) for type_, story, text in await database.fetch(query)]


async def test_a_cause_makes_one_notice_when_it_begins_and_one_when_it_is_gone(
    database: Database,
) -> None:
    ids = await send(database, 3)
    async with daemon_pool(database) as pool:
        leader, other = Leader(database, pool), Leader(database, pool)
        await leader.look()
        assert await told(database) == []
        await database.execute(FAIL, ids[:1])
        await leader.look()
        await database.execute(FAIL, ids)  # more rows of the same cause make no new notice
        await other.look()
        [(type_, story, began)] = await told(database)
        assert (type_, story) == ("inboxd.notice_began", "notice 1")
        assert (began["cause"], began["kind"], began["rows"]) == ("dead letters", "command", 1)
        assert began["text"] == "Dead letters of command type test.ledger: 1 dead letter"

        await database.execute(AGAIN, ids)
        for _ in range(3):  # the first look notes the end, a later one writes it
            await leader.look()
        [_, (type_, story, ended)] = await told(database)
        assert (type_, story) == ("inboxd.notice_ended", "notice 1")
        assert (ended["notice"], ended["end"]) == (1, "gone")
        assert ended["ended_at"] > ended["began_at"] == began["began_at"]

        await database.execute(FAIL, ids)  # the cause again: another notice
        await leader.look()
    assert [payload["notice"] for _, _, payload in await told(database)] == [1, 1, 2]


async def test_a_cause_that_returns_soon_is_the_same_notice(database: Database) -> None:
    ids = await send(database, 1)
    async with daemon_pool(database) as pool:
        leader = Leader(database, pool, settled="1h")
        for statement in (FAIL, AGAIN, FAIL, AGAIN):
            await database.execute(statement, ids)
            await leader.look()
    assert len(await told(database)) == 1
    (row,) = await database.fetch("select gone_at, ended_at from inboxd.notices")
    assert (row["gone_at"] is not None, row["ended_at"]) == (True, None)


async def test_two_leaders_write_a_notice_once(database: Database) -> None:
    ids = await send(database, 1)
    await database.execute(FAIL, ids)
    async with daemon_pool(database) as pool:
        leaders = [Leader(database, pool) for _ in range(4)]
        await leaders[0]._sampler.sample()
        async with anyio.create_task_group() as group:
            for each in leaders:
                group.start_soon(each.notifier.tell)
    assert len(await told(database)) == 1


async def test_an_old_sample_makes_no_notice(database: Database) -> None:
    ids = await send(database, 1)
    await database.execute(FAIL, ids)
    async with daemon_pool(database) as pool:
        leader = Leader(database, pool)
        await leader.look()
        await database.execute(AGAIN, ids)
        await leader._sampler.sample()
        await database.execute(
            "update inboxd.newest_sample set at = clock_timestamp() - interval '1 hour'"
        )
        for _ in range(3):
            await leader.notifier.tell()
    assert len(await told(database)) == 1


async def test_breakers_and_blocked_keys_make_notices(database: Database) -> None:
    await database.execute("insert into inboxd.breakers (name, mode) values ('brevo', 'open')")
    for _ in range(2):
        await database.execute(
            "select inboxd.send_command('a.b', '{}', queue => 'q', ordering_key => 'k')"
        )
    await database.execute(
        "update inboxd.commands set status = 'failed', line_at = now() where id = 1"
    )
    async with daemon_pool(database) as pool:
        await Leader(database, pool, dead_letters=False).look()
    found = {(each["cause"], each["subject"]) for _, _, each in await told(database)}
    assert found == {("open breaker", "brevo"), ("blocked keys", "q")}


async def test_a_backlog_makes_a_notice_though_samples_count_fewer_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each sample takes too long, so that later ones stop counting before that many rows."""
    monkeypatch.setattr("inboxd.store.samples.FAR", samples.CountedTo(100, 100))
    monkeypatch.setattr("inboxd.store.samples.NEAR", samples.CountedTo(3, 3))
    monkeypatch.setattr("inboxd.maintenance.samples._SLOW", 0.0)
    await send(database, 4)
    async with daemon_pool(database) as pool:
        leader = Leader(database, pool, backlog_rows=5)
        await leader.look()
        assert await told(database) == []
        await send(database, 4)
        await leader.look()
    assert (
        await database.fetchval("select counts ->> 'counted_to' from inboxd.newest_sample") == "5"
    )
    [(_, _, began)] = await told(database)
    assert (began["cause"], began["rows"], began["at_least"]) == ("backlog", 5, True)


async def test_open_notices_are_bounded(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices, "MOST", 2)
    await database.execute(
        "insert into inboxd.breakers (name, mode)"
        " select 'b' || n, 'open' from generate_series(1, 5) n"
    )
    async with daemon_pool(database) as pool:
        leader = Leader(database, pool)
        await leader.look()
        await database.execute("update inboxd.breakers set mode = 'closed' where name = 'b1'")
        for _ in range(3):
            await leader.look()
    text = [each["text"] for _, _, each in await told(database)]
    opened = [f"Breaker b{n} is open" for n in (1, 2, 3)]
    assert text == [*opened[:2], "Breaker b1 lets calls pass again", opened[2]]


async def test_a_notice_of_a_breaker_stays_open_while_it_probes(database: Database) -> None:
    await database.execute(
        "insert into inboxd.breakers (name, state, open_until) values ('b', 'open', now())"
    )
    async with daemon_pool(database) as pool:
        leader = Leader(database, pool)
        await leader.look()
        await database.execute(
            "update inboxd.breakers set state = 'half_open', probe_by = gen_random_uuid(),"
            " probe_until = now()"
        )
        for _ in range(3):
            await leader.look()
        assert len(await told(database)) == 1
        await database.execute(
            "update inboxd.breakers set state = 'closed', open_until = null, probe_by = null,"
            " probe_until = null"
        )
        for _ in range(3):
            await leader.look()
    assert [each["end"] for _, _, each in await told(database)] == [None, "gone"]


async def test_notices_end_when_the_settings_no_longer_ask_for_them(database: Database) -> None:
    await database.execute("insert into inboxd.breakers (name, mode) values ('b', 'open')")
    ids = await send(database, 1)
    await database.execute(FAIL, ids)
    async with daemon_pool(database) as pool:
        await Leader(database, pool).look()
        await Leader(database, pool, breakers=False).look()
        found = [(each["cause"], each["end"]) for _, _, each in await told(database)]
        assert found[2:] == [("open breaker", "unwatched")]
        await close_notices(MaintenanceContext(pool, Metrics("0"), uuid4()))
    assert len(await told(database)) == 3, "without a topic no event is written"
    assert (
        await database.fetchval("select count(*) from inboxd.notices where ended_at is null") == 0
    )


async def test_a_worker_writes_notices_of_its_dead_letters(
    database: Database, start_worker: StartWorker
) -> None:
    """The handler fails, the leader counts, and the notice's event is handled as any other."""
    config: Config = {
        "maintenance": {"samples": "200ms"},
        "notices": {"topic": "notices", "settled": "1ms"},
    }
    await start_worker(config)
    await database.execute("select inboxd.send_command('nobody.knows', '{}')")

    async def is_told() -> bool:
        return bool(await told(database))

    await database.execute("update inboxd.commands set status = 'failed'")
    await eventually(is_told)
    [(type_, _, payload)] = (await told(database))[:1]
    assert (type_, payload["subject"]) == ("inboxd.notice_began", "nobody.knows")
