"""All children of one supervisor: starts, watches, restarts and ends them.

A child that ends is started again, at once the first time, then after growing pauses; one without a
sign of life for `patience` seconds is killed. Successors of an upgrade take their places when all
are ready; if one ends before that, all are abandoned. Nothing here waits.
"""

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from inboxd.daemon import sockets
from inboxd.daemon.children import Child, start
from inboxd.daemon.plan import SupervisorPlan
from inboxd.telemetry import logs

_log = logs.get_logger(__name__)

# Exit code for settings, plugins or a schema that a restart would not change.
SETTINGS = 78
# Seconds after which a start counts as good, and the pauses begin again; the longest pause.
_SETTLED_SECONDS = 60.0
_LONGEST_PAUSE = 30.0
# Seconds for a child's first sign of life: it imports the plugins.
_START_SECONDS = 90.0


class Supervised:
    """code: the exit code, set by draining. serial: number of started children."""

    def __init__(
        self,
        plan: SupervisorPlan,
        listeners: sockets.Listeners,
        folder: Path,
        on_change: Callable[[], None],
    ) -> None:
        """Start nothing yet. on_change: called when a child changed, or has ended."""
        self.draining = False
        self.have_been_ready = False
        self.code = 0
        self.serial = 0
        self.restarts = Counter[int]()
        self._plan = plan
        self._listeners = listeners
        self._folder = folder
        self._on_change = on_change
        self._children: dict[int, Child] = {}
        self._successors: set[Child] = set()
        self._waiting: dict[int, asyncio.TimerHandle] = {}
        self._failures = Counter[int]()

    @property
    def numbers(self) -> Iterable[int]:
        return range(1, self._plan.processes + 1)

    @property
    def all(self) -> list[Child]:
        return list(self._children.values())

    @property
    def upgrading(self) -> bool:
        return bool(self._successors)

    @property
    def reloading(self) -> bool:
        return any(child.reloading for child in self._children.values())

    @property
    def has_unkillable(self) -> bool:
        """Whether a silent child was killed more than once: then only the host can help."""
        return any(child.kills > 1 for child in self._children.values())

    def in_place(self, number: int) -> Child | None:
        for child in self._children.values():
            if child.number == number and not child.leaving and child not in self._successors:
                return child
        return None

    def pause(self, number: int) -> float | None:
        """Seconds until a child is started; None: no start is planned."""
        handle = self._waiting.get(number)
        return None if handle is None else max(0.0, handle.when() - _loop().time())

    @property
    def ready(self) -> int:
        """How many children in their places are ready."""
        return sum(bool((child := self.in_place(each)) and child.ready) for each in self.numbers)

    def begin(self, adopted: Iterable[Child] = ()) -> None:
        """Start all children, as successors of the adopted children if there are any."""
        for child in adopted:
            self._add(child)
        before = any(not child.leaving for child in self._children.values())
        for number in self.numbers:
            started = self._start(number)
            if started is not None and before:
                self._successors.add(started)
        self._note_readiness()

    def states(self) -> Mapping[str, int]:
        places = [self.in_place(number) for number in self.numbers]
        ready = sum(bool(child and child.ready) for child in places)
        leaving = sum(child.leaving for child in self._children.values())
        starting = len(self._children) - leaving - ready
        waiting = len(self._waiting)
        return {"ready": ready, "starting": starting, "leaving": leaving, "waiting": waiting}

    def ended(self, pid: int, code: int) -> None:
        if (child := self._children.get(pid)) is not None:
            self._ended(child, code)

    def watch(self) -> None:
        now = time.monotonic()
        for child in self._children.values():
            patience = (
                self._plan.patience if child.heard else max(_START_SECONDS, self._plan.patience)
            )
            if now - child.beat > patience:
                _log.critical(
                    "a process shows no life and is killed",
                    process=child.number,
                    pid=child.pid,
                    silent_for=round(now - child.beat, 1),
                )
                child.beat = now
                child.kills += 1
                child.kill()

    def reload(self) -> None:
        for child in self._children.values():
            child.hang_up()

    def drain(self, code: int = 0) -> None:
        """Let all children end, and start no new ones."""
        self.draining = True
        self.code = code
        for handle in self._waiting.values():
            handle.cancel()
        self._waiting.clear()
        for child in self._children.values():
            child.drain()

    def kill(self) -> int:
        for child in self._children.values():
            child.kill()
        return len(self._children)

    def _start(self, number: int) -> Child | None:
        self.serial += 1
        plan = self._plan
        try:
            child = start(
                plan.command, number, self.serial, self._listeners, self._folder, plan.patience
            )
        except OSError as error:
            _log.error("a process cannot be started", process=number, reason=str(error))
            self._start_later(number)
            return None
        self._add(child)
        return child

    def _add(self, child: Child) -> None:
        self._children[child.pid] = child
        _loop().add_reader(child.notify, self._hear, child)

    def _hear(self, child: Child) -> None:
        was_ready = child.ready
        child.hear()
        self._note_readiness()
        if child.ready and not was_ready:
            _log.info("a process is ready", process=child.number, pid=child.pid)
            self._succeed()
        self._on_change()

    def _note_readiness(self) -> None:
        self.have_been_ready = self.have_been_ready or self.ready == self._plan.processes

    def _succeed(self) -> None:
        if not self._successors or not all(child.ready for child in self._successors):
            return
        successors, self._successors = self._successors, set()
        for child in self._children.values():
            if child not in successors:
                child.drain()
        for handle in self._waiting.values():
            handle.cancel()
        self._waiting.clear()
        _log.info("upgraded", processes=len(successors))

    def _ended(self, child: Child, code: int) -> None:
        del self._children[child.pid]
        _loop().remove_reader(child.notify)
        child.hear()
        child.close()
        told = {"process": child.number, "pid": child.pid, "code": _shown(code)}
        if child.leaving:
            _log.info("a process has ended", **told)
        elif child in self._successors:
            self._give_up(child, told)
        elif code == SETTINGS and not self._has_older(child):
            _log.error("a process cannot start with these settings: all end", **told)
            self.drain(SETTINGS)
        else:
            if child.ready and time.monotonic() - child.started > _SETTLED_SECONDS:
                self._failures[child.number] = 0
            pause = self._start_later(child.number)
            _log.warning("a process has ended and is started again", in_seconds=pause, **told)
        self._on_change()

    def _has_older(self, child: Child) -> bool:
        return (
            any(other.adopted and not other.leaving for other in self._children.values())
            and not child.adopted
        )

    def _give_up(self, failed: Child, told: Mapping[str, object]) -> None:
        successors, self._successors = self._successors - {failed}, set()
        for child in successors:
            child.drain()
        _log.error("not upgraded: a new process has ended, and the old ones go on", **told)
        for number in self.numbers:
            if self.in_place(number) is None and number not in self._waiting:
                self._start_later(number)

    def _start_later(self, number: int) -> float:
        """Start a child after its pause; returns the pause in seconds."""
        failures = self._failures[number]
        pause = min(2.0 ** (failures - 1), _LONGEST_PAUSE) if failures else 0.0
        self._failures[number] += 1
        self._waiting[number] = _loop().call_later(pause, self._start_again, number)
        return pause

    def _start_again(self, number: int) -> None:
        del self._waiting[number]
        if not self._successors:  # else a successor takes the place, or the place is filled later
            self.restarts[number] += 1
            self._start(number)
        self._on_change()


def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.get_running_loop()


def _shown(code: int) -> int | str:
    """An exit code, or the name of the signal."""
    return code if code >= 0 else signal.Signals(-code).name
