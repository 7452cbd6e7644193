"""`inboxd endpoints deliveries|resend|send`: the deliveries of an endpoint, and sending again.

Known limit: the list lacks message id and type where the payload is large.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.actions import ActingOnMany, act_on_all
from inboxd.cli.completion import declared
from inboxd.cli.options import Acting, Looking, Paging, Since, Statuses
from inboxd.cli.output import TableColumn
from inboxd.errors import UsageError
from inboxd.model.moments import read_since
from inboxd.model.row_id import read_row_id

if TYPE_CHECKING:
    from inboxd.operations import Done
    from inboxd.store.session import Session

TEST_TYPE = "webhook.test"
_TEST_PAYLOAD = '{"message": "A test of this endpoint."}'

Name = Annotated[
    str,
    typer.Argument(
        metavar="NAME",
        help="The endpoint.",
        show_default=False,
        autocompletion=declared("endpoint"),
    ),
]


def _answer(row: Mapping[str, Any]) -> str | None:
    answer = row["answer"]
    if row["status"] == "succeeded" and isinstance(answer, dict) and "status" in answer:
        return str(answer["status"])
    error: str | None = row["error"]
    return error


_LIST = (
    "id",
    TableColumn("message", "message_id"),
    TableColumn("type", "message_type"),
    TableColumn("status"),
    TableColumn("attempts", kind="number"),
    TableColumn("created", "created_at", kind="time"),
    TableColumn("finished", "finished_at", kind="time", extra=True),
    TableColumn("next", "run_at", kind="time", extra=True),
    TableColumn("answer", _answer, cut="right"),
)


def deliveries(
    name: Name, *, status: Statuses = None, since: Since = None, page: Paging, given: Looking
) -> None:
    """List the deliveries of an endpoint, newest first, with the last answer."""
    from inboxd import operations

    async def look(session: "Session") -> list[dict[str, Any]]:
        await operations.one_endpoint(session, name)
        found = await operations.deliveries(
            *(session, name),
            statuses=tuple(map(str, status or ())),
            since=None if since is None else read_since(since),
            below=page.after,
            limit=page.limit,
            everywhere=True,
        )
        return found.rows

    rows = given.ask(look)
    document = {"deliveries": rows, "next": page.next(rows)}
    given.print(document, [columns.table(_LIST, rows)])


def resend(
    name: Name,
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="[ID]...", help="Deliveries: numbers or uuids.", show_default=False),
    ] = None,
    *,
    failed: Annotated[
        bool, typer.Option("--failed", help="All failed deliveries, instead of ids.")
    ] = False,
    since: Since = None,
    given: ActingOnMany,
) -> None:
    """Deliver again: replay failed deliveries, send other ones anew with the same message id."""
    from inboxd.operations import failed_of, resend_deliveries

    if bool(ids) == failed or (since is not None and not failed):
        raise UsageError(
            "choose the deliveries to resend: give ids, or --failed with or without --since."
        )
    if failed:
        more = {} if since is None else {"since": read_since(since)}
        _check_endpoint(name, given)
        act_on_all("commands", "replay", failed_of(name, **more), given, force=True)
        return
    if given.dry_run:
        raise UsageError("--dry-run needs --failed: ids already name the deliveries.")
    done: Done = given.do(resend_deliveries, name, [read_row_id(each) for each in ids or ()])
    pairs = dict(zip(done.ids, done.new_ids, strict=True))
    lines = [f"Delivery {old} is sent again as {new}." for old, new in pairs.items()]
    given.tell({"endpoint": name, "ids": list(done.ids), "new_ids": list(done.new_ids)}, *lines)


def _check_endpoint(name: str, given: Acting) -> None:
    from inboxd.operations import one_endpoint

    given.ask(lambda session: one_endpoint(session, name))


def send(
    name: Name,
    type: Annotated[str, typer.Argument(metavar="TYPE", help="The webhook's type.")] = TEST_TYPE,
    payload: Annotated[
        str, typer.Argument(metavar="JSON|-|@FILE", help="The webhook's data; -: standard input.")
    ] = _TEST_PAYLOAD,
    *,
    given: Acting,
) -> None:
    """Send one test webhook to one endpoint, regardless of its types."""
    from inboxd.cli.payload import read_payload
    from inboxd.operations import send_to_endpoint

    sent = given.do(send_to_endpoint, name, type, read_payload(payload))
    told = f"Message {sent['message_id']} is sent to {name}, as command {sent['id']}."
    given.tell({"endpoint": name, "type": type, **sent}, told)
