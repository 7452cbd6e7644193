"""The folder of a run, outside the checkout: its logs and failures. Those of twenty runs are kept.

INBOXD_CI_RUNS names another place than /var/tmp/inboxd-ci. One gate at a time uses the place: two
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
_NAME = re.compile(r"\d{8}-\d{6}-.+")


class AnotherGateRuns(Exception):
    """Another gate runs on this machine."""


def runs_folder() -> Path:
    """The folder that contains the folders of all runs."""
    return Path(os.environ.get("INBOXD_CI_RUNS") or "/var/tmp/inboxd-ci")  # noqa: S108 - kept after a restart


def newest_commit() -> str:
    """The short name of the commit, or "no-commit" outside a repository."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return "no-commit"
    return done.stdout.strip() or "no-commit"


@contextmanager
def only_gate() -> Iterator[None]:
    """Hold the lock of the place during the `with` block. Raises AnotherGateRuns."""
    base = runs_folder()
    base.mkdir(parents=True, exist_ok=True)
    with (base / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise AnotherGateRuns(
                f"Another gate runs and has the lock of {base}: wait until it ends."
            ) from error
        yield


def make_folder(commit: str) -> Path:
    """Make the folder of this run, point `latest` to it, and remove the oldest ones."""
    base = runs_folder()
    folder = base / f"{time.strftime('%Y%m%d-%H%M%S')}-{commit}-{os.getpid()}"
    folder.mkdir()
    pointer = base / ".latest"
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(folder.name)
    pointer.rename(base / "latest")
    others = sorted(each for each in base.iterdir() if _NAME.fullmatch(each.name))
    others.remove(folder)
    for each in others[: -(KEPT_RUNS - 1)]:
        shutil.rmtree(each, ignore_errors=True)
    return folder
