"""The older code: what a rolling deploy still runs while the newest code has arrived.

Owns which commit that is, and its files, from the repository's history.
"""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

# The commit whose workers and producers must work on the newest schema, beside the newest ones:
# what its migrations/ has is as good as released, and changes by the next number alone
# (CONTRIBUTING.md). It is moved on to each release, by its tag; and to a later commit of main only
# while nothing is released, if the schema has to change under its number.
OLDER = "6edabd8c132cfdf1557d6ead2591de0476b3ad82"

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
        files.extraction_filter = getattr(tarfile, "data_filter", None)  # since 3.11.4
        files.extractall(folder)  # noqa: S202 - what git has written of our own history
    return folder
