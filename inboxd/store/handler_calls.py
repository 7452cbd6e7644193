"""What a handler called on its connection and has not begun, for a forgotten `await`.

Owns the memory of such calls, and the error that names the line of one. Promises that a call which
was cancelled before it could begin is no mistake. Known limit: so many are remembered for each row;
what is forgotten beyond them is Python's own warning, as everywhere.
"""

import sys
from collections.abc import Coroutine
from inspect import CORO_CREATED, getcoroutinestate
from types import CodeType
from typing import Any, TypeAlias

from inboxd.errors import UsageError

_MOST = 1_000


# A call, its method, and where the handler made it; a plain tuple, as that is quicker to make.
_Call: TypeAlias = tuple[Coroutine[Any, Any, Any], str, CodeType, int]


class Calls:
    """The calls of one connection that have not begun, by number."""

    __slots__ = ("_unbegun", "made")

    def __init__(self) -> None:
        self.made = 0
        self._unbegun: dict[int, _Call] = {}

    def note(self, coroutine: Coroutine[Any, Any, Any], method: str) -> None:
        """Remember the newest call; the handler called who calls who calls this.

        That costs a microsecond; the statement costs a hundred times as much.
        """
        if len(self._unbegun) < _MOST:
            caller = sys._getframe(3)  # noqa: SLF001 - no other way to the line is as cheap
            self._unbegun[self.made] = (coroutine, method, caller.f_code, caller.f_lineno)

    def begin(self, number: int) -> None:
        """A call has begun."""
        self._unbegun.pop(number, None)

    def check(self) -> None:
        """Raise UsageError if one was never awaited; it is closed."""
        left, self._unbegun = self._unbegun.values(), {}
        forgotten = [call for call in left if getcoroutinestate(call[0]) == CORO_CREATED]
        for call in forgotten:
            call[0].close()
        if forgotten:
            _, method, code, line = forgotten[0]
            others = f", and {len(forgotten) - 1} more" if len(forgotten) > 1 else ""
            raise UsageError(
                f"ctx.connection.{method}(…) at {code.co_filename}:{line}{others}: it was never "
                "awaited, and so did nothing; write `await` before it"
            )
