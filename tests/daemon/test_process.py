"""The process: signals, drain, messages to the service manager, exit codes."""

import json
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import anyio.to_thread
import pytest

from inboxd.embedded import Server, free_port
from tests.daemon.inbox import Inbox, errors_of
from tests.support import (
    Database,
    ExternalServer,
    StartWorker,
    Worker,
    create,
    drop,
    eventually,
)
from tests.support.locks import end_waiters, lock_awaited
from tests.support.proxy import proxy

pytestmark = [pytest.mark.anyio, pytest.mark.own_interpreter]


@pytest.fixture
def manager(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[socket.socket]:
    """A service manager's notification socket."""
    path = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.bind(str(path))
        listening.settimeout(20)
        monkeypatch.setenv("NOTIFY_SOCKET", str(path))
        yield listening


async def _hear(manager: socket.socket, word: str) -> None:
    while word not in (await anyio.to_thread.run_sync(manager.recv, 4096)).decode():
        pass


async def _states(inbox: Inbox) -> list[str]:
    rows = await inbox.database.fetch("select state from inboxd.workers order by started_at")
    return [row["state"] for row in rows]


async def test_term_lets_running_work_finish_and_releases_the_rest(
    own: Inbox, start_worker: StartWorker
) -> None:
    worker = await start_worker(
        {"queues": {"slow": {"concurrency": 1}}, "commands": {"concurrency": 3}}
    )
    finishing = await own.write("command", "test.ledger", {"wait": 3})
    await own.running(finishing)
    waiting = await own.write_many("command", "test.wait", [{"wait": 3}] * 4, queue="slow")
    await own.running(waiting[0])
    worker.process.terminate()

    async def is_draining() -> bool:
        return (await worker.get("/readyz"))[0] == 503

    await eventually(is_draining)
    assert (await worker.get("/healthz"))[0] == 200
    assert await worker.wait() == 0
    [line] = [json.loads(x) for x in worker.output().splitlines() if '"draining"' in x]
    assert (line["running"], line["types"]) == (2, {"test.ledger": 1, "test.wait": 1})
    await own.succeeded("command", finishing, waiting[0])
    assert len(await own.notes(finishing)) == 1
    for row_id in waiting[1:]:
        row = await own.hot("command", row_id)
        assert row is not None
        assert (row["status"], row["attempts"], row["crashes"]) == ("pending", 0, 0)
    assert await _states(own) == ["stopped"]


async def test_a_drain_ends_at_its_deadline_without_an_attempt_spent(
    own: Inbox, start_worker: StartWorker
) -> None:
    worker = await start_worker({"worker": {"drain_timeout": "500ms"}})
    plain = await own.write("command", "test.wait", {"wait": 3600})
    in_transaction = await own.write("command", "test.ledger", {"wait": 3600})
    await own.running(plain, in_transaction)
    assert await worker.stop() == 0
    for row_id in (plain, in_transaction):
        row = await own.hot("command", row_id)
        assert row is not None
        assert (row["status"], row["attempts"], row["crashes"]) == ("pending", 0, 0)
        assert errors_of(row) == []
    assert await own.notes(in_transaction) == []
    assert await _states(own) == ["stopped"]


async def test_a_second_term_stops_at_once(own: Inbox, start_worker: StartWorker) -> None:
    worker = await start_worker({"worker": {"drain_timeout": "1h"}})
    row_id = await own.write("command", "test.ledger", {"wait": 3600})
    await own.running(row_id)
    worker.process.terminate()
    await worker.logged("draining")
    worker.process.terminate()
    assert await worker.wait() == 0
    row = await own.hot("command", row_id)
    assert row is not None
    assert (row["status"], row["attempts"], row["crashes"]) == ("pending", 0, 0)
    assert await own.notes(row_id) == []


async def test_events_are_finished_before_the_end(own: Inbox, start_worker: StartWorker) -> None:
    worker = await start_worker()
    row_id = await own.write("event", "test.ledger", {"wait": 3})

    async def has_begun() -> bool:
        return await worker.metric('inboxd_in_flight{kind="event"}') == 1

    await eventually(has_begun)
    assert await worker.stop() == 0
    await own.succeeded("event", row_id)
    assert len(await own.notes(row_id)) == 1


async def test_the_service_manager_is_notified(
    own: Inbox, manager: socket.socket, start_worker: StartWorker
) -> None:
    worker = await start_worker()
    await _hear(manager, "READY=1")
    worker.process.send_signal(signal.SIGHUP)
    await _hear(manager, "RELOADING=1")
    await _hear(manager, "READY=1")
    worker.process.terminate()
    await _hear(manager, "STOPPING=1")
    assert await worker.wait() == 0
    assert await _states(own) == ["stopped"]


async def test_the_watchdog_is_notified(
    own: Inbox, manager: socket.socket, monkeypatch: pytest.MonkeyPatch, start_worker: StartWorker
) -> None:
    monkeypatch.setenv("WATCHDOG_USEC", "200000")
    await start_worker()
    for _ in range(3):
        await _hear(manager, "WATCHDOG=1")
    assert await _states(own) == ["running"]


async def test_hup_changes_log_level_and_limits(own: Inbox, start_worker: StartWorker) -> None:
    worker = await start_worker({"queues": {"slow": {"concurrency": 1}}})
    first, second = await own.write_many("command", "test.wait", [{"wait": 3600}] * 2, queue="slow")
    await own.running(first)
    settings = worker.log.with_suffix(".toml")
    text = settings.read_text()
    assert '"concurrency" = 1' in text
    assert '"level" = "info"' in text
    settings.write_text(
        text.replace('"concurrency" = 1', '"concurrency" = 2').replace(
            '"level" = "info"', '"level" = "error"'
        )
    )
    worker.process.send_signal(signal.SIGHUP)
    await own.running(first, second)
    before = len(worker.output())
    retried = await own.write("command", "test.misbehave", {"how": "raise"})
    await own.dead("command", retried)
    await worker.logged("command is a dead letter")
    lines = [json.loads(line) for line in worker.output()[before:].splitlines()]
    assert [line["level"] for line in lines] == ["error"], "retries are not logged at this level"


async def test_reloaded_settings_survive_a_declared_death(
    own: Inbox, start_worker: StartWorker
) -> None:
    queues = {"slow": {"concurrency": 1}, "slwo": {"concurrency": 1}}
    worker = await start_worker({"queues": queues})
    assert worker.output().count("did you mean 'slow'?") == 1
    settings = worker.log.with_suffix(".toml")
    settings.write_text(settings.read_text().replace('"concurrency" = 1', '"concurrency" = 2'))
    worker.process.send_signal(signal.SIGHUP)
    await worker.logged("settings are reloaded")
    assert worker.output().count("did you mean 'slow'?") == 2, (
        "one warning at the start, one at the reload"
    )
    await own.database.execute("update inboxd.workers set state = 'dead', ended_at = now()")
    await worker.logged("this worker was declared dead")
    both = await own.write_many("command", "test.wait", [{"wait": 3600}] * 2, queue="slow")
    await own.running(*both)


_TWO_NAMES = """
[types."test.nop"]
timeout = "1s"
[schedules.tick]
cron = "* * * * *"
command = "x.y"
"""


@pytest.mark.parametrize(
    ("mistake", "told"),
    [
        ('[typo]\nkey = "value"', "unknown section"),
        ("[events]\nchunk_concurrency = 64", "must be larger than events.chunk_concurrency (64)"),
        # The log is JSON: line breaks and quotes are escaped.
        (_TWO_NAMES, r"""did you mean 'test.noop'?\n[schedules.\"tick\"]: no plugin declares"""),
        (
            f"[dedup]\nwindow = 3\n{_TWO_NAMES}",
            r"""(given: 3)\n[types.\"test.nop\"]: no plugin declares this type""",
        ),
    ],
)
async def test_hup_with_wrong_settings_changes_nothing(
    own: Inbox, start_worker: StartWorker, mistake: str, told: str
) -> None:
    worker = await start_worker()
    settings = worker.log.with_suffix(".toml")
    settings.write_text(f"{settings.read_text()}\n{mistake}\n")
    worker.process.send_signal(signal.SIGHUP)
    await worker.logged("settings are not reloaded")
    await worker.logged(told)
    row_id = await own.write("command", "test.noop")
    await own.succeeded("command", row_id)


async def test_an_outage_makes_the_process_unready_only(
    restartable_server: Server, restartable_database: Database, start_worker: StartWorker
) -> None:
    worker = await start_worker()

    async def answers(status: int) -> bool:
        return (await worker.get("/readyz"))[0] == status

    with restartable_server.outage():
        await eventually(lambda: answers(503))
        assert (await worker.get("/healthz"))[0] == 200
    await eventually(lambda: answers(200))
    assert await restartable_database.fetchval("select 1") == 1


# ------------------------------------------------------------------------------------ exit codes


async def test_a_wrong_setting_exits_with_78(database: Database, start_worker: StartWorker) -> None:
    worker = await start_worker({"worker": {"poll_intervall": "1s"}}, ready=False)
    assert await worker.wait() == 78
    assert "did you mean 'poll_interval'?" in worker.output()
    assert database.dsn not in worker.output()


async def test_an_unknown_plugin_exits_with_78(
    database: Database, start_worker: StartWorker
) -> None:
    worker = await start_worker({"worker": {"plugins": ["testplugni"]}}, ready=False)
    assert await worker.wait() == 78
    assert "did you mean 'testplugin'?" in worker.output()
    assert "Traceback" not in worker.output()
    assert await database.fetchval("select count(*) from inboxd.workers") == 0


async def test_an_unreachable_database_exits_with_69(tmp_path: Path) -> None:
    worker = Worker(tmp_path, f"postgresql://u:s3cret@127.0.0.1:{free_port()}/none", forked=False)
    try:
        assert await worker.wait() == 69
    finally:
        worker.kill()
    assert "check that PostgreSQL runs there" in worker.output()
    assert "Traceback" not in worker.output()
    assert "s3cret" not in worker.output()


async def test_a_missing_database_exits_with_69(
    server: Server | ExternalServer, tmp_path: Path
) -> None:
    worker = Worker(tmp_path, server.dsn("there_is_no_such_database"), forked=False)
    try:
        assert await worker.wait() == 69
    finally:
        worker.kill()
    assert "create the database" in worker.output()


async def test_a_missing_privilege_exits_with_69(database: Database, tmp_path: Path) -> None:
    role = f"{database.name}_nobody"
    await database.execute(f"create role {role} login password 'n0body'")
    parts = urlsplit(database.dsn)
    address = f"{role}:n0body@{parts.hostname}:{parts.port}"
    worker = Worker(tmp_path, urlunsplit(parts._replace(netloc=address)), forked=False)
    try:
        assert await worker.wait() == 69
    finally:
        worker.kill()
        await database.execute(f"drop role {role}")
    assert "permission denied" in worker.output()
    assert "grant it to the daemon's role" in worker.output()
    assert "n0body" not in worker.output()


@pytest.mark.parametrize("table", ["workers", "controls"])
@pytest.mark.parametrize("purpose", ["cut", "told"])
async def test_a_connection_lost_at_the_start_is_reported_as_the_databases(
    database: Database, tmp_path: Path, table: str, purpose: str
) -> None:
    with proxy(database.dsn) as way:
        async with database.connect() as other, other.transaction():
            await other.execute(f"lock table inboxd.{table} in access exclusive mode")
            worker = Worker(tmp_path, way.dsn, forked=False)
            try:
                await lock_awaited(database, who="inboxd %")
                if purpose == "cut":
                    way.cut("daemon")
                else:
                    await end_waiters(database)
                # It depends on how the end is noticed: as a lost connection, or by the server's
                # message.
                assert await worker.wait() in (69, 75)
            finally:
                worker.kill()
    assert "bug in inboxd" not in worker.output()


async def test_a_missing_schema_exits_with_78(
    server: Server | ExternalServer, tmp_path: Path
) -> None:
    empty = create(server)
    worker = Worker(tmp_path, empty.dsn, forked=False)
    try:
        assert await worker.wait() == 78
    finally:
        worker.kill()
        drop(server, empty)
    assert "run: inboxd migrate" in worker.output()


async def test_a_schema_that_is_too_new_exits_with_78(
    database: Database, start_worker: StartWorker
) -> None:
    await database.execute(
        "insert into inboxd.schema_migrations (version, name, oldest_code, checksum) "
        "values (9999, 'tomorrow', 9999, '')"
    )
    worker = await start_worker(ready=False)
    assert await worker.wait() == 78
    assert "upgrade inboxd" in worker.output()


async def test_a_taken_port_exits_with_78(database: Database, start_worker: StartWorker) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        worker = await start_worker({"http": {"port": port}}, ready=False)
        assert await worker.wait() == 78
    assert f"http.port {port}" in worker.output()
    assert await database.fetchval("select count(*) from inboxd.workers") == 0
