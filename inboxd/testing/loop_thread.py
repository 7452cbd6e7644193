"""An event loop in its own thread, so that sync and async tests can wait for coroutines.

Promises: a wait that is interrupted, or takes too long, cancels its coroutine; a loop that a
handler blocks does not keep the process alive.
Known limit: a test's own event loop stands still while the test waits.
"""

import asyncio
import sys
import threading
import traceback
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from inboxd.errors import DrainTimeout

T = TypeVar("T")

# Seconds that remaining coroutines may take to end.
_GOODBYE_SECONDS = 5.0
# The innermost frames that are shown of a blocked loop.
_FRAMES = 10


class LoopThread:
    """One loop in a thread; call `run` from any other thread."""

    def __init__(self) -> None:
        self.stuck = False
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="inboxd-test", daemon=True)
        self._thread.start()
        self._started.wait()

    def run(self, call: Callable[[], Coroutine[Any, Any, T]], within: float | None = None) -> T:
        """Run a coroutine there; returns its result. Raises DrainTimeout if the loop is blocked."""
        __tracebackhide__ = True
        if self.stuck:
            raise DrainTimeout("The inbox of this test is blocked, since a handler did not end.")
        future = asyncio.run_coroutine_threadsafe(call(), self._loop)
        try:
            return future.result(within)
        except TimeoutError:
            if future.done():
                raise
            self.stuck = True
            raise DrainTimeout(
                f"The worker's event loop has been blocked for {within:g} s, here:\n{self._stack()}"
            ) from None
        finally:
            future.cancel()

    def close(self) -> None:
        """End the loop and its coroutines."""
        if not self.stuck:
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(_GOODBYE_SECONDS)

    def _serve(self) -> None:
        with asyncio.Runner() as runner:
            runner.run(self._main())

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        self._started.set()
        await self._stop.wait()

    def _stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)  # noqa: SLF001 - the only way to another thread's stack
        return "".join(traceback.format_stack(frame, _FRAMES)) if frame else "(nowhere)"
