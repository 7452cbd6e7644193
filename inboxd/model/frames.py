"""The frames of a plugin in a traceback: of modules below the plugin's top-level package."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from types import FrameType, TracebackType


def own_frames(error: BaseException, package: str) -> traceback.StackSummary:
    """The package's frames, the innermost last, with their source lines."""
    return traceback.StackSummary.extract(_own(error.__traceback__, package))


def place_of(error: BaseException, package: str) -> str | None:
    """None: the package has no frame. Reads no file."""
    found = list(_own(error.__traceback__, package))
    if not found:
        return None
    frame, line = found[-1]
    return f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_qualname}"


def _own(step: TracebackType | None, package: str) -> Iterator[tuple[FrameType, int]]:
    while step is not None:
        name = step.tb_frame.f_globals.get("__name__")
        if package and isinstance(name, str) and name.partition(".")[0] == package:
            yield step.tb_frame, step.tb_lineno
        step = step.tb_next
