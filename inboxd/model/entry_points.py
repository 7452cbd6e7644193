"""Descriptions of an entry point that cannot be used: its distribution, and the failed line."""

from __future__ import annotations

import linecache
from importlib.metadata import EntryPoint

from inboxd.model.frames import own_frames


def origin(point: EntryPoint) -> str:
    dist = point.dist
    name = f"{dist.name} {dist.version}" if dist else "unknown distribution"
    return f"{name}, entry point {point.name} = {point.value}"


def why(error: BaseException, module: str) -> str:
    kind = type(error).__name__
    if isinstance(error, SyntaxError) and error.filename is not None:
        line = error.text or linecache.getline(error.filename, error.lineno or 0)
        return f"{kind}: {error.msg}{_at(error.filename, error.lineno, line)}"
    frames = own_frames(error, module.partition(".")[0])
    where = _at(frames[-1].filename, frames[-1].lineno, frames[-1].line) if frames else "."
    return f"{kind}: {error}{where}"


def _at(file: str, line: int | None, text: str | None) -> str:
    shown = f": {text.strip()}" if text and text.strip() else "."
    return f", at {file}:{line}{shown}"
