"""What killed runs left is gone before the gate begins, and nothing else is."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

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
    print(server.pid, server.home, flush=True)
    time.sleep(3600)
"""


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder that the server's account can enter."""
    with shared_folder() as folder:
        yield folder


def _owner(place: Path) -> tuple[subprocess.Popen[str], int, Path]:
    """A process with a server of its own below `place`; the server's pid and its folder."""
    owner = subprocess.Popen(
        [sys.executable, "-c", _OWNER],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(place)},
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert owner.stdout is not None
    pid, _, home = owner.stdout.readline().strip().partition(" ")
    return owner, int(pid), Path(home)


def _kill(owner: subprocess.Popen[str]) -> None:
    """End a process with those that it started, so that nobody cleans up after it."""
    children = Path(f"/proc/{owner.pid}/task/{owner.pid}/children").read_text().split()
    for pid in (owner.pid, *map(int, children)):
        if "guard" in Path(f"/proc/{pid}/cmdline").read_text() or pid == owner.pid:
            os.kill(pid, signal.SIGKILL)
    owner.communicate()


def _places(place: Path) -> Leftovers:
    return Leftovers(folders=(f"{place}/inboxd-test-*",))


def test_the_server_of_a_killed_run_is_ended_and_its_folder_removed(place: Path) -> None:
    owner, pid, home = _owner(place)
    assert home.parent == place
    _kill(owner)
    assert runs(pid)
    done = clean(_places(place))
    assert not runs(pid)
    assert not home.exists()
    assert f"killed postgres ({pid})" in done
    assert f"removed {home}" in done


def test_the_server_of_a_run_that_goes_on_is_left_alone(place: Path) -> None:
    owner, pid, home = _owner(place)
    try:
        assert clean(_places(place)) == []
        assert runs(pid)
        assert home.exists()
    finally:
        _kill(owner)
        clean(_places(place))


def test_a_folder_without_a_process_is_removed_and_one_of_a_longer_name_left(place: Path) -> None:
    abandoned, longer = place / "inboxd-test-a", place / "inboxd-test-a-b"
    abandoned.mkdir()
    longer.mkdir()
    with (longer / "in-use").open("w"):
        assert clean(_places(place)) == [f"removed {abandoned}"]
    assert [each.name for each in place.iterdir()] == [longer.name]


def test_data_is_removed_once_it_is_old(place: Path) -> None:
    old, new = place / "data-old", place / "data-new"
    for folder in (old, new):
        folder.mkdir()
        (folder / "server.log").write_text("")
    long_ago = time.time() - 2 * 86_400
    for each in (old / "server.log", old):
        os.utime(each, (long_ago, long_ago))
    assert clean(Leftovers(data=(f"{place}/data-*",))) == [f"removed {old}"]
    assert new.exists()


def test_the_gate_of_this_project_cleans_where_tests_keep_their_servers() -> None:
    folders = read_settings().leftovers.folders
    assert {"/dev/shm/inboxd-test-*", "/tmp/inboxd-test-*"} <= set(folders)  # noqa: S108
