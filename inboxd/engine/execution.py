"""Running one handler: in the loop, in a thread or in a process, within its time limit.

A cancellation by the daemon passes through; context variables and cancellations of a handler do not
reach the next handler in the same task. Known limits: a handler's time begins at its first wait, so
a handler in the loop that never waits has no time limit (`worker.stall_timeout` ends the process).
A thread cannot be stopped: past the limit the result is dropped, but the thread keeps its place
(`inboxd.engine.threads`). *See:* `events/page_run.py`, `events/chunks/run.py` and
`commands/attempts.py`, which call it.
"""

import asyncio
import time
import types
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextvars import Context, copy_context
from functools import partial
from typing import Any, TypeAlias

import anyio
import anyio.lowlevel
from anyio import BrokenWorkerProcess, CapacityLimiter

from inboxd.api.middleware import Invoke, compose
from inboxd.api.records import Handler
from inboxd.engine import handler_process
from inboxd.engine.outcomes import is_ours
from inboxd.engine.resources import Resources
from inboxd.engine.threads import Threads
from inboxd.errors import HandlerCrashed, HandlerTimeout, InboxdError
from inboxd.telemetry.monitor import LoopMonitor, Running

# Seconds after which a handler that catches its cancellation is cancelled again.
_INSIST_SECONDS = 1.0
# Seconds for which handlers that never wait may hold the event loop together.
_BREATH_SECONDS = 0.02
# Loop iterations that a waiting task needs to send its statement: one writes it, one flushes it.
_TURNS = 2


# The task that runs a handler: read once for many rows, since reading it costs half a microsecond.
Task: TypeAlias = "asyncio.Task[Any] | None"


class HandlerStopped(InboxdError):
    """The daemon stopped the handler: its lease or drain time ended, or an operator cancelled."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class TimeLimit:
    __slots__ = ("_cancelled", "_handle", "_on_stubborn", "_on_time", "_patience", "_task", "error")

    def __init__(
        self,
        seconds: float,
        patience: float,
        on_stubborn: Callable[[], None],
        on_time: Callable[[], HandlerTimeout],
    ) -> None:
        """Cancel the current task's work after `seconds`; call `on_stubborn` `patience` s later."""
        self._task = asyncio.current_task()
        self._cancelled = 0
        self._patience = patience
        self._on_stubborn = on_stubborn
        self.error: InboxdError | None = None
        loop = asyncio.get_running_loop()
        self._on_time = on_time
        self._handle = loop.call_later(seconds, self._expire)

    def extend(self, seconds: float) -> None:
        """Extend the limit by the time that the handler has waited for the daemon."""
        if self.error is None:
            self._handle.cancel()
            loop = asyncio.get_running_loop()
            self._handle = loop.call_at(self._handle.when() + seconds, self._expire)

    def _expire(self) -> None:
        self.stop(self._on_time())

    def stop(self, error: InboxdError) -> None:
        """Cancel the handler, repeatedly until it ends; `error`: the failure to report."""
        self.error = self.error or error
        self._handle.cancel()
        if self._cancelled * _INSIST_SECONDS > self._patience:
            self._on_stubborn()
        self._cancelled += 1
        if self._task is not None:
            self._task.cancel()
        self._handle = asyncio.get_running_loop().call_later(_INSIST_SECONDS, self.stop, error)

    def end(self) -> None:
        self._handle.cancel()


class Executions:
    def __init__(
        self,
        monitor: LoopMonitor,
        *,
        threads: int,
        processes: int,
        patience: float,
        on_stubborn: Callable[[str], None],
        resources: Resources | None = None,
        time_limit: type[TimeLimit] = TimeLimit,
    ) -> None:
        """`on_stubborn` is called for a handler that does not end. resources: open ones."""
        self._resources = resources or Resources()
        self.limits: dict[tuple[str, int], TimeLimit] = {}
        self._running = monitor.running
        self._threads = Threads(threads)
        self._processes = CapacityLimiter(processes)
        self._patience = patience
        self._on_stubborn = on_stubborn
        self._time_limit = time_limit
        self._invokers: dict[int, Invoke] = {}

    @property
    def left_behind(self) -> bool:
        return self._threads.any_given_up

    async def run(
        self,
        task: Task,
        kind: str,
        row_id: int,
        handler: Handler,
        payload: object,
        context: Any,
        seconds: float,
        on_wait: Callable[[], None] | None = None,
    ) -> object:
        """on_wait: called at the handler's first wait; until then no other task can run."""
        before = 0 if task is None else task.cancelling()
        self._running[task] = Running(kind, handler.type, row_id)
        # Keyed by identity: a handler's record lives as long as the registry.
        invoke = self._invokers.get(id(handler))
        if invoke is None:
            invoke = self._invokers[id(handler)] = self._make_invoker(handler)
        # A copy, since this task runs other rows later; costs 0.1 microseconds.
        context_vars = copy_context()
        coroutine: Coroutine[Any, Any, object] = invoke(payload, context)  # type: ignore[assignment]
        try:
            try:
                first = context_vars.run(coroutine.send, None)
            except StopIteration as done:
                return done.value
            if on_wait is not None:
                on_wait()
            rest = _resume(coroutine, first, context_vars)
            return await self._within(kind, row_id, handler, rest, seconds)
        finally:
            del self._running[task]
            if task is not None and task.cancelling() > before:
                await take_back(task, before)

    async def _within(
        self,
        kind: str,
        row_id: int,
        handler: Handler,
        rest: Awaitable[object],
        seconds: float,
    ) -> object:
        who = f"handler of {kind} {handler.type} (id {row_id}) ignores its cancellation"
        limit = self._time_limit(
            seconds,
            self._patience,
            lambda: self._on_stubborn(who),
            partial(self._time_is_up, asyncio.current_task(), seconds),
        )
        self.limits[kind, row_id] = limit
        try:
            result = await rest
        except BaseException as error:
            if limit.error is None or is_ours(error):
                raise
            raise limit.error from error
        finally:
            del self.limits[kind, row_id]
            limit.end()
        if limit.error is not None:
            raise limit.error
        return result

    def _time_is_up(self, task: asyncio.Task[Any] | None, seconds: float) -> HandlerTimeout:
        if task in self._threads.waiting:
            return HandlerTimeout(f"waited its whole timeout of {seconds:g} s: {self._threads}")
        return HandlerTimeout(f"ran longer than its timeout of {seconds:g} s")

    def _make_invoker(self, handler: Handler) -> Invoke:
        func = self._resources.bound(handler)

        async def in_thread(payload: Any, context: Any) -> object:
            return await self._threads.run(func, payload, context)

        async def in_process(payload: Any, _context: Any) -> object:
            try:
                return await handler_process.run(func, payload, self._processes)
            except BrokenWorkerProcess as error:
                raise HandlerCrashed(
                    f"the process of {handler.name} ended before it gave a result"
                ) from error

        invoke: Invoke = {"loop": func, "thread": in_thread, "process": in_process}[
            handler.executor
        ]
        chain = [self._resources.bound(each) for each in handler.middleware]
        return compose(handler.type, handler.name, chain, invoke)


class CooperativeYield:
    """Lets the event loop run now and then between handlers that never wait themselves."""

    __slots__ = ("_last", "_wanted")

    def __init__(self) -> None:
        self._wanted = 0
        self.begin()

    def begin(self) -> None:
        self._last = time.monotonic()

    def want(self) -> None:
        """Let the task that waits for an outcome run before the next handler does."""
        self._wanted = _TURNS

    def served(self) -> None:
        self._wanted = 0

    async def take(self) -> None:
        """Call it between rows: it yields if a task waits, or the last yield was long ago."""
        if self._wanted:
            self._wanted -= 1
        elif time.monotonic() - self._last <= _BREATH_SECONDS:
            return
        await anyio.lowlevel.checkpoint()
        self._last = time.monotonic()


async def take_back(task: asyncio.Task[Any], before: int) -> None:
    """Undo the cancellations of a handler that has ended: they must not reach later code."""
    try:
        await asyncio.sleep(0)  # a pending cancellation is raised here
    except asyncio.CancelledError as error:
        if is_ours(error):
            raise
    while task.cancelling() > before:
        task.uncancel()


@types.coroutine
def _resume(
    coroutine: Coroutine[Any, Any, object], yielded: Any, context: Context
) -> Generator[Any, Any, object]:
    while True:
        try:
            sent = yield yielded
        except BaseException as error:  # noqa: BLE001 - whatever the loop throws in is the handler's
            # Leave out this function's frame: below the driver's frames it would look like the
            # cause.
            came_from = error.__traceback__ and error.__traceback__.tb_next
            step = partial(coroutine.throw, error.with_traceback(came_from))
        else:
            step = partial(coroutine.send, sent)
        try:
            yielded = context.run(step)
        except StopIteration as done:
            return done.value
