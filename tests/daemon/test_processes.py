"""Several processes of one worker, which share the work under a supervisor."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.daemon.inbox import Inbox
from tests.support import Config, Worker, eventually
from tests.support.pooler import way_to
from tests.support.supervising import by_socket, calling, runs
from tests.support.waiting import bounded, patient

pytestmark = [pytest.mark.anyio, pytest.mark.own_interpreter]

CONFIG: Config = {"worker": {"name": "a"}, "commands": {"concurrency": 2}}


def children_of(pid: int) -> list[int]:
    """The running children of a process."""
    with suppress(FileNotFoundError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(each) for each in text.split() if runs(int(each))]
    return []


@pytest.fixture
def supervisor(own: Inbox, tmp_path: Path) -> Iterator[Worker]:
    """A supervisor with two processes."""
    with way_to(own.database.dsn) as way:
        worker = Worker(
            tmp_path,
            way.dsn,
            way.over(CONFIG),
            forked=False,
            command=["run", "--processes", "2"],
        )
        yield worker
        _kill_all(worker.process.pid)
        worker.kill()
        sys.stdout.write(worker.output())


def _kill_all(pid: int) -> None:
    for child in children_of(pid):
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)


async def rows_of(own: Inbox, state: str = "running") -> list[int]:
    """The pids of the workers' rows in this state."""
    rows = await own.database.fetch(
        "select pid, name from inboxd.workers where state = $1 order by started_at", state
    )
    assert {row["name"] for row in rows} <= {"a"}
    return [row["pid"] for row in rows]


async def samples_of(worker: Worker) -> list[Sample]:
    """All samples of the metrics page."""
    _, page = await worker.get("/metrics")
    return [s for family in text_string_to_metric_families(page) for s in family.samples]


async def test_processes_share_the_work_and_a_killed_one_is_replaced(
    own: Inbox, supervisor: Worker
) -> None:
    await supervisor.ready()
    both = children_of(supervisor.process.pid)
    assert sorted(await rows_of(own)) == sorted(both)
    waiting = []
    for _ in range(4):  # two for each process, whose concurrency is two
        waiting.append(await own.write("command", "test.ledger", {"wait": 3600}))
        await own.running(*waiting)

    async def is_shared() -> bool:
        samples = await samples_of(supervisor)
        assert all("process" in s.labels or s.name == "inboxd_processes" for s in samples)
        in_flight = [s for s in samples if s.name == "inboxd_in_flight"]
        found = {s.labels["process"]: s.value for s in in_flight if s.labels["kind"] == "command"}
        return found == {"1": 2, "2": 2}

    await eventually(is_shared)
    os.kill(both[0], signal.SIGKILL)

    async def is_replaced() -> bool:
        now = children_of(supervisor.process.pid)
        return both[0] not in now and len(set(now) & set(await rows_of(own))) == 2

    await eventually(is_replaced)

    async def are_taken_over() -> bool:
        rows = [await own.hot("command", row_id) for row_id in waiting]
        crashed = [row for row in rows if row is not None and row["crashes"] == 1]
        return len(crashed) == 2

    await eventually(are_taken_over)
    assert supervisor.process.poll() is None


@pytest.mark.long
async def test_an_upgrade_loses_neither_work_nor_connections(
    own: Inbox, supervisor: Worker
) -> None:
    await supervisor.ready()
    before = children_of(supervisor.process.pid)
    running = await own.write("command", "test.ledger", {"wait": 2})
    await own.running(running)
    with calling(f"{supervisor.url}/healthz") as caller:
        supervisor.process.send_signal(signal.SIGUSR2)
        await supervisor.logged('"upgraded"')

        async def have_left() -> bool:
            return not any(runs(pid) for pid in before)

        await eventually(have_left)
    assert caller.failures == []
    assert set(caller.answers) == {200}
    await own.succeeded("command", running)
    assert len(await own.notes(running)) == 1, "the old process finished the command"
    assert sorted(await rows_of(own)) == sorted(children_of(supervisor.process.pid))
    supervisor.process.terminate()
    assert await supervisor.wait() == 0
    assert await rows_of(own) == []


async def test_a_taken_port_is_reported_before_any_process_starts(
    own: Inbox, supervisor: Worker, tmp_path: Path
) -> None:
    await supervisor.ready()  # it has the port
    command = [sys.executable, "-m", "inboxd", "run", "--processes", "2", "-c"]
    with bounded():
        second = await anyio.run_process(
            [*command, str(supervisor.log.with_suffix(".toml"))], check=False
        )
    told = second.stderr.decode()
    assert second.returncode == 78
    assert told.startswith("inboxd: cannot listen on http.host")
    assert told.count("\n") == 1


@pytest.mark.long
async def test_a_unit_with_a_socket_is_restarted_without_refusing_a_request(
    own: Inbox, supervisor: Worker, tmp_path: Path
) -> None:
    """The service manager has opened the socket, and passes it by its name."""
    settings = supervisor.log.with_suffix(".toml")
    supervisor.kill()
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/healthz"

        def start() -> subprocess.Popen[bytes]:
            with supervisor.log.open("ab") as log:
                return subprocess.Popen(
                    [
                        *by_socket("http", listener),
                        *(sys.executable, "-m", "inboxd", "run", "-c", settings),
                    ],
                    pass_fds=[listener.fileno()],
                    stdout=log,
                    stderr=log,
                )

        with calling(url) as caller:
            for _ in range(2):
                unit = start()
                answered = len(caller.answers)

                async def are_answered(before: int = answered) -> bool:
                    return len(caller.answers) > before + 10

                await eventually(are_answered)
                unit.terminate()
                assert unit.wait(patient()) == 0
            last = start()
        last.terminate()
        assert last.wait(patient()) == 0
    assert caller.failures == []
    assert set(caller.answers) == {200}
