"""How the log tells that the database is away: when it begins, once a minute, and when it is over.

Owns what is known of an outage in this process, whose parts all meet it, each in its own loop or
thread. Promises: what connecting fails for is told of in one line and not by each part at each try;
all else is told of as it comes, such as a session that was ended while others go on.
Known limit: a process that works with two databases tells of both as of one.
"""

import threading
import time
from collections.abc import Callable
from typing import Any

from inboxd.errors import DatabaseAway
from inboxd.model.outcome import explain
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_EVERY = 60.0
# Nobody has tried for so long: whether it was away all the time is not known.
_FORGOTTEN = 300.0


class Outage:
    """What is known of the database's absence."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        """By this clock."""
        self._clock = clock
        self._lock = threading.Lock()
        self._since: float | None = None
        self._told = self._tried = 0.0
        self._left_out = 0
        self._held_up: set[str] = set()

    def warn(self, say: Callable[..., Any], what: str, error: BaseException, **given: Any) -> None:
        """Tell what could not be done, by `say`; if it is for the outage, tell of that."""
        reason = explain(error).error
        if not isinstance(error, DatabaseAway):
            say(what, reason=reason, **given)
            return
        with self._lock:
            now = self._clock()
            begins = self._since is None or now - self._tried > _FORGOTTEN
            since = now if begins or self._since is None else self._since
            self._since, self._tried = since, now
            self._held_up.add(what)
            is_due = not begins and now - self._told >= _EVERY
            if begins:
                self._held_up, self._left_out = {what}, 0
            if begins or is_due:
                self._told = now
            else:
                self._left_out += 1
            held_up, left_out = sorted(self._held_up), self._left_out
        if begins:
            _log.warning("the database is away", reason=reason, first=what)
        elif is_due:
            seconds = round(now - since)
            _log.warning(
                "the database is still away",
                seconds=seconds,
                reason=reason,
                held_up=held_up,
                lines_left_out=left_out,
            )

    def over(self) -> None:
        """Tell that the database has answered again, if it was away."""
        with self._lock:
            since, self._since = self._since, None
            seconds = 0 if since is None else round(self._clock() - since)
            held_up, left_out = sorted(self._held_up), self._left_out
        if since is not None:
            _log.info(
                "the database is back", seconds=seconds, held_up=held_up, lines_left_out=left_out
            )


# That of this process.
OUTAGE = Outage()
