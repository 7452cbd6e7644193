"""Imports of files of events or commands: each page of lines commits with the file's progress.

Promises that a line is written once however often the import is restarted; that of two processes
with one file only one goes on; and that a refused line is reported without its contents. Known
limit: input without a name (standard input) is not remembered.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Literal

from inboxd.errors import Conflict, UniqueKeyTaken, UsageError
from inboxd.store.producing import refusals
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class ImportedFile:
    kind: Literal["event", "command"]
    name: str | None


@dataclass(frozen=True, slots=True)
class ImportedSoFar:
    lines: int = 0
    written: int = 0
    broken: int = 0
    finished: bool = False


@dataclass(frozen=True, slots=True)
class LinePage:
    """after, to: finished lines before and after it. left_out: broken lines. last: of the file."""

    after: int
    to: int
    lines: Sequence[tuple[int, bytes]]
    left_out: int
    last: bool


@dataclass(slots=True)
class WrittenPage:
    """refused: lines with their reasons. to: the last finished line; None: that of the page."""

    written: int = 0
    duplicates: int = 0
    conflicts: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    to: int | None = None


async def so_far(session: Session, file: ImportedFile) -> ImportedSoFar:
    if file.name is None:
        return ImportedSoFar()
    row = await session.one("open_import", file.kind, file.name)
    return ImportedSoFar(
        row["lines"], row["written"], row["broken"], row["finished_at"] is not None
    )


async def write(session: Session, file: ImportedFile, page: LinePage, *, skip: bool) -> WrittenPage:
    """Ends before a refused line unless `skip`. Raises Conflict if another process imports it."""
    try:
        async with _as_producer(session):
            found = await _call(session, file, [text for _, text in page.lines])
            await _advance(session, file, page, found)
    except (UsageError, UniqueKeyTaken):
        return await _one_by_one(session, file, page, skip=skip)
    return found


@asynccontextmanager
async def _as_producer(session: Session) -> AsyncIterator[None]:
    """A transaction with a producer's planner settings: an operator's session replans each call."""
    async with session.transaction():
        await session.execute("plan_as_producers")
        yield


async def _one_by_one(
    session: Session, file: ImportedFile, page: LinePage, *, skip: bool
) -> WrittenPage:
    """Write a page that contains a refused line: each line in a savepoint."""
    found = WrittenPage()
    async with _as_producer(session):
        for number, text in page.lines:
            try:
                async with session.transaction():
                    line = await _call(session, file, [text])
            except (UsageError, UniqueKeyTaken) as error:
                found.refused.append((number, f"{error}{error.on_terminal}"))
                if not skip:
                    found.to = number - 1
                    break
            else:
                found.written += line.written
                found.duplicates += line.duplicates
                found.conflicts += line.conflicts
        await _advance(session, file, page, found)
    return found


async def _call(session: Session, file: ImportedFile, texts: Sequence[bytes]) -> WrittenPage:
    """Write lines. Raises UsageError or UniqueKeyTaken if the database refuses one of them."""
    if not texts:
        return WrittenPage()
    array = b"[" + b",".join(texts) + b"]"
    with refusals():
        row = await session.one(_STATEMENTS[file.kind], array.decode())
    return WrittenPage(**row)


async def _advance(
    session: Session, file: ImportedFile, page: LinePage, found: WrittenPage
) -> None:
    if file.name is None:
        return
    to = page.to if found.to is None else found.to
    left_out = page.left_out + (len(found.refused) if to == page.to else 0)
    is_mine = await session.fetchval(
        "advance_import",
        *(file.kind, file.name, page.after, to),
        *(found.written, left_out, page.last and to == page.to),
    )
    if not is_mine:
        raise Conflict(
            f"another process is importing this file too, and has passed line {page.after}. This "
            "process has written none of the lines after it"
        )


_STATEMENTS = {"event": "emit_lines", "command": "send_lines"}
