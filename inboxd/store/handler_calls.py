"""Calls on the handler's connection that have not begun, to find a forgotten `await`.

Known limit: at most _MOST calls are remembered per row; others get Python's own warning only.
"""

import sys
from collections.abc import Coroutine
from inspect import CORO_CREATED, getcoroutinestate
from types import CodeType
from typing import Any, TypeAlias

from inboxd.errors import UsageError

_MOST = 1_000


# The call's coroutine, its method, and its code and line; a tuple, since it is the fastest to make.
_Call: TypeAlias = tuple[Coroutine[Any, Any, Any], str, CodeType, int]


class Calls:
    __slots__ = ("_unbegun", "made")

    def __init__(self) -> None:
        self.made = 0
        self._unbegun: dict[int, _Call] = {}

    def note(self, coroutine: Coroutine[Any, Any, Any], method: str) -> None:
        """The handler's frame must be three frames above this one. Costs 1 µs."""
        if len(self._unbegun) < _MOST:
            caller = sys._getframe(3)  # noqa: SLF001 - no other way to the line is as cheap
            self._unbegun[self.made] = (coroutine, method, caller.f_code, caller.f_lineno)

    def begin(self, number: int) -> None:
        self._unbegun.pop(number, None)

    def check(self) -> None:
        """Raise UsageError if a call was never awaited; closes such coroutines."""
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
