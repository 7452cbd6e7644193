"""`inboxd spool`: webhooks that wait on this host's disk; list, show, verify need no database."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar
from uuid import UUID

import typer

from inboxd.cli import columns
from inboxd.cli.exits import Exit
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Asking, Looking, Previewed, actor, examples
from inboxd.cli.output import Document, Fields, Part, TableColumn
from inboxd.cli.receipts import readable
from inboxd.errors import UsageError
from inboxd.model.wording import plural, size

if TYPE_CHECKING:
    from inboxd.inbound.spool.inspection import ApartItem
    from inboxd.inbound.spool.operate import SpoolOperator
    from inboxd.model.receipt import Receipt
    from inboxd.store.session import Session

T = TypeVar("T")

app = CommandGroup(
    no_args_is_help=True,
    help="Show webhooks that wait on this host's disk; drain them, discard webhooks set apart.",
)

_FOLDERS = (
    TableColumn("folder", cut="right"),
    "owner",
    TableColumn("waiting", kind="number"),
    TableColumn("bytes", lambda row: size(row["bytes"]), kind="number"),
    TableColumn("oldest", kind="time"),
    TableColumn("set apart", kind="number"),
    TableColumn("damaged", kind="number"),
)
_RECEIPTS = (
    TableColumn("receipt", "receipt_id"),
    "source",
    TableColumn("received", "received_at", kind="time"),
    TableColumn("events", lambda row: len(row["event_ids"]), kind="number"),
    TableColumn("bytes", kind="number"),
    TableColumn("folder", cut="right", extra=True),
)
_APART = (
    TableColumn("name"),
    TableColumn("receipt", "receipt_id"),
    "source",
    TableColumn("received", "received_at", kind="time"),
    TableColumn("bytes", kind="number"),
    TableColumn("reason", cut="right"),
    TableColumn("folder", cut="right", extra=True),
)
_VERIFIED = (
    TableColumn("folder", cut="right"),
    TableColumn("frames", kind="number"),
    TableColumn("bytes", lambda row: size(row["bytes"]), kind="number"),
    TableColumn("damage", cut="right"),
    TableColumn(
        "torn",
        cut="right",
        legend="files whose last frame is incomplete: the process ended while it wrote",
    ),
)

Raw = Annotated[bool, typer.Option("--raw", help="Also show the received headers and bodies.")]
Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME|FOLDER",
        help="An item that is set apart, or a folder whose process has ended, as `list` names it.",
        show_default=False,
    ),
]


@app.command("list", epilog=examples("inboxd spool list", "inboxd spool list --json"))
def list_(given: Looking) -> None:
    """List the folders of this host's spool: owner, waiting receipts, items set apart."""
    from inboxd.inbound.spool.folder import folders
    from inboxd.inbound.spool.inspection import set_apart, spooled_sources, views

    path = _path(given)
    found = [each._asdict() for each in views(path)]
    sources = spooled_sources(path)
    apart = [_apart(each) for folder in folders(path) for each in set_apart(folder)]
    parts: list[Part] = [columns.table(_FOLDERS, found)]
    if apart:
        parts.append(columns.table(_APART, apart, "Set apart"))
    told = [f"Sources whose new webhooks are spooled: {', '.join(sources)}"] if sources else []
    document = {"path": str(path), "sources": sources, "folders": found, "set_apart": apart}
    given.print(document, parts, told)


@app.command("show", epilog=examples("inboxd spool show 3f2a", "inboxd spool show RECEIPT --raw"))
def show(
    which: Annotated[
        str,
        typer.Argument(
            metavar="FOLDER|RECEIPT",
            help="A folder as `list` names it, or the beginning of its name; a receipt's id; or an "
            "item that is set apart.",
            show_default=False,
        ),
    ],
    raw: Raw = False,
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=100_000, help="List at most N receipts.")
    ] = 100,
    *,
    given: Looking,
) -> None:
    """Show the waiting receipts of a folder, or one item, with the reason why it is set apart."""
    from itertools import islice

    from inboxd.inbound.spool import inspection
    from inboxd.inbound.spool.folder import folders

    path = _path(given)
    named = [each for each in folders(path) if each.name.startswith(which)]
    if len(named) == 1:
        waits = list(islice(inspection.waiting(named[0]), limit + 1))
        found = [_plain(each.receipt, each.folder, raw=raw) for each in waits[:limit]]
        apart = [_apart(each, raw=raw) for each in inspection.set_apart(named[0])]
        parts: list[Part] = [columns.table(_RECEIPTS, found, "Waiting")]
        if apart:
            parts.append(columns.table(_APART, apart, "Set apart"))
        if raw:
            parts += [Document(str(each["receipt_id"]), each["body"]) for each in found]
        told = ["There are more receipts: raise --limit"] if len(waits) > limit else []
        given.print({"waiting": found, "set_apart": apart}, parts, told)
        return
    one = _waiting_receipt(path, which, raw=raw)
    if one is None:
        one = _apart(inspection.item_named(path, which), raw=raw)
    fields = {key: value for key, value in one.items() if key not in ("body", "headers")}
    more = [Document(key, one[key]) for key in ("headers", "body") if one.get(key) is not None]
    given.print(one, [Fields(fields), *more])


@app.command("verify", epilog=examples("inboxd spool verify", "inboxd spool verify --json"))
def verify(given: Looking) -> None:
    """Check the checksums of all frames; the exit code is 1 if one is wrong."""
    from inboxd.inbound.spool.folder import folders
    from inboxd.inbound.spool.inspection import verify as look

    found = [look(folder)._asdict() for folder in folders(_path(given))]
    damaged = sum(len(each["damage"]) for each in found)
    torn = sum(len(each["torn"]) for each in found)
    told = [f"{plural(damaged, 'damaged place')}: the drain sets them apart"] if damaged else []
    if torn:
        told.append(
            f"{plural(torn, 'file')} torn at the end: the drain skips the last frame. If the "
            "process ended while it wrote, that webhook was not answered yet; if anything else cut "
            "the file, the webhook was possibly answered"
        )
    given.print({"folders": found, "damaged": damaged}, [columns.table(_VERIFIED, found)], told)
    raise typer.Exit(Exit.PROBLEMS if damaged else Exit.OK)


@app.command(
    "drain", epilog=examples("inboxd spool drain", "inboxd spool drain --apart 42 --reason '...'")
)
def drain(
    apart: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Insert this item that is set apart."),
    ] = None,
    *,
    given: Acting,
) -> None:
    """Drain waiting receipts into the database now, unless a running process does so.

    Items that are set apart stay, except the item that --apart names. If that is older than
    history.receipts, the database no longer recognizes a duplicate: check first that it is not
    stored.
    """
    path = _path(given)
    if apart is not None:
        stored = _operate(given, path, lambda operator: operator.insert(apart))
        document = {"outcome": stored.outcome, "events": stored.event_ids}
        given.tell(document, f"Inserted: {stored.outcome}")
        return
    drained, refused, _ = _operate(given, path, lambda operator: operator.drain())
    told = [f"Drained: {plural(drained, 'receipt')}"]
    if refused:
        told.append(f"{plural(refused, 'receipt')} set apart: `inboxd spool list` shows the reason")
    given.tell({"drained": drained, "set_apart": refused}, *told)
    raise typer.Exit(Exit.PROBLEMS if refused else Exit.OK)


@app.command(
    "discard",
    epilog=examples(
        "inboxd spool discard 42 --reason 'the sender sent it again' --yes",
        "inboxd spool discard 3f2a --folder --dry-run",
    ),
)
def discard(
    name: Name,
    folder: Annotated[
        bool, typer.Option("--folder", help="Discard the whole folder of an ended process.")
    ] = False,
    *,
    given: Previewed,
) -> None:
    """Remove an item that is set apart, or a whole folder. This cannot be undone.

    The audit records it first: without the database nothing is removed.
    """
    from inboxd.inbound.spool import inspection

    path = _path(given)
    if not given.reason and not given.dry_run:
        raise UsageError("discarded webhooks are lost: give the reason with --reason.")
    if not (given.yes or given.dry_run or given.asks):
        raise UsageError("a discard cannot be undone: give --yes, or --dry-run for a preview.")

    def show_it() -> bool:
        if folder:
            found = inspection.folder_named(path, name)
            [view] = [each for each in inspection.views(path) if each.folder == found.name]
            given.print({"would_discard": view._asdict()}, [Fields(view._asdict())])
        else:
            item = _apart(inspection.item_named(path, name))
            given.print({"would_discard": item}, [Fields(item)])
        return True

    if not given.confirmed(show_it, "Discard it now? This cannot be undone."):
        return
    if folder:
        lost = _operate(given, path, lambda operator: operator.discard_folder(name))
        told = f"Discarded: folder {name} with {plural(lost.waiting, 'waiting receipt')}"
        given.tell({"discarded": name, "waiting": lost.waiting}, told)
        return
    item = _operate(given, path, lambda operator: operator.discard(name))
    given.tell({"discarded": item.name}, f"Discarded: {item.name}")


def _path(given: Asking) -> Path:
    from inboxd.inbound.spool.inspection import spool_path

    return spool_path(given.settings.inbound.spool.path)


def _operate(given: Acting, path: Path, what: "Callable[[SpoolOperator], Awaitable[T]]") -> T:
    from inboxd.inbound.spool.operate import SpoolOperator
    from inboxd.telemetry import logs

    logs.configure("error", given.settings.log.format)
    memory = given.settings.history.receipts

    async def run(session: "Session") -> T:
        return await what(SpoolOperator(path, session, actor(), given.reason, memory))

    return given.ask(run)


def _waiting_receipt(path: Path, which: str, *, raw: bool) -> dict[str, Any] | None:
    from inboxd.inbound.spool import inspection
    from inboxd.inbound.spool.folder import folders

    try:
        wanted = UUID(which)
    except ValueError:
        return None
    for folder in folders(path):
        for each in inspection.waiting(folder):
            if each.receipt.receipt_id == wanted:
                return _plain(each.receipt, each.folder, raw=raw)
    return None


def _plain(receipt: "Receipt", folder: str, *, raw: bool = False) -> dict[str, Any]:
    import orjson

    shown: dict[str, Any] = {
        "receipt_id": receipt.receipt_id,
        "source": receipt.source,
        "received_at": receipt.received_at,
        "event_ids": list(dict.fromkeys(event.event_id for event in receipt.events)),
        "types": sorted({event.type for event in receipt.events}),
        "bytes": len(receipt.body),
        "content_type": receipt.content_type,
        "key": receipt.key_id,
        "folder": folder,
    }
    if raw:
        shown["headers"] = orjson.loads(receipt.headers) if receipt.headers else None
        shown["body"] = readable(receipt.body)
    return shown


def _apart(item: "ApartItem", *, raw: bool = False) -> dict[str, Any]:
    own: dict[str, Any] = {"receipt_id": None, "source": None, "received_at": None}
    if item.receipt is not None:
        own = _plain(item.receipt, item.folder.name, raw=raw)
    elif raw:
        own["body"] = readable(item.paths[1].read_bytes())
    named = {"name": item.name, "reason": item.reason}
    return {**named, **own, "bytes": item.bytes, "folder": item.folder.name}
