"""Replay, dismiss and cancel, the same for events and commands: rows by name, or all that match.

Promises: rows that are named are all changed or none; what matches a filter is shown before, with
`--dry-run` or by a question at a terminal; an action on all rows needs `--all`.
Known limit: an action on many rows that is interrupted has been done to those of its pages before.
*See:* `operations/rows.py` and `operations/bulk.py`, after it.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.completion import FAILURE_GROUP, declared
from inboxd.cli.groups import Options
from inboxd.cli.options import Careful, Force, Since, Tenant, actor, named_in
from inboxd.errors import UsageError
from inboxd.model.moments import read_since
from inboxd.model.row_id import read_row_id
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations import Action, ActionPreview, RowId, Selection
    from inboxd.store.session import Session
    from inboxd.store.wakeups import HotTable


@dataclass(frozen=True, kw_only=True)
class RowFilter(Options):
    """Which rows: what lists and actions have in common; `row_filter` adds what more there is."""

    type: Annotated[
        str | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only this type.",
            autocompletion=declared("event type", "command type"),
        ),
    ] = None
    tenant: Tenant = None
    since: Since = None

    def given(self) -> dict[str, Any]:
        """The options that were given, parsed."""
        read = {"since": read_since, "batch": read_row_id}
        return {
            name: read[name](value) if name in read else value
            for name, value in asdict(self).items()
            if value is not None
        }


_MORE = {
    "error": typer.Option(
        "--error", metavar="TEXT", help="Only where the newest error contains this."
    ),
    "group": typer.Option(
        "--group",
        metavar="GROUP",
        help="Only this group of `inboxd failures list`, or the beginning of its name.",
        autocompletion=declared(FAILURE_GROUP),
    ),
    "batch": typer.Option("--batch", metavar="ID", help="Only what is in this batch."),
}


def row_filter(table: "HotTable", *more: str) -> type[RowFilter]:
    """The filter of a table's rows: with its lane, and with `more` of error, group and batch."""
    lane = "topic" if table == "events" else "queue"
    option = typer.Option(
        f"--{lane}", metavar="TEXT", help=f"Only this {lane}.", autocompletion=declared(lane)
    )
    options = {"lane": option, **{name: _MORE[name] for name in more}}
    fields = [(name, Annotated[str | None, each], None) for name, each in options.items()]
    return make_dataclass("RowFilter", fields, bases=(RowFilter,), frozen=True, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class ActingOnMany(Careful):
    """How an action on many rows is done."""

    rate: Annotated[float | None, typer.Option(metavar="N", help="At most N rows a second.")] = None


@dataclass(frozen=True, kw_only=True)
class ActingOnRows(ActingOnMany):
    """How an action on rows that are named or match is done."""

    everything: Annotated[
        bool, typer.Option("--all", help="All whose status allows it: no filter.")
    ] = False
    force: Force = False


_DONE = {"replay": "Replayed", "dismiss": "Dismissed", "cancel": "Cancelled"}
_SAMPLE = (
    *("id", "type", "in", "status", "tenant", "created"),
    "error",
)


def act(
    table: "HotTable",
    action: "Action",
    ids: Sequence[str] | None,
    wanted: RowFilter,
    given: ActingOnRows,
) -> None:
    """Do it to the rows named, or to all that match; print what was done."""
    from inboxd.operations import Selection

    filters = wanted.given()
    if bool(ids) + bool(filters) + given.everything != 1:
        raise UsageError(
            f"what is to be {_DONE[action].lower()}? Give ids, or a filter such as --type, "
            "or --all; one of these."
        )
    if ids:
        _on_named(table, action, [read_row_id(each) for each in ids], given)
    else:
        act_on_all(table, action, Selection(**filters), given, force=given.force)


def _on_named(table: "HotTable", action: "Action", ids: "list[RowId]", given: ActingOnMany) -> None:
    from inboxd import operations

    if given.dry_run:
        found = given.ask(lambda session: operations.preview(session, table, action, ids))
        _print_preview(table, action, found, given)
        return
    done = given.do(operations.act, table, action, ids)
    pairs = zip(done.ids, done.new_ids or done.ids, strict=True)
    texts = [str(old) if old == new else f"{old} as {new}" for old, new in pairs]
    headings = {_DONE[action]: texts, "Running, asked to end": done.requested}
    lines = [
        f"{heading}: {table.removesuffix('s')} {', '.join(map(str, changed))}"
        for heading, changed in headings.items()
        if changed
    ]
    given.tell(operations.told(action, done), *lines)


def act_on_all(
    table: "HotTable",
    action: "Action",
    wanted: "Selection",
    given: ActingOnMany,
    *,
    force: bool = False,
) -> None:
    """Do it to all that match; print how many, and before that what they are."""
    from inboxd import operations

    async def look(session: "Session") -> "ActionPreview":
        found = await operations.preview(session, table, action, wanted)
        await check(session, found.count)
        return found

    async def do(session: "Session") -> int:
        count = await operations.act_on_all(session, table, action, wanted, terms)
        await check(session, count)
        return count

    async def check(session: "Session", count: int) -> None:
        """Raise UnknownName where nothing matched a name that nobody declared and no row has."""
        for kind, name in () if count or force else operations.names_of(table, wanted):
            also = named_in(given.settings, kind)
            await operations.check_known(session, kind, name, also=also)

    def tell(done: int) -> None:
        typer.echo(f"\r{plural(done, table.removesuffix('s'))}", nl=False, err=True)

    def show() -> bool:
        found = given.ask(look)
        _print_preview(table, action, found, given)
        return found.count > 0

    if not given.agreed(show, f"{action.capitalize()} them now?"):
        return
    on_page = tell if sys.stderr.isatty() else None
    terms = operations.Terms(actor=actor(), reason=given.reason, rate=given.rate, on_page=on_page)
    count = given.ask(do)
    told = f"{_DONE[action]}: {plural(count, table.removesuffix('s'))}"
    given.tell({"action": action, "count": count}, told)


def _print_preview(
    table: "HotTable", action: "Action", found: "ActionPreview", given: ActingOnMany
) -> None:
    what = plural(found.count, table.removesuffix("s"))
    given.print(
        {"action": action, "count": found.count, "sample": found.sample},
        [columns.table(_SAMPLE, found.sample)] if found.sample else [],
        [f"{what} would be {_DONE[action].lower()}."],
    )
