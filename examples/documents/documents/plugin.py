"""Documents become PDFs, and PDFs are packed into an archive: work of unpredictable duration.

Owns two events and the commands that follow from them. Promises: a conversion that takes too long
is killed, and delays no other work, since it has a process of its own; each PDF is registered once,
with the state of its document; a packing reports its progress, ends when it is cancelled, and is
written as a whole. That rests on files that are written once (`documents.rendering`), and on rows
that commit with the settlement of the command.
Known limit: when the registration of a PDF fails for good, its file stays.
"""

import hashlib
import os
from functools import partial
from pathlib import Path

import anyio.to_process
from pydantic import BaseModel

from documents.packing import Packing, search
from documents.rendering import render, write_once
from inboxd import CommandContext, Event, EventContext, Exponential, Handlers, Reject

# Rounds between two reports of progress.
_REPORT_ROUNDS = 2_000

handlers = Handlers("documents")


class DocumentSubmitted(BaseModel):
    """A document waits for its PDF."""

    document_id: int


class Convert(BaseModel):
    """Make a PDF. The command contains the HTML, because its process has no database connection."""

    document_id: int
    html: str


class Converted(BaseModel):
    """Path and size of the PDF, in bytes."""

    path: str
    bytes: int


class Register(BaseModel):
    """Write down where the PDF is."""

    document_id: int


class GiveUp(BaseModel):
    """Write down that there will be no PDF."""

    document_id: int


class ArchiveRequested(BaseModel):
    """Pack all PDFs into boxes; more rounds find better packings, and take longer."""

    archive_id: int
    capacity: int
    rounds: int = 100_000


class Pack(BaseModel):
    """Find few boxes for PDFs; `sizes` has the bytes of each document's PDF."""

    archive_id: int
    capacity: int
    rounds: int
    sizes: dict[int, int]


@handlers.event("document.submitted")
async def on_document_submitted(event: Event[DocumentSubmitted], ctx: EventContext) -> None:
    """Convert, then register; if the conversion fails for good, write that down."""
    number = event.payload.document_id
    html = await ctx.connection.fetchval("SELECT html FROM office.documents WHERE id = $1", number)
    if html is None:
        raise Reject(f"there is no document {number}")
    workflow = ctx.workflow(f"PDF of document {number}")
    convert = workflow.step("convert", Convert(document_id=number, html=html))
    workflow.step("register", Register(document_id=number), after=convert)
    workflow.step("give up", GiveUp(document_id=number), after=convert.failed)


@handlers.command(
    "documents.convert",
    queue="conversions",
    executor="process",
    timeout="30s",
    retry=Exponential(base="5s", attempts=2),
)
def convert(command: Convert) -> Converted:
    """Runs in a process of its own, which is killed at the timeout."""
    folder = Path(os.environ.get("DOCUMENTS_FOLDER", "pdfs"))
    # The name contains a hash of the content: an existing file is the right one.
    content = hashlib.sha256(command.html.encode()).hexdigest()[:16]
    path = folder / f"{command.document_id}-{content}.pdf"
    size = write_once(path, partial(render, command.html))
    return Converted(path=str(path), bytes=size)


@handlers.command("documents.register")
async def register(command: Register, ctx: CommandContext) -> None:
    """Write the row and the document's state in one transaction."""
    written = Converted.model_validate(await ctx.result("convert"))
    await ctx.connection.execute(
        "INSERT INTO office.pdfs (document_id, path, bytes) VALUES ($1, $2, $3) "
        "ON CONFLICT (document_id) DO UPDATE SET path = excluded.path, bytes = excluded.bytes",
        command.document_id,
        written.path,
        written.bytes,
    )
    await _set_state(ctx, command.document_id, "converted")


@handlers.command("documents.give_up")
async def give_up(command: GiveUp, ctx: CommandContext) -> None:
    """Mark the document as failed: a person should look at it."""
    await _set_state(ctx, command.document_id, "failed")


async def _set_state(ctx: CommandContext, document_id: int, state: str) -> None:
    await ctx.connection.execute(
        "UPDATE office.documents SET state = $2 WHERE id = $1", document_id, state
    )


@handlers.event("archive.requested")
async def on_archive_requested(event: Event[ArchiveRequested], ctx: EventContext) -> None:
    """Send the sizes along, so that the calculation needs no transaction."""
    wanted = event.payload
    rows = await ctx.connection.fetch("SELECT document_id, bytes FROM office.pdfs")
    sizes = {row["document_id"]: row["bytes"] for row in rows}
    too_large = [number for number, size in sizes.items() if size > wanted.capacity]
    if too_large:
        raise Reject(f"no box of {wanted.capacity} bytes has room for document {too_large[0]}")
    ctx.send(Pack(**wanted.model_dump(), sizes=sizes))


@handlers.command("documents.pack", queue="calculations", timeout="1h")
async def pack(command: Pack, ctx: CommandContext) -> int:
    """Search portion by portion, each in another process; returns the number of boxes."""
    best: Packing | None = None
    for first in range(0, command.rounds, _REPORT_ROUNDS):
        rounds = range(first, min(first + _REPORT_ROUNDS, command.rounds))
        # When the command is cancelled or out of time, this await ends and the process is killed.
        found = await anyio.to_process.run_sync(
            search, command.sizes, command.capacity, rounds, cancellable=True
        )
        best = found if best is None or len(found) < len(best) else best
        ctx.progress(rounds.stop, command.rounds, f"boxes needed: {len(best)}")
    boxes = best or []
    # Only now: the transaction opens at the first use of the connection.
    await ctx.connection.executemany(
        "INSERT INTO office.packings (archive_id, document_id, box) VALUES ($1, $2, $3) "
        "ON CONFLICT (archive_id, document_id) DO UPDATE SET box = excluded.box",
        [(command.archive_id, each, n) for n, box in enumerate(boxes, 1) for each in box],
    )
    return len(boxes)
