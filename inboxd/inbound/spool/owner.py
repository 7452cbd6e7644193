"""Finds the process that holds a lock of the spool; one in another container may have no number."""

import os
from pathlib import Path

_LOCKS = Path("/proc/locks")


def holder(lock: Path) -> int | None:
    """The process that holds a lock on this file; None, if that is unknown."""
    try:
        of = lock.stat()
        lines = _LOCKS.read_text().splitlines()
    except OSError:
        return None
    file = f"{os.major(of.st_dev):02x}:{os.minor(of.st_dev):02x}:{of.st_ino}"
    for line in lines:
        words = line.split()
        if "FLOCK" in words and "->" not in words and file in words:
            pid = int(words[words.index(file) - 1])
            return pid if pid > 0 else None
    return None
