"""The processor: the loop that wakes, claims, runs and settles, the same for events and commands.

Steps: pages from the cursors, sweeps from the beginning, sleep; when a stream of rows pauses, a few
more pages first. After a failure of the database it starts again, with growing pauses. Known limit:
under backlog, sweeps are at least a second apart, so a row behind the cursor of a busy lane waits.
*See:* `wakeup`; `events/processing.py`, `commands/processing.py`.
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import anyio

from inboxd.engine.wakeup import WakeUp
from inboxd.errors import InboxdError
from inboxd.model.outcome import explain
from inboxd.model.stream import Stream
from inboxd.store.connections import is_passing
from inboxd.store.outage import OUTAGE
from inboxd.telemetry.logs import get_logger
from inboxd.telemetry.metrics import Metrics

_log = get_logger(__name__)

# Seconds between sweeps under backlog.
_SWEEP_INTERVAL = 1.0
# Maximum share of the time that sweeps may take.
_SWEEP_SHARE = 1 / 30
# After this many pages in a row that have rows and are not full, wait for rows to gather: a page's
# round trips are too expensive for one or two rows.
_TRICKLE = 4
_GATHER_SECONDS = 0.002
# Seconds until the next page when a stream of rows pauses.
_LINGER_SECONDS = 0.005
_SHORTEST_PAUSE = 0.1
_LONGEST_PAUSE = 10.0


@dataclass(frozen=True, slots=True)
class Page:
    """busy: more rows may be due, but there is no room. again: seconds until a queue may run."""

    rows: int
    full: bool = False
    busy: bool = False
    again: float | None = None


@dataclass(frozen=True, slots=True)
class Survey:
    """The result of a sweep. due: a row is due here; next: seconds until the next row is due."""

    due: bool
    next: float | None

    @classmethod
    def of(cls, seen: Sequence["Survey"]) -> "Survey":
        return cls(any(each.due for each in seen), soonest(each.next for each in seen))


def soonest(waits: Iterable[float | None]) -> float | None:
    return min((each for each in waits if each is not None), default=None)


@dataclass(frozen=True, slots=True)
class Sleep:
    """looked_at: monotonic. due: due rows could not be claimed. again: seconds until they might."""

    looked_at: float
    due: bool
    again: float | None


class Work(Protocol):
    async def page(self) -> Page:
        """Claim from the cursors, and run the claimed rows, or start them."""

    async def survey(self) -> Survey:
        """Look for due rows from the beginning, and rewind the cursors of lanes with due rows."""

    async def room(self, within: float | None = None) -> None: ...

    async def finish(self) -> None:
        """Wait until begun work is settled, if the processor must wait for it."""

    def forget(self) -> None:
        """Forget the knowledge about the server, since the connection was lost."""


class Processor:
    def __init__(
        self,
        work: Work,
        wakeup: WakeUp,
        metrics: Metrics,
        sweep_interval: float = _SWEEP_INTERVAL,
    ) -> None:
        self.healthy = False
        # When the loop last began an iteration (monotonic); old while it waits for a vanished
        # server.
        self.turned_at = time.monotonic()
        self._work = work
        self._wakeup = wakeup
        self._kind = wakeup.table.removesuffix("s")
        self._metrics = metrics
        self._sweep_interval = sweep_interval
        self._next_sweep = 0.0
        self._next_at: float | None = None
        self._stopping = False
        self._stream = Stream()
        self.held_back: str | None = None
        # Set during a sleep; number of claimed rows.
        self.sleep: Sleep | None = None
        self.claimed = 0
        self._look = Sleep(0.0, due=False, again=None)

    def hold(self, reason: str | None) -> None:
        """Pause claiming for this reason; None resumes."""
        if reason != self.held_back:
            self.held_back = reason
            self._wakeup.wake("timer")

    def sweep(self) -> None:
        """Sweep soon: rows became claimable without an INSERT."""
        self._next_sweep = 0.0
        self._wakeup.wake("timer")

    def stop(self) -> None:
        self._stopping = True
        self._wakeup.wake("timer")

    async def run(self) -> None:
        """Process until stopped; survive failures of the database."""
        pause = 0.0
        while not self._stopping:
            started = time.monotonic()
            try:
                await self._wakeup.start()
                self.healthy = True
                await self._loop()
            except Exception as error:  # noqa: BLE001 - the loop must survive unforeseen errors
                lasted = time.monotonic() - started
                pause = _SHORTEST_PAUSE if lasted > _LONGEST_PAUSE else 2 * pause
                pause = min(max(_SHORTEST_PAUSE, pause), _LONGEST_PAUSE)
                self._recover(error, pause)
                with anyio.move_on_after(pause):
                    await self._stopped()
        try:
            await self._work.finish()
        except Exception as error:  # noqa: BLE001 - its rows are claimed again
            _log.warning("the last page was not settled", reason=explain(error).error)
        await self._leave()

    async def _loop(self) -> None:
        streak = 0
        while not self._stopping:
            self.turned_at = time.monotonic()
            if self.held_back is not None:
                await self._wakeup.sleep(None)
                continue
            page = await self._page()
            streak = streak + 1 if page.rows else 0
            if page.rows:
                self._stream.come(page.rows, time.monotonic())
                await self._wakeup.working(full_page=page.full, has_room=not page.busy)
                if time.monotonic() >= self._next_sweep:
                    await self._survey("sweep")
                if streak >= _TRICKLE and not (page.full or page.busy):
                    await anyio.sleep(_GATHER_SECONDS)
            elif page.busy:
                await self._work.room(page.again)
            elif self._stream.lasts(time.monotonic()) and await self._wakeup.linger(
                _LINGER_SECONDS
            ):
                continue
            else:
                await self._rest(page.again)

    async def _rest(self, again: float | None) -> None:
        """Sleep, unless that is not safe, or a sweep finds due rows."""
        if not await self._wakeup.arm():
            await self._wakeup.look_again()
        elif not await self._survey("sweep"):
            await self._sleep(again)
        else:
            page = await self._page()
            if not (page.rows or page.busy):
                # Other workers hold the due rows, or their queues are full.
                await self._sleep(page.again)

    async def _page(self) -> Page:
        page = await self._work.page()
        self.claimed += page.rows
        return page

    async def _survey(self, cause: str) -> bool:
        started = time.monotonic()
        survey = await self._work.survey()
        ended = time.monotonic()
        self._next_sweep = ended + max(self._sweep_interval, (ended - started) / _SWEEP_SHARE)
        self._next_at = None if survey.next is None else ended + survey.next
        self._metrics.wakeups.labels(self._kind, cause).inc()
        self._look = Sleep(started, survey.due, again=None)
        return survey.due

    async def _sleep(self, again: float | None) -> None:
        if self._stopping:
            return
        until = None if self._next_at is None else self._next_at - time.monotonic()
        if again is not None:
            until = again if until is None else min(until, again)
        self.sleep = replace(self._look, again=again)
        cause = await self._wakeup.sleep(until)
        self.sleep = None
        self._metrics.wakeups.labels(self._kind, cause).inc()

    def _recover(self, error: Exception, pause: float) -> None:
        self.healthy = False
        expected = is_passing(error) or isinstance(error, InboxdError)
        OUTAGE.warn(
            _log.warning,
            "processor starts again",
            error,
            kind=self._kind,
            pause=pause,
            # Not exc_info: a driver's error quotes rows.
            traceback=None if expected else explain(error).traceback,
        )
        self._work.forget()
        self._wakeup.forget()

    async def _stopped(self) -> None:
        while not self._stopping:
            await self._wakeup.sleep(None)

    async def _leave(self) -> None:
        self.healthy = False
        try:
            with anyio.fail_after(5):
                await self._wakeup.leave()
        except Exception as error:  # noqa: BLE001 - without a database it cannot notify
            _log.info("could not wake other workers", reason=explain(error).error)
