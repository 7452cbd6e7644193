"""The older code: what a rolling deploy still runs while the newest code has arrived.

Owns which commit that is, and its files, from the repository's history.
"""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

# The commit whose workers and producers must work on the newest schema, beside the newest ones:
# what its migrations/ has is as good as released, and is changed by the next number alone
# (CONTRIBUTING.md). When a version is released, its tag is the next older code; a commit that has
# this file is never followed by an earlier one.
OLDER = "368abb651364dcc9679680557fe4e06a5ca0c624"

_ROOT = Path(__file__).resolve().parents[2]


def unpack(folder: Path) -> Path:
    """The older code's whole tree, in `folder`; which is returned, for PYTHONPATH.

    Skips the test where the history is missing; in CI that fails.
    """
    command = ["git", "-C", str(_ROOT), "archive", OLDER]
    try:
        archive = subprocess.run(command, capture_output=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(
            f"The older code, commit {OLDER}, is not in the repository's history here. Run the "
            "tests in a clone that has it; `git fetch --unshallow` completes a shallow one. "
            f"{getattr(error, 'stderr', b'').decode().strip() or error}"
        )
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")
    return folder


def keeps_its_schema(folder: Path) -> bool:
    """Whether the older code knows that its migrations are as good as released.

    Before there was this file, they were still changed under their numbers.
    """
    return (folder / "tests" / "support" / "older.py").exists()
