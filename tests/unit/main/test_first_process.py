"""Process 1 of a container reaps orphans, and passes each signal on once."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from inboxd.main import first_process
from tests.support.waiting import eventually, patient

# A process that gets orphans as process 1 does, and its child, which runs the rest.
_PROGRAM = """
import ctypes, os, signal, subprocess, sys, time
from inboxd.main.first_process import lead

PR_SET_CHILD_SUBREAPER = 36
assert ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1) == 0
above = os.getpid()
lead()
heard = []
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
    signal.signal(number, lambda given, _: heard.append(given))
for _ in range(20):
    subprocess.run(["sh", "-c", "sleep 0.1 & exit 0"], check=True)
print(os.getpid(), above, flush=True)
while len(heard) < 4:
    signal.pause()
time.sleep(0.3)  # would it come twice?
print(*map(int, heard), flush=True)
sys.exit(7)
"""

# A signal comes after the child has been waited for, and before this process has ended.
_LATE_SIGNAL = """
import os, signal
from inboxd.main import first_process

leave = os._exit


def with_a_signal(code):
    os.kill(os.getpid(), signal.SIGTERM)
    leave(code)


os._exit = with_a_signal
first_process.lead()
leave(7)
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[str]]:
    """Start a process that leads a child."""
    started = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    with started:
        yield started
        started.kill()


def below(pid: int) -> list[int]:
    """Return the children of a process, zombies too."""
    found = []
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # the process has ended meanwhile
            _, parent, *_ = file.read_text().rpartition(")")[2].split()
            if int(parent) == pid:
                found.append(int(file.parent.name))
    return found


@pytest.mark.anyio
async def test_orphans_are_reaped_and_signals_passed_on(
    process: subprocess.Popen[str],
) -> None:
    assert process.stdout is not None
    child, above = map(int, process.stdout.readline().split())
    assert above == process.pid
    assert os.getsid(child) == child

    async def are_gone() -> bool:
        return below(above) == [child]

    await eventually(are_gone)
    given = (signal.SIGHUP, signal.SIGUSR2, signal.SIGINT)
    for number in given:
        process.send_signal(number)
        await anyio.sleep(0.05)  # equal pending signals would merge into one
    os.killpg(process.pid, signal.SIGTERM)  # to the group, as a terminal does
    heard = sorted(map(int, process.stdout.readline().split()))
    assert heard == sorted(map(int, (*given, signal.SIGTERM)))
    assert process.wait(patient(30)) == 7


def test_child_ended_by_a_signal_has_a_shells_exit_code(
    process: subprocess.Popen[str],
) -> None:
    assert process.stdout is not None
    child, _ = map(int, process.stdout.readline().split())
    os.kill(child, signal.SIGKILL)
    assert process.wait(patient(30)) == 128 + signal.SIGKILL


def test_signal_after_the_childs_end_changes_nothing() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _LATE_SIGNAL],
        capture_output=True,
        text=True,
        timeout=patient(30),
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (7, "")


def test_other_processes_continue_as_themselves() -> None:
    before = os.getpid()
    first_process.be_a_child()
    assert os.getpid() == before
