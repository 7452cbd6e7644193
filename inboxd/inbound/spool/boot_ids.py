"""Order stamps: the order in which a host spooled its receipts, independent of the wall clock.

Stamps of one boot are comparable across processes; stamps of a later boot are greater. Known limit:
two receipts in progress at the same moment have no order.
"""

import fcntl
import os
import time
from pathlib import Path

from inboxd.inbound.spool.encoding import Order

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Stamps:
    def __init__(self, path: Path) -> None:
        """Find the number of this boot in the spool's list, or append it. Raises OSError."""
        self._boot = _boot_number(path / "boots", _BOOT_ID.read_text().strip())
        self._last = 0

    def make(self) -> Order:
        self._last = max(self._last + 1, time.clock_gettime_ns(time.CLOCK_BOOTTIME))
        return Order(self._boot, self._last)


def _boot_number(path: Path, boot: str) -> int:
    handle = os.open(path, _FLAGS, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        seen = path.read_text().split()
        if boot not in seen:
            os.write(handle, f"{boot}\n".encode())
            os.fsync(handle)
            seen.append(boot)
        return len(seen) - 1 - seen[::-1].index(boot)
    finally:
        os.close(handle)
