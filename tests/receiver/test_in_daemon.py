"""Worker and receiver in one process are independent of each other; also with older workers."""

from pathlib import Path
from typing import Any

import pytest

from inboxd.embedded import Server
from tests.support import Database, StartWorker, Worker, eventually
from tests.support.older import unpack
from tests.support.plugins import found, install
from tests.support.ports import held_port
from tests.support.received import verify
from tests.support.receiver import StartReceiver, port_of
from tests.support.sender import SECRET, Provider

# Whole processes under load take seconds each, so `make test-long` runs them.
pytestmark = [pytest.mark.anyio, pytest.mark.long]

_HANDLERS = Path(__file__).parents[1] / "daemon" / "older_handlers.py"


@pytest.fixture
def inbox(database: Database) -> Database:
    """A database on the server of all tests, which is fast."""
    return database


def _inbound(port: int, *, answer_within: str = "30s", **source: Any) -> dict[str, Any]:
    """Settings of a daemon with a receiver."""
    bets = {"keys": [{"secret": SECRET}], "type": "test.noop", **source}
    http = {"enabled": True, "port": port, "answer_within": answer_within}
    return {"http": http, "webhooks": {"bets": bets}}


async def _settled(database: Database, events: int) -> None:
    async def are_settled() -> bool:
        return bool(await database.fetchval("select count(*) from inboxd.events_history") == events)

    await eventually(are_settled)


async def test_received_events_are_processed_through_a_death_and_a_stop(
    database: Database, start_worker: StartWorker
) -> None:
    with held_port() as held:
        worker = await start_worker({"inbound": _inbound(port_of(held))})
        provider = Provider(port_of(held))
        async with provider.load(keys=4):
            await provider.goes_on()
            await database.execute("update inboxd.workers set state = 'dead', ended_at = now()")
            await worker.logged("this worker was declared dead")
            await provider.goes_on()
            assert set(provider.ended) == {"202"}, "the receiver goes on without the worker"
        await _settled(database, provider.accepted)
        assert await worker.stop() == 0
    await verify(database, provider)
    rows = await database.fetch("select state from inboxd.receivers")
    assert [row["state"] for row in rows] == ["stopped"]


async def test_requests_in_progress_are_answered_at_a_stop_under_load(
    database: Database, start_worker: StartWorker
) -> None:
    with held_port() as held:
        worker = await start_worker({"inbound": _inbound(port_of(held))})
        provider = Provider(port_of(held))
        async with provider.load(keys=4):
            await provider.goes_on()
            assert await worker.stop() == 0
    assert set(provider.ended) <= {"202", "refused"}, provider.ended
    await verify(database, provider)


async def test_a_worker_that_cannot_continue_ends_the_receiver_in_order(
    database: Database, start_worker: StartWorker
) -> None:
    """A too new schema ends the worker's next life; the receiver then ends in order."""
    with held_port() as held:
        worker = await start_worker({"inbound": _inbound(port_of(held))})
        provider = Provider(port_of(held))
        async with provider.load(keys=4):
            await provider.goes_on()
            await database.execute(
                "insert into inboxd.schema_migrations (version, name, oldest_code, checksum) "
                "values (9999, 'tomorrow', 9999, '')"
            )
            await database.execute("update inboxd.workers set state = 'dead', ended_at = now()")
            assert await worker.wait() == 78
    assert set(provider.ended) <= {"202", "refused"}, provider.ended
    await verify(database, provider)
    rows = await database.fetch("select state from inboxd.receivers")
    assert [row["state"] for row in rows] == ["stopped"]


async def test_worker_and_receiver_wait_for_the_database(
    restartable_server: Server, restartable_database: Database, start_worker: StartWorker
) -> None:
    with held_port() as held:
        with restartable_server.outage():
            inbound = _inbound(port_of(held), answer_within="3s")
            worker = await start_worker({"inbound": inbound}, ready=False)
            await worker.logged("receiving webhooks")
            await worker.logged("the worker waits until the database answers")
            provider = Provider(port_of(held))
            await provider.offer("a")
            assert set(provider.ended) == {"503"}
        await worker.ready()
        assert (await provider.offer("b")).accepted
        await _settled(restartable_database, 1)
        provider.close()


async def test_hup_reloads_worker_and_receiver(
    database: Database, start_worker: StartWorker
) -> None:
    with held_port() as held:
        worker = await start_worker({"inbound": _inbound(port_of(held))})
        _change(worker, '"type" = "test.noop"', '"type" = "test.noop", "answer" = 200')
        await worker.logged("settings are reloaded")
        provider = Provider(port_of(held))
        await provider.offer("a")
        assert set(provider.ended) == {"200"}
        provider.close()
        _change(worker, SECRET, "whsec_short")
        await worker.logged("settings are not reloaded")
        _change(worker, "whsec_short", SECRET)
    await _settled(database, 1)


def _change(worker: Worker, old: str, new: str) -> None:
    settings = worker.log.with_suffix(".toml")
    text = settings.read_text()
    assert old in text
    settings.write_text(text.replace(old, new))
    worker.process.send_signal(1)


async def test_an_older_worker_runs_events_of_a_newer_receiver(
    inbox: Database,
    start_receiver: StartReceiver,
    start_worker: StartWorker,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await inbox.execute("create table effects (kind text, row_id bigint, code text)")
    older = unpack(tmp_path / "older")
    handlers = install(tmp_path / "handlers", "both", _HANDLERS.read_text())
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    with found(older, handlers):
        # The older code does not know `days_ahead`.
        await start_worker({"worker": {"plugins": ["both"]}, "history": {}})
    receiver = await start_receiver(source={"type": "both.fact", "topics": []})
    provider = receiver.provider()
    async with provider.load(keys=4):
        await provider.goes_on()
    await _settled(inbox, provider.accepted)
    await verify(inbox, provider)
    code = await inbox.fetchval("select distinct code from effects")
    assert Path(code).is_relative_to(older)
