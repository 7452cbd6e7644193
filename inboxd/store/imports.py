"""Imports of files of events or commands: each page of lines commits with the file's progress.

Owns the calls behind `emit --file` and `send --file`. Promises that a line is written once however
often the import is restarted, since its progress commits with it; that of two processes with one
file only one goes on; and that a line which the database refuses is found, and reported without its
contents. Known limit: input without a name (standard input) is not remembered.
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
    """The kind of a file's rows, and the name by which it is remembered, or None."""

    kind: Literal["event", "command"]
    name: str | None


@dataclass(frozen=True, slots=True)
class ImportedSoFar:
    """The progress of a file: finished lines; among them new rows, and broken lines."""

    lines: int = 0
    written: int = 0
    broken: int = 0
    finished: bool = False


@dataclass(frozen=True, slots=True)
class LinePage:
    """Lines that are written together, each with its number.

    after, to: the finished lines before and after it. left_out: its lines that are omitted, since
    they are broken. last: whether the file ends here.
    """

    after: int
    to: int
    lines: Sequence[tuple[int, bytes]]
    left_out: int
    last: bool


@dataclass(slots=True)
class WrittenPage:
    """The result of a page.

    refused: the lines that the database refused, each with the reason. to: the last finished line;
    None: that of the page.
    """

    written: int = 0
    duplicates: int = 0
    conflicts: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    to: int | None = None


async def so_far(session: Session, file: ImportedFile) -> ImportedSoFar:
    """The progress of a file; a new file is at line 0."""
    if file.name is None:
        return ImportedSoFar()
    row = await session.one("open_import", file.kind, file.name)
    return ImportedSoFar(
        row["lines"], row["written"], row["broken"], row["finished_at"] is not None
    )


async def write(session: Session, file: ImportedFile, page: LinePage, *, skip: bool) -> WrittenPage:
    """Write a page; a refused line is skipped with `skip`, else the page ends before it.

    Raises Conflict if another process has gone on with the file; then nothing is written.
    """
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
    """Record the progress in the lines' transaction. Raises Conflict."""
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
