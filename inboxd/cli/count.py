"""`inboxd events count`, `inboxd commands count`: numbers of rows, each with its exactness.

Totals by type and tenant are complete; any other filter looks as far back as a list does.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from inboxd.cli import actions, columns
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Looking, Statuses, examples
from inboxd.cli.output import Table, TableColumn, remark, show
from inboxd.cli.row_lists import EventListFilter, ListFilter
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations.counting import FoundNumbers
    from inboxd.operations.totals import Number, Totals
    from inboxd.store.finding import Filter
    from inboxd.store.wakeups import HotTable

_NAMES = (
    *("total", "pending", "processing", "errors", "successes"),
    *("cancelled", "dismissed", "replayed"),
)
_EXACTNESS = {
    "exact": "exact",
    "at_least": "at least this many",
    "about": "from statistics, some seconds old",
}
# Filters that totals support; for any other filter, rows are looked at.
_OF_TOTALS = ("type", "tenant")


def add_to(app: CommandGroup, table: "HotTable") -> None:
    events = table == "events"
    lines = (
        "--type email.send --tenant acme --json",
        "--topic orders --since 1d" if events else "--queue email --status failed --since 1d",
        "--payload order_id=17 --look 1000000",
    )

    @app.command(
        options={
            "wanted": actions.row_filter(table),
            "where": EventListFilter if events else ListFilter,
        },
        help=f"Count {table} by outcome: all, or only {table} that match a filter; each number "
        "comes with its exactness.",
        epilog=examples(
            f"inboxd {table} count", *(f"inboxd {table} count {line}" for line in lines)
        ),
    )
    def count(*, wanted: Any, status: Statuses = None, where: Any, given: Looking) -> None:
        texts = {**asdict(wanted), **asdict(where)}
        look, commands = texts.pop("look"), texts.pop("commands", None) or ()
        others = [name for name, value in texts.items() if value and name not in _OF_TOTALS]
        if others or status or commands or look is not None:
            from inboxd.operations import read_filter

            filter_ = read_filter(texts, statuses=status or (), commands=commands)
            _print_found(table, filter_, look, given)
        else:
            _print_totals(table, texts.get("type"), texts.get("tenant"), given)


def _print_totals(table: "HotTable", type_: str | None, tenant: str | None, given: Looking) -> None:
    from inboxd.operations.totals import count_all

    found = given.ask(lambda session: count_all(session, table, type_=type_, tenant=tenant))
    _print(table, found, {"days_without_census": found.days_without_census}, given)
    if found.days_without_census:
        days = plural(found.days_without_census, "day")
        remark(f"Not counted yet: {days} of history (the leader counts day by day).")


def _print_found(table: "HotTable", wanted: "Filter", look: int | None, given: Looking) -> None:
    from inboxd.operations.counting import count_found

    found = given.ask(lambda session: count_found(session, table, wanted, look))
    looked = {"looked_at": found.looked, "looked_back_to": found.looked_back_to}
    remarks = []
    if found.looked_back_to is not None:
        rows = plural(found.looked, "row")
        remarks = [
            f"Looked at rows back to {show(found.looked_back_to)} ({rows}); --look N looks further."
        ]
    _print(table, found, looked, given, remarks)


def _print(
    table: str,
    found: "Totals | FoundNumbers",
    more: dict[str, Any],
    given: Looking,
    remarks: Sequence[str] = (),
) -> None:
    numbers: dict[str, Number | None] = {name: getattr(found, name) for name in _NAMES}
    document = {
        name: None if number is None else number.document() for name, number in numbers.items()
    }
    if found.processing is None:
        remarks = [*remarks, "Running events are counted as pending: only their sum is known."]
    given.print(document | more, [_table(table, numbers)], remarks)


def _table(table: str, numbers: dict[str, "Number | None"]) -> Table:
    shown = [
        {
            "rows": columns.exactly(number),
            "name": name,
            "exactness": _EXACTNESS[number.exactness],
        }
        for name, number in numbers.items()
        if number is not None
    ]
    heads = (
        TableColumn(table, "name"),
        TableColumn("rows", kind="number"),
        TableColumn("exactness"),
    )
    return columns.table(heads, shown)
