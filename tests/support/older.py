"""The older code, which a rolling deploy still runs beside the newest one.

In a test: `environment["PYTHONPATH"] = str(unpack(tmp_path))`.
Owns which commit the older code is; its files come from the repository's history.
"""

import io
import subprocess
import tarfile
from pathlib import Path

import pytest

# The commit whose workers and producers must work on the newest schema, beside the newest ones. Its
# migrations/ count as released: a change needs the next number (CONTRIBUTING.md). Each release
# moves this on to its tag. Before the first release it may move to a later commit of main, if the
# schema must change under its number.
OLDER = "6edabd8c132cfdf1557d6ead2591de0476b3ad82"

_ROOT = Path(__file__).resolve().parents[2]


def unpack(folder: Path) -> Path:
    """Unpack the older code's whole tree into `folder`; return that, for PYTHONPATH.

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
        files.extraction_filter = getattr(tarfile, "data_filter", None)  # since Python 3.11.4
        files.extractall(folder)  # noqa: S202 - what git has written of our own history
    return folder
