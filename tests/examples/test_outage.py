"""The demo of the accounts, as a reader runs it."""

import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import httpx
import pytest

from accounts.contract import UnavailableError, ask
from tests.support.waiting import patient

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, str(ROOT / "examples/accounts/outage.py")]


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "options", [("--quick",), pytest.param((), marks=pytest.mark.soak)], ids=["quick", "whole"]
)
def test_every_user_has_one_account_and_one_charge_and_no_file_is_left(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    done = subprocess.run(
        [*DEMO, *options],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(280),
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "every user has one account and one charge." in done.stdout
    assert re.search(r"provisioned later \D*[1-9]", done.stdout), done.stdout
    assert "\x1b" not in done.stdout, "without a terminal there are plain lines"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_demo_with_a_fault_keeps_its_folder_and_names_its_logs(tmp_path: Path) -> None:
    """With a timeout of zero the demo does not wait for pending users: a fault."""
    done = subprocess.run(
        [*DEMO, "--quick", "--timeout", "0"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=patient(280),
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "WRONG: " in done.stdout
    assert "Unknown child process" not in done.stdout + done.stderr
    logs = [Path(each) for each in re.findall(r"^\s+(/\S+\.log)$", done.stdout, re.MULTILINE)]
    assert {"registration.log", "run.log", "server.log"} <= {each.name for each in logs}
    for log in logs:
        assert log.is_file()
    for folder in {log.parent for log in logs}:  # the server of root has its own folder
        shutil.rmtree(folder)


@pytest.mark.long
def test_a_stopped_demo_leaves_no_files(tmp_path: Path) -> None:
    demo = subprocess.Popen(
        DEMO,
        env={**os.environ, "TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    with demo:
        assert demo.stdout is not None
        for line in demo.stdout:
            if "breaker open" in line:
                break
        demo.send_signal(signal.SIGINT)
        rest = demo.stdout.read()
    assert demo.returncode == 130, rest
    assert "Stopped." in rest
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def resetting() -> Iterator[int]:
    """The port of a target that resets each connection, like a process that is killed."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(30)

        def reset() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listening.accept()
                    no_goodbye = struct.pack("ii", 1, 0)
                    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, no_goodbye)
                    connection.close()

        resets = threading.Thread(target=reset)
        resets.start()
        yield listening.getsockname()[1]
        listening.shutdown(socket.SHUT_RDWR)
        resets.join()


@pytest.mark.anyio
async def test_a_target_that_resets_connections_is_unavailable(resetting: int) -> None:
    """Some of the connections look open to httpx, which then raises errors of other classes."""

    async def often(http: httpx.AsyncClient) -> None:
        for _ in range(200):
            with pytest.raises(UnavailableError):
                await ask(http, "/", {}, key="k", correlation_id="c", within=5)

    url = f"http://127.0.0.1:{resetting}"
    async with (
        httpx.AsyncClient(base_url=url, trust_env=False) as http,
        anyio.create_task_group() as group,
    ):
        for _ in range(5):
            group.start_soon(often, http)
