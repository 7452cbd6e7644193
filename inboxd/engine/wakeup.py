"""When a processor sleeps, and what wakes it: the worker's half of the wake-up protocol.

Owns the flag of one table as this worker sees it (design section 5; the producers' half is in
migrations/0001_tables.sql). Promises that before a sleep, in this order, the flag was set to 1,
every producer that was silent has ended, and a sweep after that found nothing; so no row is left
behind, and with every notification lost the poll still finds it (promise 4). Peers are told twice
of a silence that ended: when the flag is set, and when the last silent producer has ended. Known
limit: a silent producer that stays open for long keeps the processor looking again, a quarter
second apart.
*See:* `listener`, before it; `processor`, after it.
"""

import time
from collections.abc import Callable
from typing import Literal

import anyio

from inboxd.engine.fleet import Fleet
from inboxd.store import wakeups
from inboxd.store.connections import Connection
from inboxd.store.pools import Pool, borrow
from inboxd.store.statements import Statements
from inboxd.store.wakeups import Flag, HotTable

Mode = Literal["quiet", "always", "off"]
Cause = Literal["notify", "poll", "timer", "sweep", "reconnect"]

_SHORTEST_LOOK = 0.001
_LONGEST_LOOK = 0.25
# How long a worker that leaves waits for silent producers, whose rows notify nobody.
_LONGEST_GOODBYE = 1.0
# From the second page in a row on, producers' notifications cost more than they bring.
_PAGES_BEFORE_SILENCE = 2


class WakeUp:
    """The sleep and the flag of one processor."""

    def __init__(
        self,
        table: HotTable,
        pool: Pool,
        sql: Statements,
        mode: Mode,
        poll: float,
        fleet: Fleet,
        on_silence: Callable[[], None],
    ) -> None:
        """Serve the processor of `table`; `poll` is the longest sleep in seconds.

        `on_silence` tells the heartbeat's thread to watch this flag.
        """
        self.table = table
        # When the last page was claimed while the flag was 0; read by the heartbeat's thread.
        self.silent_since: float | None = None
        # Producers of a silence that may still be open: peers are notified when they have ended.
        self.owed: float | None = None
        self._pool = pool
        self._sql = sql
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
        """The connection was lost: the flag may be anything, on another server even."""
        self.silent_since = self.owed = None
        self._armed_at = None
        self._pages = 0

    def invalidate(self, cause: Cause) -> None:
        """The flag may have changed, as when somebody died: before the next sleep it is set."""
        self._armed_at = None
        self.wake(cause)

    async def working(self, *, full_page: bool, has_room: bool) -> None:
        """A page was found: be silent while it pays, and let peers help with a full one."""
        self._pages += 1
        self._look = _SHORTEST_LOOK
        may_be_silent = self._mode == "quiet" and self._fleet.uniform and has_room
        if may_be_silent and self._pages >= _PAGES_BEFORE_SILENCE:
            await self._be_silent()
        elif self.silent_since is not None:
            await self._speak()
        if full_page and self._fleet.peers and self._pages == 1:
            await self.notify_peers()

    async def _be_silent(self) -> None:
        already = self.silent_since is not None
        self.silent_since = time.monotonic()
        if not already:
            self._armed_at = None
            self.owed = self.silent_since
            # Told from before it begins; again after, since it may have been ended too early.
            self._on_silence()
            await self._set(Flag.SILENT)
            self.silent_since = time.monotonic()

    async def _speak(self) -> None:
        await self._set(Flag.NOTIFY)
        self.silent_since = None
        await self.notify_peers()

    def raised(self, since: float) -> None:
        """The flag was set to 1: the page of `since` took too long. A newer silence goes on."""
        if self.silent_since == since:
            self.silent_since = None

    def paid(self, owed: float) -> None:
        """Peers were notified that no producer of that silence is left."""
        if self.owed == owed:
            self.owed = None

    async def arm(self) -> bool:
        """Whether it is safe to sleep if a sweep from now on finds nothing."""
        self._pages = 0
        if self._mode == "off" or self._is_armed():
            return True
        async with borrow(self._pool) as connection:
            now, owed = time.monotonic(), self.owed
            await wakeups.set_flag(connection, self._sql, self.table, Flag.NOTIFY)
            self.silent_since = None
            if not await wakeups.no_silent_producer(connection, self._sql, self.table):
                return False
            if owed is not None:
                # Whoever joined since the last heartbeat must be notified too.
                await self.notify(connection)
                self.paid(owed)
        self._armed_at = now
        return True

    def _is_armed(self) -> bool:
        # Somebody may have died since and left the flag at 0: each poll interval it is set again.
        return self._armed_at is not None and time.monotonic() - self._armed_at < self._poll

    async def linger(self, seconds: float) -> bool:
        """Stay silent a little longer, for who looks again then; False: nobody is silent."""
        if self.silent_since is None:
            return False
        with anyio.move_on_after(seconds):
            await self._woken.wait()
        self._woken = anyio.Event()
        if self.silent_since is not None:
            self.silent_since = time.monotonic()
        return True

    async def look_again(self) -> None:
        """A silent producer is still open: wait a little, longer each time, then look again."""
        with anyio.move_on_after(self._look):
            await self._woken.wait()
        self._woken = anyio.Event()
        self._look = min(2 * self._look, _LONGEST_LOOK)

    async def sleep(self, seconds: float | None) -> Cause:
        """Sleep until something wakes, the next row is due (in `seconds`), or the poll."""
        self._look = _SHORTEST_LOOK
        limit = self._poll if seconds is None else max(0.0, min(seconds, self._poll))
        cause: Cause = "poll" if limit == self._poll else "timer"
        with anyio.move_on_after(limit):
            await self._woken.wait()
            cause = self._cause
        self._woken = anyio.Event()
        return cause

    async def notify_peers(self) -> None:
        """Rows became claimable without an INSERT, or there are more than one worker takes."""
        async with borrow(self._pool) as connection:
            await self.notify(connection)

    async def notify(self, connection: Connection) -> None:
        """The same on a connection, and in the transaction, of the caller's."""
        if self._mode != "off":
            await wakeups.notify(connection, self._sql, self.table)

    async def leave(self) -> None:
        """This processor stops: the others must be notified of new rows from now on."""
        if self._mode == "off":
            return
        await self._speak()
        if self.owed is not None:
            with anyio.move_on_after(_LONGEST_GOODBYE):
                while not await self.arm():
                    await self.look_again()

    async def start(self) -> None:
        """Say what this mode wants of the triggers."""
        await self._set(Flag.OFF if self._mode == "off" else Flag.NOTIFY)

    async def _set(self, flag: Flag) -> None:
        async with borrow(self._pool) as connection:
            await wakeups.set_flag(connection, self._sql, self.table, flag)
