"""The folder of a run: logs and failures, outside the checkout, of the last twenty runs.

INBOXD_CI_RUNS names another place than /var/tmp/inboxd-ci.
"""

import os
import shutil
import subprocess
import time
from pathlib import Path

from gate.settings import ROOT

KEPT_RUNS = 20
LATEST = "latest"


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


def make_folder() -> Path:
    """Make the folder of this run, point `latest` at it, and remove the oldest ones."""
    base = runs()
    base.mkdir(parents=True, exist_ok=True)
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{commit()}"
    folder = next(
        each for number in range(1000) if not (each := base / f"{name}{_suffix(number)}").exists()
    )
    folder.mkdir()
    pointer = base / f".{LATEST}-{os.getpid()}"
    pointer.symlink_to(folder.name)
    pointer.rename(base / LATEST)
    old = sorted(each for each in base.iterdir() if each.is_dir() and not each.is_symlink())
    for each in old[:-KEPT_RUNS]:
        shutil.rmtree(each, ignore_errors=True)
    return folder


def _suffix(number: int) -> str:
    return f"-{number}" if number else ""
