"""Actions on events and commands: on named rows, or on all rows that match a filter.

Named rows are changed all or none; rows that match are previewed, and an action on all rows needs
`--all`. Known limit: an interrupted action on many rows stays done on the pages that were
committed. *See:* `operations/rows.py`, `operations/bulk.py`.
"""

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, make_dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import background, columns
from inboxd.cli.background import InBackground
from inboxd.cli.completion import FAILURE_GROUP, declared
from inboxd.cli.groups import Options
from inboxd.cli.options import (
    By,
    Entity,
    Force,
    Previewed,
    Since,
    Tenant,
    Until,
    actor,
    named_in,
)
from inboxd.errors import UsageError
from inboxd.model.row_id import read_row_id
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from datetime import datetime

    from inboxd.operations import Action, ActionPreview, Move, RowId, Selection, Verb
    from inboxd.store.session import Session
    from inboxd.store.wakeups import HotTable


@dataclass(frozen=True, kw_only=True)
class RowFilter(Options):
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
    until: Until = None
    by: By = None
    entity: Entity = None


_MORE = {
    "error": typer.Option(
        "--error", metavar="TEXT", help="Only rows whose newest error contains TEXT."
    ),
    "group": typer.Option(
        "--group",
        metavar="GROUP",
        help="Only this failure group: its name in `inboxd failures list`, or the beginning of it.",
        autocompletion=declared(FAILURE_GROUP),
    ),
    "batch": typer.Option("--batch", metavar="ID", help="Only members of this batch."),
}


def row_filter(table: "HotTable", *more: str) -> type[RowFilter]:
    lane = "topic" if table == "events" else "queue"
    option = typer.Option(
        f"--{lane}", metavar="TEXT", help=f"Only this {lane}.", autocompletion=declared(lane)
    )
    options = {"lane": option, **{name: _MORE[name] for name in more}}
    fields = [(name, Annotated[str | None, each], None) for name, each in options.items()]
    return make_dataclass("RowFilter", fields, bases=(RowFilter,), frozen=True, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class ActingOnMany(Previewed):
    rate: Annotated[float | None, typer.Option(metavar="N", help="At most N rows a second.")] = None


@dataclass(frozen=True, kw_only=True)
class ActingOnMatching(ActingOnMany, InBackground):
    """Options of an action on all rows that match; the command or the workers carry it out."""


@dataclass(frozen=True, kw_only=True)
class ActingOnRows(ActingOnMatching):
    everything: Annotated[
        bool, typer.Option("--all", help="All rows whose status allows the action.")
    ] = False
    force: Force = False


_DONE = {
    "replay": "Replayed",
    "dismiss": "Dismissed",
    "cancel": "Cancelled",
    "reschedule": "Rescheduled",
    "prioritize": "Prioritized",
}
_SAMPLE = (
    *("id", "type", "topic/queue", "status", "tenant", "created"),
    "error",
)


def act(
    table: "HotTable",
    action: "Action",
    ids: Sequence[str] | None,
    wanted: RowFilter,
    given: ActingOnRows,
) -> None:
    selection = selected(action, ids, wanted, given)
    if selection is None:
        _on_named(table, action, [read_row_id(each) for each in ids or ()], given)
    elif given.background:
        order(table, action, selection, None, given, force=given.force)
    else:
        act_on_all(table, action, selection, given, force=given.force)


def selected(
    verb: "Verb", ids: Sequence[str] | None, wanted: RowFilter, given: ActingOnRows
) -> "Selection | None":
    """Return the filter; None: the rows are named by ids. Raises UsageError for both or neither."""
    from inboxd.operations import read_selection

    filters: dict[str, str | None] = asdict(wanted)
    is_filtered = any(value is not None for value in filters.values())
    if bool(ids) + is_filtered + given.everything != 1:
        raise UsageError(
            f"choose the rows to be {_DONE[verb].lower()} in one way: by ids, by a filter such as "
            "--type, or by --all."
        )
    given.refuse_without_background()
    if ids and given.background:
        raise UsageError("--background does not take ids: give a filter, or --all.")
    return None if ids else read_selection(filters)


def move(
    table: "HotTable",
    verb: "Move",
    ids: Sequence[str] | None,
    wanted: RowFilter,
    to: "datetime | int",
    given: ActingOnRows,
) -> "tuple[int, ...]":
    """Returns the changed rows; none after a bulk order or a dry run."""
    from inboxd import operations

    selection = selected(verb, ids, wanted, given)
    if selection is not None:
        if not given.background:
            raise UsageError(f"{verb} takes a filter or --all only with --background.")
        order(table, verb, selection, to, given, force=given.force)
        return ()
    rows = [read_row_id(each) for each in ids or ()]
    if given.dry_run:
        given.ask(lambda session: operations.movable(session, table, verb, rows))
        what = plural(len(rows), table.removesuffix("s"))
        given.print(
            {"action": verb, "count": len(rows)}, [f"{what} would be {_DONE[verb].lower()}."]
        )
        return ()
    if isinstance(to, int):
        return given.do(operations.prioritize, rows, to).ids
    return given.do(operations.reschedule, table, rows, to).ids


def order(
    table: "HotTable",
    verb: "Verb",
    wanted: "Selection",
    to: "datetime | int | None",
    given: ActingOnMatching,
    *,
    force: bool = False,
) -> None:
    from inboxd import operations
    from inboxd.errors import NotFound
    from inboxd.operations.bulk_orders import ShownRows

    terms = given.terms(given.rate, to)

    async def look(session: "Session") -> "ActionPreview":
        found = await operations.preview_all(session, table, verb, wanted)
        await _check_names(session, table, wanted, found.count, given, force=force)
        return found

    shown: ShownRows | None = None

    async def do(session: "Session", *, actor: str, reason: str | None) -> dict[str, Any]:
        try:
            return await operations.order(
                *(session, table, verb, wanted, terms), actor=actor, reason=reason, shown=shown
            )
        except NotFound:
            await _check_names(session, table, wanted, 0, given, force=force)
            raise

    def show() -> bool:
        nonlocal shown
        found = given.ask(look)
        shown = ShownRows(found.count, found.last)
        _print_preview(table, verb, found, given)
        return found.count > 0 or not found.whole

    if given.confirmed(show, f"Let the workers {verb} them?"):
        done = given.do(do)
        given.tell(done, *background.order_lines(done))


async def _check_names(
    session: "Session",
    table: "HotTable",
    wanted: "Selection",
    count: int,
    given: ActingOnMany,
    *,
    force: bool,
) -> None:
    """Raise UnknownName if the filter matched nothing and names an undeclared, unused name."""
    from inboxd import operations

    for kind, name in () if count or force else operations.names_of(table, wanted):
        also = named_in(given.settings, kind)
        await operations.check_known(session, kind, name, also=also)


def _on_named(table: "HotTable", action: "Action", ids: "list[RowId]", given: ActingOnMany) -> None:
    from inboxd import operations

    if given.dry_run:
        found = given.ask(lambda session: operations.preview(session, table, action, ids))
        _print_preview(table, action, found, given)
        return
    done = given.do(operations.act, table, action, ids)
    pairs = zip(done.ids, done.new_ids or done.ids, strict=True)
    texts = [str(old) if old == new else f"{old} as {new}" for old, new in pairs]
    headings = {_DONE[action]: texts, "Running, asked to stop": done.requested}
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
    from inboxd import operations

    async def look(session: "Session") -> "ActionPreview":
        found = await operations.preview(session, table, action, wanted)
        await _check_names(session, table, wanted, found.count, given, force=force)
        return found

    async def do(session: "Session") -> int:
        count = await operations.act_on_all(session, table, action, wanted, terms)
        await _check_names(session, table, wanted, count, given, force=force)
        return count

    def tell(done: int) -> None:
        typer.echo(f"\r{plural(done, table.removesuffix('s'))}", nl=False, err=True)

    def show() -> bool:
        found = given.ask(look)
        _print_preview(table, action, found, given)
        return found.count > 0

    if not given.confirmed(show, f"{action.capitalize()} them now?"):
        return
    on_page = tell if sys.stderr.isatty() else None
    terms = operations.Terms(actor=actor(), reason=given.reason, rate=given.rate, on_page=on_page)
    count = given.ask(do)
    told = f"{_DONE[action]}: {plural(count, table.removesuffix('s'))}"
    given.tell({"action": action, "count": count}, told)


def _print_preview(
    table: "HotTable", action: "Verb", found: "ActionPreview", given: ActingOnMany
) -> None:
    what = ("" if found.whole else "At least ") + plural(found.count, table.removesuffix("s"))
    whole = {} if found.whole else {"whole": False}
    given.print(
        {"action": action, "count": found.count, **whole, "sample": found.sample},
        [columns.table(_SAMPLE, found.sample)] if found.sample else [],
        [f"{what} would be {_DONE[action].lower()}."],
    )
