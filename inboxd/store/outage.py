"""Log lines about an unreachable database: when an outage begins, once a minute, when it ends.

Promises one common line for all parts of the process, its loops and threads; other errors are
logged at once. Known limit: a process with two databases reports both as one outage.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from inboxd.errors import DatabaseAway
from inboxd.model.outcome import explain
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_REPORT_SECONDS = 60.0
# After this time without an attempt, the next failure counts as a new outage.
_FORGOTTEN_SECONDS = 300.0


class Outage:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._told = self._tried = 0.0
        self._left_out = 0
        self._held_up: set[str] = set()

    def warn(self, say: Callable[..., Any], what: str, error: BaseException, **given: Any) -> None:
        """Log by `say` what failed; if the database is unreachable, report the outage instead."""
        reason = explain(error).error
        if not isinstance(error, DatabaseAway):
            say(what, reason=reason, **given)
            return
        with self._lock:
            now = self._clock()
            begins = self._since is None or now - self._tried > _FORGOTTEN_SECONDS
            since = now if begins or self._since is None else self._since
            self._since, self._tried = since, now
            self._held_up.add(what)
            is_due = not begins and now - self._told >= _REPORT_SECONDS
            if begins:
                self._held_up, self._left_out = {what}, 0
            if begins or is_due:
                self._told = now
            else:
                self._left_out += 1
            held_up, left_out = sorted(self._held_up), self._left_out
        if begins:
            _log.warning("the database is unreachable", reason=reason, first=what)
        elif is_due:
            seconds = round(now - since)
            _log.warning(
                "the database is still unreachable",
                seconds=seconds,
                reason=reason,
                held_up=held_up,
                lines_left_out=left_out,
            )

    def over(self) -> None:
        with self._lock:
            since, self._since = self._since, None
            seconds = 0 if since is None else round(self._clock() - since)
            held_up, left_out = sorted(self._held_up), self._left_out
        if since is not None:
            _log.info(
                "the database answers again",
                seconds=seconds,
                held_up=held_up,
                lines_left_out=left_out,
            )


# The outage of this process.
OUTAGE = Outage()
