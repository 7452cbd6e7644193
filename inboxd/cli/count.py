"""`inboxd events count`, `inboxd commands count`: the totals, each with how exact it is.

*See:* `inboxd.operations.totals`, which says what they are made of.
"""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Looking, Tenant, examples
from inboxd.cli.output import Table, TableColumn, remark
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations.totals import Number, Totals
    from inboxd.store.wakeups import HotTable

_NAMES = (
    *("total", "pending", "processing", "errors", "successes"),
    *("cancelled", "dismissed", "replayed"),
)
_LOOKS = {"exact": "{:,}", "at_least": "{:,}+", "about": "≈ {:,}"}
_TOLD = {
    "exact": "exactly",
    "at_least": "at least so many",
    "about": "by statistics, some seconds behind",
}


def add_to(app: CommandGroup, table: "HotTable") -> None:
    """Add the command to a group."""

    @app.command(
        help=f"Count {table}: all, and by what became of them; each number says how exact it is.",
        epilog=examples(
            f"inboxd {table} count", f"inboxd {table} count --type email.send --tenant acme --json"
        ),
    )
    def count(
        type: Annotated[
            str | None, typer.Option("--type", metavar="TYPE", help="Only of this type.")
        ] = None,
        tenant: Tenant = None,
        *,
        given: Looking,
    ) -> None:
        from inboxd.operations.totals import count_all

        found = given.ask(lambda session: count_all(session, table, type_=type, tenant=tenant))
        numbers = {name: getattr(found, name) for name in _NAMES}
        document = {name: _json(number) for name, number in numbers.items()}
        document["days_without_census"] = found.days_without_census
        given.print(document, [_table(table, numbers)])
        _doubt(found)


def _json(number: "Number | None") -> Any:
    return None if number is None else {"rows": number.value, "exactness": number.exactness}


def _table(table: str, numbers: dict[str, "Number | None"]) -> Table:
    shown = [
        {
            "rows": _LOOKS[number.exactness].format(number.value),
            "name": name,
            "exactness": _TOLD[number.exactness],
        }
        for name, number in numbers.items()
        if number is not None
    ]
    heads = (
        TableColumn(table, "name"),
        TableColumn("rows", kind="number"),
        TableColumn("how exact", "exactness"),
    )
    return columns.table(heads, shown)


def _doubt(found: "Totals") -> None:
    if found.days_without_census:
        days = plural(found.days_without_census, "day")
        remark(f"Not counted yet: {days} of history (the leader counts one after the other).")
