"""Ownership of folders, also when many processes start at the same moment."""

import os
import stat
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path

import pytest

from inboxd.errors import SettingsError
from inboxd.inbound.spool import trust
from inboxd.inbound.spool.checks import judge_spool
from inboxd.inbound.spool.files import SystemFiles
from inboxd.inbound.spool.folder import Owned, doubt, own
from inboxd.inbound.spool.log import write_cursor
from inboxd.operations.doctor.finding import Verdict
from inboxd.settings import Settings
from tests.support.receipts import receipt
from tests.support.spooled import spool
from tests.support.waiting import patient

STARTING = 8


def _spooled(path: Path) -> Path:
    """The folder of a spool whose process is gone."""
    owned = spool(path, receipt())
    owned.release()
    return owned.folder


def test_new_files_are_accessible_to_their_owner_only(tmp_path: Path) -> None:
    _spooled(tmp_path / "spool")
    for each in (tmp_path / "spool").rglob("*"):
        assert not each.stat().st_mode & 0o077, each


_PLACES: dict[str, Callable[[Path], Path]] = {
    "spools": lambda folder: folder.parent,
    "folder": lambda folder: folder,
    "apart": lambda folder: folder / "apart",
    "file": lambda folder: folder / "cursor",
    "sources": lambda folder: folder.parent.parent / "sources",
}


@pytest.mark.parametrize(
    ("which", "how"),
    [("path", "everybody"), *product(_PLACES, ("everybody", "link"))],
)
def test_a_folder_that_others_could_write_to_is_not_taken_over(
    tmp_path: Path, which: str, how: str
) -> None:
    """Once any account could leave a segment there, which was drained as an authentic webhook."""
    path = tmp_path / "spool"
    folder = _spooled(path)
    place = path if which == "path" else _PLACES[which](folder)
    assert doubt(path) is None
    if how == "everybody":
        place.chmod(place.stat().st_mode | stat.S_IWOTH)
    else:
        place.rename(tmp_path / "moved")
        place.symlink_to(tmp_path / "moved")
    with pytest.raises(SettingsError, match="it may hold forged webhooks") as refused:
        own(path)
    assert str(place) in str(refused.value)
    settings = Settings.merged({"inbound": {"spool": {"path": str(path)}}}, {})
    doubts = [each for each in judge_spool(settings) if each.verdict == Verdict.WARNING]
    assert any("forged webhooks" in each.found for each in doubts)


@pytest.mark.parametrize(
    ("mode", "user", "group", "problem"),
    [
        (0o40700, 7, 7, None),
        (0o42770, 0, 8, None),
        (0o40770, 7, 9, "group id 9"),
        (0o40750, 7, 9, None),
        (0o40700, 6, 7, "user id 6"),
        (0o41777, 7, 7, "every user"),
    ],
)
def test_owner_and_write_permissions_decide_about_trust(
    mode: int, user: int, group: int, problem: str | None
) -> None:
    found = os.stat_result((mode, 1, 1, 1, user, group, 0, 0, 0, 0))
    told = trust._problem(found, {7, 0}, {7, 8})
    assert (problem in told) if problem and told else told is problem


def test_a_volume_of_root_and_of_the_receiver_s_group_is_trusted(tmp_path: Path) -> None:
    """Kubernetes provides such volumes (`fsGroup`)."""
    tmp_path.chmod(0o2775)
    own(tmp_path).release()
    for each in tmp_path.rglob("*"):
        each.chmod(each.stat().st_mode | stat.S_IWGRP)
    own(tmp_path).release()


def test_symbolic_links_are_not_followed(tmp_path: Path) -> None:
    """Otherwise an account that may write next to the spool could choose a file to truncate."""
    mine = tmp_path / "mine"
    mine.write_text("stays")
    owned = own(tmp_path / "spool")
    for name in ("cursor.new", "owner"):
        (owned.folder / name).unlink(missing_ok=True)
        (owned.folder / name).symlink_to(mine)
    owned.release()
    assert doubt(tmp_path / "spool") is not None
    with pytest.raises(OSError, match="symbolic"):
        write_cursor(owned.folder, SystemFiles(), 7)
    assert mine.read_text() == "stays"


def test_each_of_many_simultaneous_processes_gets_a_folder(tmp_path: Path) -> None:
    """A process may lock a new folder before the process that created it."""
    with ThreadPoolExecutor(STARTING) as threads:
        for number in range(40):
            path = tmp_path / str(number)
            at_once = threading.Barrier(STARTING)

            def start(path: Path = path, at_once: threading.Barrier = at_once) -> Owned:
                at_once.wait(patient())
                return own(path)

            started = [threads.submit(start) for _ in range(STARTING)]
            owned = [each.result(patient()) for each in started]
            assert len({each.folder for each in owned}) == STARTING
            for each in owned:
                each.release()
