"""Open resources: runs the plugins' lifespans, and holds the values that they yield.

Lifespans open one after the other, in the order of declaration, before the worker joins; they close
in reverse order after it has left. Each runs in a task or thread of its own, since a generator's
task group must be closed by the same task. A lifespan that raises or takes too long is a
LifespanFailed (one that never yields a PluginError); one that fails while the worker runs ends the
worker. Known limit: one that ignores its cancellation runs on (`left`).
"""

import asyncio
import math
import queue
import threading
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from functools import partial
from typing import Any, Literal

import anyio
from anyio.abc import TaskGroup

from inboxd.api.resources import Dependent, Lifespan
from inboxd.errors import InboxdError, LifespanFailed, PluginError, UsageError
from inboxd.model.frames import place_of
from inboxd.model.outcome import explain, only_error
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds in which all lifespans must close, and the minimum for each of them.
_CLOSING = 10.0
_LEAST = 1.0
# Seconds that a cancelled lifespan has to end.
_PATIENCE = 2.0
_NOTHING = object()


class Resources:
    def __init__(
        self, lifespans: Sequence[Lifespan] = (), given: Mapping[Any, object] | None = None
    ) -> None:
        """Open these lifespans with `open`; a resource whose type is in `given` is not opened."""
        self._lifespans = lifespans
        self._given = list((given or {}).items())
        self._values: list[tuple[str, Any, object]] = []
        self._lives: list[_Life] = []
        # Names of lifespans that ignore their cancellation.
        self.left: list[str] = []

    async def open(self, tasks: TaskGroup) -> None:
        """Raises LifespanFailed or PluginError. Call `close` in any case."""
        for lifespan in self._lifespans:
            if any(lifespan.yields == type_ for type_, _ in self._given):
                continue
            life = _Life(lifespan, self.bound(lifespan))
            self._lives.append(life)
            tasks.start_soon(life.run)
            value = await life.opened()
            self._values.append((lifespan.plugin, lifespan.yields, value))

    async def close(self) -> None:
        """Close open resources, the last one first, within a time limit; does not raise."""
        with anyio.CancelScope(shield=True):
            ends = anyio.current_time() + _CLOSING
            while self._lives:
                life = self._lives.pop()
                if not await life.close(max(_LEAST, ends - anyio.current_time())):
                    self.left.append(life.name)

    def bound(self, dependent: Dependent) -> Callable[..., Any]:
        """The function with its resources bound; the function itself if it needs none."""
        if not dependent.needs:
            return dependent.func
        found = {
            name: self._get(dependent.plugin, type_) for name, type_ in dependent.needs.items()
        }
        return partial(dependent.func, **found)

    def _get(self, plugin: str, type_: Any) -> object:
        for given, value in self._given:
            if given == type_:
                return value
        for owner, yields, value in self._values:
            if (owner, yields) == (plugin, type_):
                return value
        raise UsageError(f"No resource {type_!r} of the plugin {plugin!r} is open.")


@asynccontextmanager
async def opened(
    lifespans: Sequence[Lifespan],
    given: Mapping[Any, object] | None = None,
    *,
    on_stubborn: Callable[[str], None] | None = None,
) -> AsyncIterator[Resources]:
    """given: values by type, which are not opened. Raises LifespanFailed or PluginError.

    on_stubborn: called for a lifespan that ignores its cancellation: the block waits for it.
    """
    try:
        async with anyio.create_task_group() as tasks:
            resources = Resources(lifespans, given)
            try:
                await resources.open(tasks)
                yield resources
            finally:
                await resources.close()
                if resources.left and on_stubborn is not None:
                    on_stubborn(f"ignores its cancellation: {', '.join(resources.left)}")
    except BaseExceptionGroup as group:
        error = only_error(group)  # the error of the block or of a lifespan, not a group
        raise error from error.__cause__


class _Life:
    def __init__(self, lifespan: Lifespan, func: Callable[..., Any]) -> None:
        self.name = lifespan.name
        self._lifespan = lifespan
        self._func = func
        self._phase: Literal["opening", "open", "closing"] = "opening"
        self._value: object = None
        self._error: InboxdError | None = None
        self._opened = anyio.Event()
        self._close = anyio.Event()
        self._ended = anyio.Event()
        self._closing = _CLOSING
        # Shielded: a cancelled worker closes its lifespans in order.
        self._scope = anyio.CancelScope(shield=True)

    async def run(self) -> None:
        """Open, wait, close. Raises LifespanFailed if the lifespan ends while the worker runs."""
        started = time.monotonic()
        self._scope.deadline = anyio.current_time() + self._lifespan.timeout
        try:
            with self._scope:
                await self._live(started)
            if self._scope.cancelled_caught:
                self._is_late()
        finally:
            self._ended.set()
            self._opened.set()
        if self._error is not None and self._phase == "open":
            raise self._error

    async def opened(self) -> object:
        """Wait for the yielded value, and return it. Raises the lifespan's failure."""
        with anyio.move_on_after(self._lifespan.timeout + _PATIENCE):
            await self._opened.wait()
        if self._error is None and self._phase == "opening":
            self._is_late()
        if self._error is not None:
            raise self._error
        return self._value

    async def close(self, seconds: float) -> bool:
        """Let the lifespan close within `seconds`; False: it ignores its cancellation."""
        self._closing = min(seconds, self._lifespan.timeout)
        self._close.set()
        if self._phase == "opening":
            self._scope.cancel()
        with anyio.move_on_after(self._closing + _PATIENCE):
            await self._ended.wait()
        return self._ended.is_set()

    async def _live(self, started: float) -> None:
        try:
            async with aclosing(self._generator()) as generator:
                self._value = await anext(generator, _NOTHING)
                if self._value is _NOTHING:
                    self._error = PluginError(
                        f"The lifespan {self._where} ended without a `yield`: it must yield its "
                        "resource once."
                    )
                    return
                if self._error is not None:  # too late: the wait for it has ended
                    return
                self._scope.deadline = math.inf
                self._phase = "open"
                self._opened.set()
                milliseconds = round(1000 * (time.monotonic() - started), 1)
                _log.info("resource opened", lifespan=self.name, ms=milliseconds)
                await self._wait(generator)
                self._phase = "closing"
                self._scope.deadline = anyio.current_time() + self._closing
                if await anext(generator, _NOTHING) is not _NOTHING:
                    self._fail(UsageError("it yielded a second time: what follows did not run."))
        except BaseException as error:
            if self._scope.cancel_called and isinstance(error, asyncio.CancelledError):
                raise
            self._fail(error)

    async def _wait(self, generator: AsyncGenerator[object, None]) -> None:
        """Wait for `close`; background work of the lifespan may fail, and cancel this task."""
        try:
            await self._close.wait()
        except BaseException as error:
            with suppress(StopAsyncIteration):
                await generator.athrow(error)
            raise

    def _generator(self) -> AsyncGenerator[object, None]:
        made: Any = self._func()
        return _in_thread(made) if self._lifespan.threaded else made

    @property
    def _where(self) -> str:
        return f"{self.name} ({self._lifespan.place}) of the plugin {self._lifespan.plugin!r}"

    def _is_late(self) -> None:
        if self._phase == "closing":
            _log.error(
                "a lifespan did not close in time", lifespan=self.name, seconds=self._closing
            )
        elif not self._close.is_set():
            self._error = LifespanFailed(
                f"The lifespan {self._where} did not yield within {self._lifespan.timeout:g} s: "
                "see what it waits for, or give it more time, @handlers.lifespan(timeout=…). "
                "Nothing was claimed."
            )

    def _fail(self, error: BaseException) -> None:
        package = self._lifespan.func.__module__.partition(".")[0]
        error = only_error(error)
        at = place_of(error, package)
        reason = f"{explain(error).error}{f', at {at}' if at else ''}"
        if self._phase == "closing":
            _log.error("a lifespan failed when it closed", lifespan=self.name, reason=reason)
            return
        when = (
            "when it opened: correct what it names, then start again. Nothing was claimed"
            if self._phase == "opening"
            else "while the worker ran: it ends, since its resource is gone"
        )
        self._error = LifespanFailed(f"The lifespan {self._where} failed {when}. {reason}")
        self._error.__cause__ = error


async def _in_thread(generator: Generator[object, None, None]) -> AsyncGenerator[object, None]:
    """Run a sync generator as an async one, in one thread that does not delay the process's end."""
    loop = asyncio.get_running_loop()
    steps: queue.SimpleQueue[asyncio.Future[object] | None] = queue.SimpleQueue()

    def body() -> None:
        while (step := steps.get()) is not None:
            try:
                done = partial(_answer, step.set_result, step, next(generator, _NOTHING))
            except BaseException as error:  # noqa: BLE001 - raised in the task that awaits the step
                done = partial(_answer, step.set_exception, step, error)
            with suppress(RuntimeError):  # the loop is closed: no task waits
                loop.call_soon_threadsafe(done)

    threading.Thread(target=body, name="lifespan", daemon=True).start()
    try:
        while True:
            step = loop.create_future()
            steps.put(step)
            value = await step
            if value is _NOTHING:
                return
            yield value
    finally:
        steps.put(None)


def _answer(give: Callable[[Any], None], step: asyncio.Future[object], value: object) -> None:
    if not step.done():  # its task no longer waits
        give(value)
