"""The progress of a running command, as its handler reports it.

Owns the value and its checks. Known limit: it is for people; nothing depends on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from inboxd.api.messages import Row
from inboxd.errors import UsageError

_NOTE = 200  # characters that are kept


class Progress(NamedTuple):
    """The amount that is done; `of`: the whole amount, None if it is unknown."""

    done: float
    of: float | None = None
    note: str | None = None


# Takes the progress of a row; it is also called from threads.
Say = Callable[[Row, Progress], None]


def checked(done: float, of: float | None, note: str | None) -> Progress:
    """Check a report; raises UsageError for an invalid value, and cuts a long note."""
    for name, number in (("done", done), ("of", of)):
        if number is not None and not _is_amount(number):
            raise UsageError(f"progress({name}={number!r}): give a number of 0 or more.")
    if note is not None and "\0" in note:
        raise UsageError("progress(note=…): it holds a NUL, which PostgreSQL cannot store.")
    return Progress(done, of, None if note is None else note[:_NOTE])


def _is_amount(number: object) -> bool:
    if isinstance(number, bool) or not isinstance(number, int | float):
        return False
    # JSON readers hold larger integers inexactly.
    return 0 <= number < 2**53 and math.isfinite(number)
