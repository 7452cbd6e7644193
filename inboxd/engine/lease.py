"""The lease: this worker's heartbeat, in a thread of its own.

Owns the heartbeat's thread and connection, and the judgement of this worker's own lease. Promises
that a blocked event loop does not look like a death, that work is suspended before a lease that was
not renewed can end, and that a flag which a slow page leaves at 0 is raised if other workers live.
Known limit: code that holds the interpreter's lock for a whole lease stops this thread too; its
writes are fenced then (promise 3). *See:* `daemon/incarnation.py`, which suspends the work;
`maintenance/reaper.py`, which looks at the heartbeats of others.
"""

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

import anyio

from inboxd.engine.fleet import Fleet
from inboxd.engine.wakeup import WakeUp
from inboxd.settings import Settings
from inboxd.store import wakeups, workers
from inboxd.store.connections import Connection, connect
from inboxd.store.outage import OUTAGE
from inboxd.store.statements import Statements
from inboxd.store.wakeups import Flag
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Work is suspended when this share of the lease has passed without a renewal.
_SAFE_SHARE = 0.7
# A page that takes longer must not keep producers silent (design section 5).
_LONGEST_SILENCE = 0.05
_GUARD_INTERVAL = 0.25
# A failed beat is tried again after twice this many seconds, doubled each time, up to an interval:
# a session that was ended must not cost the lease a whole interval.
_FIRST_RETRY = 0.025


class Lease:
    """One incarnation's lease. `run` in the daemon's task group; the thread lives within it."""

    def __init__(
        self,
        settings: Settings,
        sql: Statements,
        me: workers.WorkerIdentity,
        fleet: Fleet,
        *,
        in_flight: Callable[[], Mapping[str, int]],
        on_cancel: Callable[[frozenset[int]], None],
        on_death: Callable[[], None],
    ) -> None:
        """in_flight: the rows of each kind that this worker handles.

        on_cancel: called with commands to cancel; on_death: called after a worker's death.
        """
        self._state = "running"
        self.suspended = False
        self.dead = False
        self.renewed_at = time.monotonic()
        self._settings = settings
        self._sql = sql
        self._me = me
        self._fleet = fleet
        self._in_flight = in_flight
        self._on_cancel = on_cancel
        self._on_death = on_death
        self._wakeups: Sequence[WakeUp] = ()
        self._last_death: datetime | None = None
        self._first_news = True
        self._home: asyncio.AbstractEventLoop | None = None
        self._away: asyncio.AbstractEventLoop | None = None
        self._attention = asyncio.Event()
        self._joined = False
        self._stopping = False

    def drain(self) -> None:
        """From now on heartbeats report that this worker drains."""
        self._state = "draining"

    def age(self) -> float:
        """Seconds since the last successful heartbeat was sent."""
        return time.monotonic() - self.renewed_at

    def holds(self) -> bool:
        """Whether it was renewed so recently that no worker takes this one for dead."""
        return not self.dead and self.age() <= self._safe_age()

    def _safe_age(self) -> float:
        return _SAFE_SHARE * self._settings.worker.lease.total_seconds()

    async def run(
        self, flags: Sequence[WakeUp], suspend: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """Beat, and guard the lease, until this worker was declared dead or this is cancelled.

        suspend: called when the lease was not renewed in time; resume: when it was, again.
        """
        self._wakeups = flags
        self._home = asyncio.get_running_loop()
        thread = threading.Thread(target=self._thread, name="inboxd-heartbeat", daemon=True)
        thread.start()
        try:
            while not self.dead:
                self._guard(suspend, resume)
                await anyio.sleep(_GUARD_INTERVAL)
        finally:
            self._stopping = True
            self.draw_attention()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(thread.join, 5.0)

    def _guard(self, suspend: Callable[[], None], resume: Callable[[], None]) -> None:
        late = self.age() > self._safe_age()
        if late and not self.suspended:
            self.suspended = True
            _log.warning("lease could not be renewed; work is suspended", age=round(self.age(), 1))
            suspend()
        elif self.suspended and not late:
            self.suspended = False
            _log.info("lease is renewed; work goes on")
            resume()

    def beat_soon(self) -> None:
        """Another worker joined: send the next heartbeat, which finds it, now."""
        self._joined = True
        self.draw_attention()

    def draw_attention(self) -> None:
        """Let the thread look at once: a flag must be watched, or a heartbeat is due."""
        if self._away is not None and not self._away.is_closed():
            self._away.call_soon_threadsafe(self._attention.set)

    # ------------------------------------------------------------------ the heartbeat's thread

    def _thread(self) -> None:
        with asyncio.Runner() as runner:
            self._away = runner.get_loop()
            runner.run(self._beat_forever())

    async def _beat_forever(self) -> None:
        interval = self._settings.worker.heartbeat_interval.total_seconds()
        connection: Connection | None = None
        due, retry = time.monotonic(), _FIRST_RETRY
        while not (self._stopping or self.dead):
            try:
                if connection is None or connection.is_closed():
                    # Bounded by its own time limit: several hosts may need longer than a beat.
                    connection = await connect(self._settings.database, "heartbeat")
                async with asyncio.timeout(interval):
                    if self._joined or time.monotonic() >= due:
                        self._joined = False
                        await self._beat(connection)
                        due = time.monotonic() + interval
                        OUTAGE.over()
                    await self._break_silence(connection)
                retry = _FIRST_RETRY
            except Exception as error:  # noqa: BLE001 - whatever it was, the next beat tries again
                OUTAGE.warn(_log.warning, "heartbeat failed", error)
                retry = min(1.0, interval, 2 * retry)
                due, self._joined = time.monotonic() + retry, False
                if connection is not None:
                    connection.terminate()
                    connection = None
            await self._wait(due)
        if connection is not None:
            connection.terminate()

    async def _wait(self, due: float) -> None:
        pause = max(0.0, due - time.monotonic())
        if any(wakeup.silent_since is not None for wakeup in self._wakeups):
            pause = min(pause, _LONGEST_SILENCE / 2)
        elif any(wakeup.owed is not None for wakeup in self._wakeups):
            pause = min(pause, _GUARD_INTERVAL)
        self._attention.clear()
        if self._stopping or self._joined:
            # A call during the beat set the event that was just cleared.
            return
        try:
            async with asyncio.timeout(pause):
                await self._attention.wait()
        except TimeoutError:
            return

    async def _beat(self, connection: Connection) -> None:
        sent_at = time.monotonic()
        # In a transaction, since behind a pooler a statement needs one to keep its session.
        async with connection.transaction():
            in_flight = self._in_flight()
            result = await workers.beat(
                *(connection, self._sql, self._me.id, sum(in_flight.values()), self._state),
                events=in_flight.get("event", 0),
            )
        if result is not None:
            self.renewed_at = sent_at
        if self._home is not None and not self._home.is_closed():
            self._home.call_soon_threadsafe(self._on_beat, result)

    async def _break_silence(self, connection: Connection) -> None:
        for wakeup in self._wakeups:
            since, owed = wakeup.silent_since, wakeup.owed
            if since is not None:
                # Without peers no notification is needed: commits that notify wait for each other,
                # which is worst where a page takes long because the disk does.
                if self._fleet.peers and time.monotonic() - since > _LONGEST_SILENCE:
                    await wakeups.set_flag(connection, self._sql, wakeup.table, Flag.NOTIFY)
                    await wakeups.notify(connection, self._sql, wakeup.table)
                    wakeup.raised(since)
            elif owed is not None and await wakeups.no_silent_producer(
                connection, self._sql, wakeup.table
            ):
                await wakeups.notify(connection, self._sql, wakeup.table)
                wakeup.paid(owed)

    # --------------------------------------------------------------------------- the event loop

    def _on_beat(self, result: workers.BeatResult | None) -> None:
        if result is None:
            self.dead = True
            return
        self._fleet.peers, self._fleet.uniform = result.peers, result.uniform
        if result.cancelled:
            self._on_cancel(result.cancelled)
        if result.last_death != self._last_death:
            self._last_death = result.last_death
            if not self._first_news:
                self._on_death()
        self._first_news = False
