"""The gate removes what killed runs have left before it begins, and nothing else."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from gate import leftovers
from gate.leftovers import clean
from gate.settings import Leftovers, read_settings
from tests.gate.conftest import ROOT
from tests.support import shared_folder
from tests.support.supervising import runs

pytestmark = pytest.mark.timeout(120)

_OWNER = """
import sys, time
from tests.support import temporary_server
with temporary_server() as server:
    print(server.pid, server.home, server.socket_folder, flush=True)
    time.sleep(3600)
"""


# A process whose arguments show that it is inboxd's.
_SLEEPS = (sys.executable, "-c", "import time\ntime.sleep(3600)", "inboxd")
_FORKS = """
import subprocess, sys
silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
print(subprocess.Popen(sys.argv[1:], **silent, start_new_session=True).pid)
"""


def _orphan(environment: Mapping[str, str]) -> int:
    """Start a process whose parent has ended; return its pid."""
    done = subprocess.run(
        [sys.executable, "-c", _FORKS, *_SLEEPS],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout)


@dataclass(frozen=True)
class Owner:
    """A process that owns a server: the server's pid, its folder, that of its socket."""

    process: subprocess.Popen[str]
    pid: int
    home: Path
    socket: Path

    def kill(self) -> None:
        """Kill it together with the server's guard, so that no process cleans up."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        for pid in map(int, children.read_text().split()):
            if pid != self.pid:
                os.kill(pid, signal.SIGKILL)
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the server's account can enter."""
    with shared_folder() as folder:
        yield folder


@pytest.fixture
def owner(place: Path) -> Iterator[Owner]:
    """A process with a server of its own below `place`."""
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    pid, home, folder = process.stdout.readline().split()
    yield (found := Owner(process, int(pid), Path(home), Path(folder)))
    if process.poll() is None:
        found.kill()
    clean(_places(place), in_ci=False)


def _places(place: Path) -> Leftovers:
    return Leftovers(servers=(f"{place}/inboxd-test-*",))


def test_the_server_of_a_killed_run_is_ended_and_its_folder_removed(
    owner: Owner, place: Path
) -> None:
    assert owner.home.parent == place
    owner.kill()
    assert runs(owner.pid)
    done = clean(_places(place), in_ci=False)
    assert not runs(owner.pid)
    assert not owner.home.exists()
    assert not owner.socket.exists()
    assert f"killed postgres ({owner.pid})" in done
    assert f"removed {owner.home}" in done


def test_the_server_of_a_living_run_is_left_alone(owner: Owner, place: Path) -> None:
    for in_ci in (False, True):
        assert clean(_places(place), in_ci=in_ci) == []
    assert runs(owner.pid)
    assert owner.home.exists()
    assert owner.socket.exists()


def test_an_unused_folder_without_a_lock_is_removed_only_in_ci(
    place: Path,
) -> None:
    abandoned, open_, listens = (place / f"inboxd-{name}" for name in ("a", "a-b", "a-c"))
    for folder in (abandoned, open_, listens):
        folder.mkdir()
    places = Leftovers(folders=(f"{place}/inboxd-*",))
    with (open_ / "file").open("w"), socket.socket(socket.AF_UNIX) as listener:
        listener.bind(f"{listens}/socket")
        assert clean(places, in_ci=False) == []
        assert clean(places, in_ci=True) == [f"removed {abandoned}"]
    assert sorted(place.iterdir()) == [open_, listens]


def test_data_of_developers_is_removed_only_in_ci(place: Path) -> None:
    data = place / "data-0"
    data.mkdir()
    (data / "lock").touch()
    places = Leftovers(embedded_servers=(f"{place}/data-*",))
    assert clean(places, in_ci=False) == []
    assert clean(places, in_ci=True) == [f"removed {data}"]


def test_only_orphans_of_killed_tests_are_ended() -> None:
    """An orphan has the mark of a test, is one of inboxd's, and has no pytest above it."""
    marked = {**os.environ, "PYTEST_CURRENT_TEST": "a"}
    plain = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    child = subprocess.Popen([*_SLEEPS], env=marked)
    orphan, stranger = _orphan(marked), _orphan(plain)
    try:
        found = set(leftovers._orphans())
        assert orphan in found
        assert stranger not in found
        assert child.pid not in found
        assert leftovers._end([orphan]) == [orphan]
        assert not runs(orphan)
    finally:
        os.kill(stranger, signal.SIGKILL)
        child.kill()
        child.communicate()


def test_the_gate_cleans_the_places_of_tests_servers() -> None:
    servers = read_settings().leftovers.servers
    assert set(servers) == {"/dev/shm/inboxd-test-*", "/tmp/inboxd-test-*"}  # noqa: S108
