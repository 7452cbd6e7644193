"""The lease: this worker's heartbeat, in a thread of its own.

A worker with a blocked event loop is not taken for dead; work is suspended before a lease that was
not renewed can end; during a slow page the wake-up flag is set to 1 if other workers live. Known
limit: code that holds the interpreter's lock for a whole lease stops this thread, too; later writes
are then fenced (promise 3).
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
from inboxd.store.outage import OUTAGE
from inboxd.store.session import Session, connect
from inboxd.store.wakeups import Flag
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Work is suspended when this share of the lease has passed without a heartbeat.
_SAFE_SHARE = 0.7
# Seconds: during a longer page, producers must notify again (design section 5).
_LONGEST_SILENCE = 0.05
_GUARD_INTERVAL = 0.25
# The first retry of a failed beat comes after twice this many seconds; each further pause doubles,
# up to an interval. So an ended session does not cost a whole interval of the lease.
_FIRST_RETRY = 0.025


class Lease:
    """The lease of one incarnation: `run` in the daemon's task group starts and ends the thread."""

    def __init__(
        self,
        settings: Settings,
        me: workers.WorkerIdentity,
        fleet: Fleet,
        *,
        in_flight: Callable[[], Mapping[str, int]],
        on_cancel: Callable[[frozenset[int]], None],
        on_death: Callable[[], None],
    ) -> None:
        """on_cancel: called with commands to cancel; on_death: called after a worker's death."""
        self._state = "running"
        self.suspended = False
        self.dead = False
        self.renewed_at = time.monotonic()
        self._settings = settings
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
        self._state = "draining"

    def age(self) -> float:
        """Seconds since the last successful heartbeat was sent."""
        return time.monotonic() - self.renewed_at

    def holds(self) -> bool:
        """Whether the last heartbeat is so recent that no worker can declare this one dead."""
        return not self.dead and self.age() <= self._safe_age()

    def _safe_age(self) -> float:
        return _SAFE_SHARE * self._settings.worker.lease.total_seconds()

    async def run(
        self, flags: Sequence[WakeUp], suspend: Callable[[], None], resume: Callable[[], None]
    ) -> None:
        """suspend: called when a heartbeat is late; resume: called at the next successful one."""
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
        """Send the next heartbeat now, so that this worker knows of a worker that has joined."""
        self._joined = True
        self.draw_attention()

    def draw_attention(self) -> None:
        """Wake the thread: it must watch a flag, or send a heartbeat."""
        if self._away is not None and not self._away.is_closed():
            self._away.call_soon_threadsafe(self._attention.set)

    # ------------------------------------------------------------------ the heartbeat's thread

    def _thread(self) -> None:
        with asyncio.Runner() as runner:
            self._away = runner.get_loop()
            runner.run(self._beat_forever())

    async def _beat_forever(self) -> None:
        interval = self._settings.worker.heartbeat_interval.total_seconds()
        session: Session | None = None
        due, retry = time.monotonic(), _FIRST_RETRY
        while not (self._stopping or self.dead):
            try:
                if session is None or session.connection.is_closed():
                    # `connect` has its own time limit: trying several hosts may take longer than a
                    # beat.
                    session = await connect(self._settings.database, "heartbeat")
                async with asyncio.timeout(interval):
                    if self._joined or time.monotonic() >= due:
                        self._joined = False
                        await self._beat(session)
                        due = time.monotonic() + interval
                        OUTAGE.over()
                    await self._break_silence(session)
                retry = _FIRST_RETRY
            except Exception as error:  # noqa: BLE001 - the next beat tries again
                OUTAGE.warn(_log.warning, "heartbeat failed", error)
                retry = min(1.0, interval, 2 * retry)
                due, self._joined = time.monotonic() + retry, False
                if session is not None:
                    session.connection.terminate()
                    session = None
            await self._wait(due)
        if session is not None:
            session.connection.terminate()

    async def _wait(self, due: float) -> None:
        pause = max(0.0, due - time.monotonic())
        if any(wakeup.silent_since is not None for wakeup in self._wakeups):
            pause = min(pause, _LONGEST_SILENCE / 2)
        elif any(wakeup.owed is not None for wakeup in self._wakeups):
            pause = min(pause, _GUARD_INTERVAL)
        self._attention.clear()
        if self._stopping or self._joined:
            # A call during the beat has set the event, which was just cleared.
            return
        try:
            async with asyncio.timeout(pause):
                await self._attention.wait()
        except TimeoutError:
            return

    async def _beat(self, session: Session) -> None:
        sent_at = time.monotonic()
        # In a transaction: behind a pooler, statements share a session only within one.
        async with session.transaction():
            in_flight = self._in_flight()
            result = await workers.beat(
                *(session, self._me.id, sum(in_flight.values()), self._state),
                events=in_flight.get("event", 0),
            )
        if result is not None:
            self.renewed_at = sent_at
        if self._home is not None and not self._home.is_closed():
            self._home.call_soon_threadsafe(self._on_beat, result)

    async def _break_silence(self, session: Session) -> None:
        for wakeup in self._wakeups:
            since, owed = wakeup.silent_since, wakeup.owed
            if since is not None:
                # Without peers no notification is needed. Commits that notify wait for each other,
                # longest on a slow disk, which is also the reason for a slow page.
                if self._fleet.peers and time.monotonic() - since > _LONGEST_SILENCE:
                    await wakeups.set_flag(session, wakeup.table, Flag.NOTIFY)
                    await wakeups.notify(session, wakeup.table)
                    wakeup.raised(since)
            elif owed is not None and await wakeups.no_silent_producer(session, wakeup.table):
                await wakeups.notify(session, wakeup.table)
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
