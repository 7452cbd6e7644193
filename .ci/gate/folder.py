"""The folder of a run: its logs and failures, outside the checkout. Those of twenty runs are kept.

INBOXD_CI_RUNS names another place than /var/tmp/inboxd-ci. One gate at a time has the place: two
would disturb each other's tests.
"""

import fcntl
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gate.settings import ROOT

KEPT_RUNS = 20
LATEST = "latest"
_NAME = re.compile(r"\d{8}-\d{6}-.+")


class Busy(Exception):
    """Another gate runs on this machine."""


def runs() -> Path:
    """Where the folders of all runs are."""
    return Path(os.environ.get("INBOXD_CI_RUNS") or "/var/tmp/inboxd-ci")  # noqa: S108 - kept


def commit() -> str:
    """The short name of the commit, or "no-commit" outside a repository."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "no-commit"
    return done.stdout.strip() or "no-commit"


@contextmanager
def only_gate() -> Iterator[None]:
    """Be the only gate during the `with` block. Raises Busy."""
    base = runs()
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise Busy(f"Another gate has the lock of {base}: wait for its end.") from error
        yield


def make_folder() -> Path:
    """Make the folder of this run, point `latest` at it, and remove the oldest ones."""
    base = runs()
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{commit()}"
    folder = next(
        each for number in range(1000) if not (each := base / f"{name}{_suffix(number)}").exists()
    )
    folder.mkdir()
    pointer = base / f".{LATEST}-{os.getpid()}"
    pointer.symlink_to(folder.name)
    pointer.rename(base / LATEST)
    old = sorted(each for each in base.iterdir() if _NAME.fullmatch(each.name) and each.is_dir())
    for each in old[:-KEPT_RUNS]:
        shutil.rmtree(each, ignore_errors=True)
    return folder


def _suffix(number: int) -> str:
    return f"-{number}" if number else ""
