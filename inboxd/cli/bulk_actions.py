"""`inboxd actions`: bulk actions; a pause takes effect after a transaction of at most 500 rows."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Acting, Looking, Paging, examples
from inboxd.cli.output import Fields, Part, TableColumn
from inboxd.cli.output import show as shown
from inboxd.model.wording import plural

app = CommandGroup(no_args_is_help=True, help="Show bulk actions; pause, resume and abort them.")

_Number = Annotated[
    int, typer.Argument(metavar="ID", help="The action's number.", show_default=False, min=1)
]
_BAR_CHARACTERS = 30


def _bar(share: float) -> str:
    done = int(share * _BAR_CHARACTERS)
    return f"[{'#' * done}{'.' * (_BAR_CHARACTERS - done)}] {share:.0%}"


def _matched(row: Mapping[str, Any]) -> str:
    return f"{row['counted']:,}{'' if row['whole'] else '+'}"


def _selection(row: Mapping[str, Any]) -> str:
    if row["selection"] is None:
        return "withheld"
    given = (
        (name, ",".join(map(str, value)) if isinstance(value, list | tuple) else shown(value))
        for name, value in row["selection"].items()
    )
    return " ".join(f"{name}={value}" for name, value in given) or "all"


_LIST = (
    TableColumn("id", kind="number"),
    TableColumn("action", lambda row: f"{row['verb']} {row['kind']}s"),
    TableColumn("status"),
    TableColumn("done", lambda row: f"{row['done']:,}", kind="number"),
    TableColumn("matched", _matched, kind="number", legend="rows at the time of the order"),
    TableColumn("left", lambda row: f"{row['left_out']:,}", kind="number", extra=True),
    TableColumn("progress", lambda row: f"{row['share']:.0%}", kind="number"),
    TableColumn("selection", _selection, cut="right"),
    TableColumn("starts", "starts_at", kind="time", extra=True),
    TableColumn("ended", "ended_at", kind="time", extra=True),
    "by",
    TableColumn("why", "reason", cut="right", extra=True),
)


@app.command("list", epilog=examples("inboxd actions list", "inboxd actions list --json"))
def list_(page: Paging, given: Looking) -> None:
    """List bulk actions, newest first: their action, their rows, and their progress."""
    from inboxd.operations import orders

    found = given.ask(lambda session: orders(session, below=page.after, limit=page.limit))
    given.print({"actions": found, "next": page.next(found)}, [columns.table(_LIST, found)])


@app.command(epilog=examples("inboxd actions show 7"))
def show(id: _Number, given: Looking) -> None:
    """Show one bulk action: its selection, options and progress, and why it is paused."""
    from inboxd.operations import one_order

    found = given.ask(lambda session: one_order(session, id))
    given.print(found, _parts(found))


def _rate(rate: float) -> str:
    return f"at most {rate:g} {'row' if rate == 1 else 'rows'} a second"


def _parts(row: Mapping[str, Any]) -> Iterator[Part]:
    from inboxd.operations import told_order

    to = None if row["to"] is None else shown(row["to"])
    rate = None if row["rate"] is None else _rate(row["rate"])
    canary = (
        f"{plural(row['canary'], 'row')} first; further rows if all succeed"
        if row["canary"]
        else None
    )
    values = {
        "action": f"{row['verb']} {row['kind']}s" + (f" to {to}" if to else ""),
        "selection": _selection(row),
        "by": row["actor"],
        "why": row["reason"],
        "status": row["status"],
        "note": row["note"],
        "rate": rate,
        "canary": canary,
        "ordered": row["created_at"],
        "starts": row["starts_at"],
        "began": row["began_at"],
        "ended": row["ended_at"],
    }
    yield Fields(values, f"Action {row['id']}")
    yield f"{_bar(row['share'])}  {told_order(row)}"


def _add(name: str, told: str, operation: str) -> None:
    @app.command(name, help=told, epilog=examples(f"inboxd actions {name} 7"))
    def _run(id: _Number, given: Acting) -> None:
        from inboxd import operations
        from inboxd.operations import told_order

        do: Callable[..., Awaitable[dict[str, Any]]] = getattr(operations, operation)
        found = given.do(do, id)
        given.tell(found, f"Action {id}. {told_order(found)}")


_add(
    "pause",
    "Pause a bulk action until it is resumed; rows that were changed stay changed.",
    "pause_order",
)
_add("resume", "Resume a paused bulk action, even if its canary paused it.", "resume_order")
_add(
    "abort",
    "Abort a bulk action: rows that were changed stay changed, all other rows are left.",
    "abort_order",
)
