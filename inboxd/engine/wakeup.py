"""When a processor sleeps, and what wakes it: the worker's half of the wake-up protocol.

The producers' half is in migrations/0001_tables.sql (design section 5). Before each sleep, in this
order, the flag was set to 1, all silent producers have ended, and a sweep then found nothing. If
all notifications are lost, the poll finds the row (promise 4). Peers are notified when the flag is
set, and when the last silent producer has ended. Known limit: while a silent producer is open, the
processor claims every quarter of a second. *See:* `listener`, before it; `processor`, after it.
"""

import time
from collections.abc import Callable
from typing import Literal

import anyio

from inboxd.engine.fleet import Fleet
from inboxd.store import wakeups
from inboxd.store.pools import Pool, borrow
from inboxd.store.session import Session
from inboxd.store.wakeups import Flag, HotTable

Mode = Literal["quiet", "always", "off"]
Cause = Literal["notify", "poll", "timer", "sweep", "reconnect"]

_SHORTEST_LOOK = 0.001
_LONGEST_LOOK = 0.25
# Seconds for which a leaving worker waits for silent producers: their rows cause no notification.
_LONGEST_GOODBYE = 1.0
# From this page in a row on, producers' notifications cost more than they help.
_PAGES_BEFORE_SILENCE = 2


class WakeUp:
    def __init__(
        self,
        table: HotTable,
        pool: Pool,
        mode: Mode,
        poll: float,
        fleet: Fleet,
        on_silence: Callable[[], None],
    ) -> None:
        """poll: seconds. on_silence: makes the heartbeat's thread watch this flag."""
        self.table = table
        # When the last page was claimed while the flag was 0; read by the heartbeat's thread.
        self.silent_since: float | None = None
        # Begin of a silence whose producers may still be open: peers are notified when they have
        # ended.
        self.owed: float | None = None
        self._pool = pool
        self._mode = mode
        self._poll = poll
        self._fleet = fleet
        self._on_silence = on_silence
        self._woken = anyio.Event()
        self._cause: Cause = "reconnect"
        # When the flag was last known to be 1 with no silent producer left.
        self._armed_at: float | None = None
        self._look = _SHORTEST_LOOK
        self._pages = 0

    def wake(self, cause: Cause) -> None:
        """End the sleep, or prevent the next one."""
        self._cause = cause
        self._woken.set()

    def forget(self) -> None:
        """Treat the flag as unknown: the connection was lost, and the server may be another."""
        self.silent_since = self.owed = None
        self._armed_at = None
        self._pages = 0

    def invalidate(self, cause: Cause) -> None:
        """Set the flag before the next sleep: it may have changed, for example at a death."""
        self._armed_at = None
        self.wake(cause)

    async def working(self, *, full_page: bool, has_room: bool) -> None:
        """A page had rows: silence producers while that pays, and notify peers of a full page."""
        self._pages += 1
        self._look = _SHORTEST_LOOK
        may_be_silent = self._mode == "quiet" and self._fleet.uniform and has_room
        if may_be_silent and self._pages >= _PAGES_BEFORE_SILENCE:
            await self._be_silent()
        elif self.silent_since is not None:
            await self._end_silence()
        if full_page and self._fleet.peers and self._pages == 1:
            await self.notify_peers()

    async def _be_silent(self) -> None:
        already = self.silent_since is not None
        self.silent_since = time.monotonic()
        if not already:
            self._armed_at = None
            self.owed = self.silent_since
            # Before the flag is set, and again after it: the heartbeat's thread may end the silence
            # in between.
            self._on_silence()
            await self._set(Flag.SILENT)
            self.silent_since = time.monotonic()

    async def _end_silence(self) -> None:
        await self._set(Flag.NOTIFY)
        self.silent_since = None
        await self.notify_peers()

    def raised(self, since: float) -> None:
        """Called by the heartbeat's thread for a slow page; a newer silence continues."""
        if self.silent_since == since:
            self.silent_since = None

    def paid(self, owed: float) -> None:
        """Peers were notified that the silent producers of `owed` have ended."""
        if self.owed == owed:
            self.owed = None

    async def arm(self) -> bool:
        """Make it safe to sleep if a sweep after this call finds nothing; False: not safe yet."""
        self._pages = 0
        if self._mode == "off" or self._is_armed():
            return True
        async with borrow(self._pool) as session:
            now, owed = time.monotonic(), self.owed
            await wakeups.set_flag(session, self.table, Flag.NOTIFY)
            self.silent_since = None
            if not await wakeups.no_silent_producer(session, self.table):
                return False
            if owed is not None:
                # A worker that joined since the last heartbeat must be notified, too.
                await self.notify(session)
                self.paid(owed)
        self._armed_at = now
        return True

    def _is_armed(self) -> bool:
        # Set again after each poll interval: a worker that died may have left the flag at 0.
        return self._armed_at is not None and time.monotonic() - self._armed_at < self._poll

    async def linger(self, seconds: float) -> bool:
        """Stay silent for these seconds before another page; False: there is no silence."""
        if self.silent_since is None:
            return False
        with anyio.move_on_after(seconds):
            await self._woken.wait()
        self._woken = anyio.Event()
        if self.silent_since is not None:
            self.silent_since = time.monotonic()
        return True

    async def look_again(self) -> None:
        """Wait, longer each time, since a silent producer is still open."""
        with anyio.move_on_after(self._look):
            await self._woken.wait()
        self._woken = anyio.Event()
        self._look = min(2 * self._look, _LONGEST_LOOK)

    async def sleep(self, seconds: float | None) -> Cause:
        """Sleep until a wake-up, the next due row (in `seconds`), or the poll."""
        self._look = _SHORTEST_LOOK
        limit = self._poll if seconds is None else max(0.0, min(seconds, self._poll))
        cause: Cause = "poll" if limit == self._poll else "timer"
        with anyio.move_on_after(limit):
            await self._woken.wait()
            cause = self._cause
        self._woken = anyio.Event()
        return cause

    async def notify_peers(self) -> None:
        """Notify peers: rows became claimable without an INSERT, or are too many for one worker."""
        async with borrow(self._pool) as session:
            await self.notify(session)

    async def notify(self, session: Session) -> None:
        if self._mode != "off":
            await wakeups.notify(session, self.table)

    async def leave(self) -> None:
        """Let other workers be notified of new rows, since this processor stops."""
        if self._mode == "off":
            return
        await self._end_silence()
        if self.owed is not None:
            with anyio.move_on_after(_LONGEST_GOODBYE):
                while not await self.arm():
                    await self.look_again()

    async def start(self) -> None:
        await self._set(Flag.OFF if self._mode == "off" else Flag.NOTIFY)

    async def _set(self, flag: Flag) -> None:
        async with borrow(self._pool) as session:
            await wakeups.set_flag(session, self.table, flag)
