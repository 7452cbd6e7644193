"""The loop monitor: detects from its own thread that the event loop is blocked, and by which code.

Promises one warning for each blockage, with the handler and the line of code, and one call of
`on_stall` past the limit. Only time in which the monitor's thread ran counts (not a SIGSTOP). Known
limit: C code that holds the interpreter's lock stops this thread, too; the service manager's
watchdog covers that.
"""

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import NamedTuple

from inboxd.telemetry.logs import get_logger

BEAT = 0.1
WARN_AFTER = 1.0
_FRAMES = 8

_log = get_logger(__name__)


class Running(NamedTuple):
    kind: str
    type: str
    id: int


class LoopState(Enum):
    FINE = auto()
    BLOCKED = auto()
    STALLED = auto()


class Blockage:
    """The pure decision: how long the beat has stood still; each limit is reported once."""

    def __init__(self, warn_after: float, stall_after: float) -> None:
        self.seconds = 0.0
        self._bounds = ((stall_after, LoopState.STALLED), (warn_after, LoopState.BLOCKED))
        self._beats = -1
        self._told: set[LoopState] = set()

    def look(self, beats: int, elapsed: float) -> LoopState:
        """Decide from the beats so far and the seconds since the last look."""
        if beats != self._beats:
            self._beats, self.seconds = beats, 0.0
            self._told.clear()
            return LoopState.FINE
        # If a look is far too late, this thread did not run either.
        self.seconds += min(elapsed, 3 * BEAT)
        for bound, verdict in self._bounds:
            if self.seconds >= bound and verdict not in self._told:
                self._told.add(verdict)
                return verdict
        return LoopState.FINE


class LoopMonitor:
    """Watches one event loop; the code that runs handlers writes `running`."""

    def __init__(
        self,
        *,
        stall_timeout: float,
        on_stall: Callable[[str], None],
        on_lag: Callable[[float], None],
        warn_after: float = WARN_AFTER,
    ) -> None:
        """`on_stall` is called in the monitor's thread, and should end the process.

        `on_lag` is called in the loop, ten times a second, with the beat's lateness in seconds.
        """
        self.running: dict[asyncio.Task[object] | None, Running] = {}
        self._blockage = Blockage(warn_after, stall_timeout)
        self._on_stall = on_stall
        self._on_lag = on_lag
        self._beats = 0
        self._stop = threading.Event()

    @contextmanager
    def watch(self) -> Iterator[None]:
        """Watch the running loop, in whose thread this is called, until the block ends."""
        loop = asyncio.get_running_loop()
        home = threading.get_ident()
        handle = loop.call_soon(self._beat, loop, loop.time())
        thread = threading.Thread(
            target=self._watch, args=(loop, home), name="inboxd-loop-monitor", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            handle.cancel()
            thread.join(timeout=1)

    def types(self) -> Counter[str]:
        return Counter(each.type for each in self.running.values())

    def _beat(self, loop: asyncio.AbstractEventLoop, due: float) -> None:
        if self._stop.is_set():
            return
        now = loop.time()
        self._beats += 1
        self._on_lag(max(0.0, now - due))
        loop.call_at(now + BEAT, self._beat, loop, now + BEAT)

    def _watch(self, loop: asyncio.AbstractEventLoop, home: int) -> None:
        last = time.monotonic()
        while not self._stop.wait(BEAT):
            now = time.monotonic()
            verdict = self._blockage.look(self._beats, now - last)
            last = now
            if verdict is LoopState.FINE:
                continue
            who, where = self._who(loop), _where(home)
            if verdict is LoopState.BLOCKED:
                _log.warning(
                    "event loop is blocked",
                    seconds=round(self._blockage.seconds, 1),
                    by=who,
                    at=where[-1] if where else "?",
                    frames=where,
                )
            else:
                self._on_stall(f"{who} blocks the event loop at {where[-1] if where else '?'}")

    def _who(self, loop: asyncio.AbstractEventLoop) -> str:
        found = self.running.get(asyncio.current_task(loop))
        return f"handler of {found.kind} {found.type} (id {found.id})" if found else "no handler"


def _where(thread: int) -> list[str]:
    # Without source lines: reading a file may block, too. Innermost frame last.
    frame = sys._current_frames().get(thread)  # noqa: SLF001 - the only way to another thread's stack
    stack: list[str] = []
    while frame is not None and len(stack) < _FRAMES:
        code = frame.f_code
        stack.insert(0, f"{code.co_filename}:{frame.f_lineno} {code.co_qualname}")
        frame = frame.f_back
    return stack
