"""Processes with a wrong clock: libfaketime, preloaded into them.

    clock = Clock(folder, seconds=-3600)
    start_worker(environment=clock.environment)

Promises: only the wall clock is wrong, as on a real machine; the monotonic clock is right. A test
that asks for a clock is skipped where libfaketime is missing (Debian: `apt install faketime`).
"""

from collections.abc import Mapping
from pathlib import Path

import pytest

_PLACES = ("usr/lib/*/faketime", "usr/lib64/faketime", "usr/lib/faketime")
_LIBRARY = "libfaketimeMT.so.1"


class Clock:
    """The offset of the wall clock in the processes that were started with `environment`."""

    def __init__(self, folder: Path, seconds: float = 0.0) -> None:
        """Keep the offset in a file of `folder`, which every user must be able to enter."""
        found = [path for place in _PLACES for path in Path("/").glob(f"{place}/{_LIBRARY}")]
        if not found:
            pytest.skip("libfaketime is not installed: apt install faketime")
        self._file = folder / f"clock{seconds:+g}"
        self.off(seconds)
        self.environment: Mapping[str, str] = {
            "LD_PRELOAD": str(found[0]),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }

    def off(self, seconds: float) -> None:
        """Set the offset, also for processes that run already."""
        new = self._file.with_suffix(".new")
        new.write_text(f"{seconds:+.3f}\n")
        new.chmod(0o644)
        new.rename(self._file)  # atomic: a reader never sees half of it
