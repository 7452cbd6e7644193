"""Files of events or commands: a page of lines, and how far the file has come, in one transaction.

Owns the calls behind `emit --file` and `send --file`. Promises that a line is written once however
often the file is begun again, since what says that it is done with commits with it; that of two
processes on one file only one goes on; and that a line which the database refuses is found, and
named without what it holds. Known limit: what has no name (standard input) is not remembered.
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
    """What it holds, and the name that it is known by; None: it is not remembered."""

    kind: Literal["event", "command"]
    name: str | None


@dataclass(frozen=True, slots=True)
class ImportedSoFar:
    """How far it has come: lines that are done with; of them new rows, and those left out."""

    lines: int = 0
    written: int = 0
    broken: int = 0
    finished: bool = False


@dataclass(frozen=True, slots=True)
class LinePage:
    """Lines to be written together: each with its number.

    after, to: the lines that are done with before it, and with it. left_out: the lines of it that
    are no more there, as they are broken. last: the file ends here.
    """

    after: int
    to: int
    lines: Sequence[tuple[int, bytes]]
    left_out: int
    last: bool


@dataclass(slots=True)
class WrittenPage:
    """What became of one.

    refused: the lines that the database refuses, each with the reason. to: the last line that is
    done with; None: that of the page.
    """

    written: int = 0
    duplicates: int = 0
    conflicts: int = 0
    refused: list[tuple[int, str]] = field(default_factory=list)
    to: int | None = None


async def so_far(session: Session, file: ImportedFile) -> ImportedSoFar:
    """How far a file has come; one that nobody has begun is at line 0."""
    if file.name is None:
        return ImportedSoFar()
    row = await session.one("open_import", file.kind, file.name)
    return ImportedSoFar(
        row["lines"], row["written"], row["broken"], row["finished_at"] is not None
    )


async def write(session: Session, file: ImportedFile, page: LinePage, *, skip: bool) -> WrittenPage:
    """Write a page; with `skip` without the lines that the database refuses, else up to the first.

    Raises Conflict when another process has gone on with the file; nothing of the page is written.
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
    """A transaction that plans as a producer's: an operator's session plans for each row anew."""
    async with session.connection.transaction():
        await session.execute("plan_as_producers")
        yield


async def _one_by_one(
    session: Session, file: ImportedFile, page: LinePage, *, skip: bool
) -> WrittenPage:
    """The database refuses something of a page: each line has a savepoint."""
    found = WrittenPage()
    async with _as_producer(session):
        for number, text in page.lines:
            try:
                async with session.connection.transaction():
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
    """Write lines. Raises UsageError or UniqueKeyTaken when the database refuses one of them."""
    if not texts:
        return WrittenPage()
    array = b"[" + b",".join(texts) + b"]"
    with refusals():
        row = await session.one(_STATEMENTS[file.kind], array.decode())
    return WrittenPage(**row)


async def _advance(
    session: Session, file: ImportedFile, page: LinePage, found: WrittenPage
) -> None:
    """Note what is done, in the transaction that does it. Raises Conflict."""
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
            f"another process writes this file too: it is past line {page.after} already. Nothing "
            "of the lines behind it was written here"
        )


_STATEMENTS = {"event": "emit_lines", "command": "send_lines"}
