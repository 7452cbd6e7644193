"""`inboxd webhooks`: received webhooks, the state of their events, and paused sources.

A receipt's state is not stored, so `list --state` looks through pages, and stops after 10,000.
"""

import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import typer

from inboxd.cli import columns
from inboxd.cli.groups import CommandGroup, Options
from inboxd.cli.options import Acting, Force, Looking, Since, actor, examples
from inboxd.cli.output import Document, Fields, Part, TableColumn
from inboxd.cli.receipts import readable
from inboxd.cli.webhook_replay import replay
from inboxd.cli.webhook_send import openapi, send, source_names, source_of
from inboxd.model.moments import read_since
from inboxd.model.row_id import read_row_id, read_uuid
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.store.receipts import ReceiptRow
    from inboxd.store.session import Session

_MOST_LOOKED_AT = 10_000  # receipts, in a list by state
_PAGE_RECEIPTS = 500
_EVENTS_SHOWN = 20


class State(StrEnum):
    """The state of a receipt, derived from its events."""

    PENDING = "pending"
    HANDLED = "handled"
    FAILED = "failed"


app = CommandGroup(
    no_args_is_help=True,
    help="Show received webhooks, pause their sources, send samples, send webhooks again.",
)

Source = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="Only this source.", autocompletion=source_names, show_default=False
    ),
]
SourceName = Annotated[
    str,
    typer.Argument(
        metavar="SOURCE",
        help="The source's name in the settings.",
        show_default=False,
        autocompletion=source_names,
    ),
]
Which = Annotated[
    str,
    typer.Argument(
        metavar="RECEIPT|EVENT",
        help="The receipt's id, or the number or id of one of its events.",
        show_default=False,
    ),
]


@dataclass(frozen=True, kw_only=True)
class ReceiptPaging(Options):
    limit: Annotated[
        int, typer.Option(metavar="N", min=1, max=10_000, help="List at most N receipts.")
    ] = 20
    after: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Continue after this receipt, the last one listed."),
    ] = None


def _of_events(row: Any) -> str:
    told = ", ".join(f"{count} {status}" for status, count in row["statuses"].items())
    return told or f"{len(row['event_ids'])}"


_LIST = (
    TableColumn("receipt", "receipt_id"),
    TableColumn("source", cut="right"),
    TableColumn("received", "received_at", kind="time"),
    TableColumn("state", "became"),
    TableColumn("outcome"),
    TableColumn("events", _of_events, cut="right", extra=True),
    TableColumn("bytes", "body_bytes", kind="number", extra=True),
    TableColumn("key", "key_id", cut="right", extra=True),
    TableColumn("address", cut="right", extra=True),
)


@app.command(
    "list",
    epilog=examples(
        "inboxd webhooks list --source bank --since 2h",
        "inboxd webhooks list --state failed --json",
    ),
)
def list_(
    *,
    source: Source = None,
    state: Annotated[
        list[State] | None,
        typer.Option(
            metavar="STATE",
            help="Only receipts in this state: pending, handled or failed; repeatable.",
        ),
    ] = None,
    since: Since = None,
    page: ReceiptPaging,
    given: Looking,
) -> None:
    """List receipts, newest first, with the state of their events."""
    after = None if page.after is None else read_uuid(page.after)
    begin = None if since is None else read_since(since)

    async def look(session: "Session") -> "tuple[list[ReceiptRow], UUID | None]":
        found: list[ReceiptRow] = []
        seen, last = 0, None
        async for row in _receipts(session, source, after, page.limit):
            seen += 1
            if begin is not None and row["received_at"] < begin:
                return found, None
            last = row["receipt_id"]
            if state and row["became"] not in state:
                continue
            found.append(row)
            if len(found) == page.limit:
                return found, last
        # At the limit the search stopped; below it, all receipts were seen.
        return found, last if seen >= _MOST_LOOKED_AT else None

    rows, next_ = given.ask(look)
    given.print({"receipts": rows, "next": next_}, [columns.table(_LIST, rows)])


async def _receipts(
    session: "Session", source: str | None, after: UUID | None, limit: int
) -> "AsyncIterator[ReceiptRow]":
    """Yield receipts, read page by page, at most about `_MOST_LOOKED_AT`."""
    from inboxd.store import receipts

    size, seen = min(limit, _PAGE_RECEIPTS), 0
    while seen < _MOST_LOOKED_AT:
        rows = await receipts.page(session, source, after=after, limit=size)
        for row in rows:
            yield row
        if len(rows) < size:
            return
        seen, after, size = seen + len(rows), rows[-1]["receipt_id"], _PAGE_RECEIPTS


@app.command(
    epilog=examples(
        "inboxd webhooks show 0193a5f2-7c1e-7000-8000-5f2c1e0d9a7b --payload",
        "inboxd webhooks show 4711 --raw > body.json",
    )
)
def show(
    which: Which,
    *,
    payload: Annotated[bool, typer.Option("--payload", help="Also show headers and body.")] = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Write only the body, exactly as received.")
    ] = False,
    given: Looking,
) -> None:
    """Show one receipt: its time and address, and the state of its events."""
    from inboxd.operations.receipts import body_of, events_of, headers_of, receipt_of

    wanted = read_row_id(which)

    async def look(session: "Session") -> "tuple[ReceiptRow, list[dict[str, Any]]]":
        row = await receipt_of(session, wanted, raw=payload or raw)
        return row, await events_of(session, row["event_ids"][:_EVENTS_SHOWN])

    row, events = given.ask(look)
    if raw and not given.json:
        sys.stdout.buffer.write(body_of(row))
        sys.stdout.buffer.flush()
        return
    document = {key: value for key, value in row.items() if key not in {"body", "headers"}}
    document["events"] = events
    if payload or raw:
        document |= {"headers": headers_of(row), "body": readable(row.get("body"))}
    given.print(document, _parts(row, events, payload=payload))


_EVENTS = (
    *(TableColumn("event", "id", kind="number"), "type", "topic", "status"),
    TableColumn("event id", "event_id", extra=True),
)


def _parts(row: "ReceiptRow", events: list[dict[str, Any]], *, payload: bool) -> Iterator[Part]:
    from inboxd.operations.receipts import headers_of

    yield Fields(
        {
            "receipt": row["receipt_id"],
            "source": row["source"],
            "received": row["received_at"],
            "state": row["became"],
            "outcome": row["outcome"],
            "events": _of_events(row),
            "held": "until its source is resumed" if row["held"] else None,
            "body": f"{row['body_bytes']} bytes" + ("" if row["has_body"] else ", not kept"),
            "content type": row["content_type"],
            "address": row["address"],
            "key": row["key_id"],
        }
    )
    if events:
        yield columns.table(_EVENTS, events)
    if (left := len(row["event_ids"]) - _EVENTS_SHOWN) > 0:
        yield f"({plural(left, 'more event')}; `inboxd trace` shows them)"
    if payload:
        yield Document("headers", headers_of(row))
        yield Document("body", readable(row.get("body")))


@app.command(
    epilog=examples(
        "inboxd webhooks pause bank --reason 'its handler is being repaired'",
        "inboxd webhooks pause bank --refuse",
    )
)
def pause(
    source: SourceName,
    *,
    refuse: Annotated[
        bool,
        typer.Option(
            "--refuse",
            help="Answer 503 and store nothing; a sender that does not retry loses its webhooks.",
        ),
    ] = False,
    force: Force = False,
    given: Acting,
) -> None:
    """Pause a source: store its webhooks, and hold their events until it is resumed."""
    from inboxd import operations

    if not force:
        source_of(given.settings, source)
    who, why = actor(), given.reason
    held = given.ask(
        lambda session: operations.pause(
            session, "source", source, actor=who, reason=why, refuse=refuse
        )
    )
    now = "new webhooks are answered 503" if refuse else "new webhooks are stored and held"
    told = f"Paused: source {source}, {now}; {plural(held, 'receipt')} held"
    mode = "refuse" if refuse else "hold"
    given.tell({"paused": {"source": source, "mode": mode}, "held": held}, told)


@app.command(epilog=examples("inboxd webhooks resume bank"))
def resume(source: SourceName, given: Acting) -> None:
    """Resume a source: write its events again, the held ones first, in order."""
    from inboxd import operations

    released = given.do(operations.resume, "source", source)
    told = f"Resumed: source {source}, {plural(released, 'held receipt')} released"
    given.tell({"resumed": {"source": source}, "released": released}, told)


app.command(
    epilog=examples(
        "inboxd webhooks send --source bank --file result.json",
        "inboxd webhooks send --source hub --file push.json --header 'X-GitHub-Event: push'",
    )
)(send)
app.command(
    epilog=examples(
        "inboxd webhooks replay 4711 --url http://127.0.0.1:8798/in/bank",
        "inboxd webhooks replay 0193a5f2-7c1e-7000-8000-5f2c1e0d9a7b --url https://test.example/in",
    )
)(replay)
app.command(epilog=examples("inboxd webhooks openapi > webhooks.json"))(openapi)
