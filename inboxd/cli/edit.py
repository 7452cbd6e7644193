"""`inboxd commands edit`: changes the payload, time or priority of a waiting command."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli.groups import CommandGroup
from inboxd.cli.options import Id, Previewed, actor, examples
from inboxd.cli.output import show as shown
from inboxd.model.difference import difference
from inboxd.model.moments import read_until
from inboxd.model.row_id import read_row_id

if TYPE_CHECKING:
    from inboxd.operations import CommandEdit, EditedField, RowId

_NAMES = {"run_at": "run at", "priority": "priority", "payload": "payload"}


def add_to(app: CommandGroup) -> None:
    @app.command(
        epilog=examples(
            "inboxd commands edit 4711 --payload @mended.json --dry-run",
            "inboxd commands edit 4711 --at 2h --priority -5 --reason 'after the sale'",
        )
    )
    def edit(
        id: Id,
        payload: Annotated[
            str | None,
            typer.Option(
                metavar="JSON|-|@FILE",
                help="The new payload, allowed before the first attempt; -: standard input.",
            ),
        ] = None,
        at: Annotated[
            str | None,
            typer.Option(metavar="TIME", help="When it runs: now, 2h, or a time in ISO 8601."),
        ] = None,
        priority: Annotated[
            int | None,
            typer.Option(metavar="N", help="The new priority: smaller numbers run first."),
        ] = None,
        *,
        given: Previewed,
    ) -> None:
        """Change the payload, time or priority of a waiting command, and show the differences."""
        from inboxd.cli.payload import read_payload
        from inboxd.operations import CommandEdit

        wanted = CommandEdit(
            payload=None if payload is None else read_payload(payload),
            run_at=None if at is None else read_until(at),
            priority=priority,
        )
        _edit(read_row_id(id), wanted, given)


def _edit(id: "RowId", wanted: "CommandEdit", given: Previewed) -> None:
    from inboxd.operations import ExpectedRows, edit_command, editable, preview_edit

    expected = ExpectedRows()

    def look() -> bool:
        nonlocal expected
        if not given.dry_run:
            seen = given.ask(lambda session: editable(session, id)).seen
            expected = ExpectedRows(seen=seen)
        changes = given.ask(lambda session: preview_edit(session, id, wanted))
        given.print(
            _document(id, changes),
            ["\n".join(_lines(changes))] if changes else [],
            [_would(changes)],
        )
        return bool(changes)

    if not given.confirmed(look, "Change it?"):
        return
    done = given.ask(
        lambda session: edit_command(
            *(session, id, wanted), actor=actor(), reason=given.reason, expected=expected
        )
    )
    given.tell(_document(id, done), f"Edited: command {id}", *_lines(done))


def _would(changes: "Sequence[EditedField]") -> str:
    return "These fields would change." if changes else "Nothing would change."


def _document(id: "RowId", changes: "Sequence[EditedField]") -> dict[str, Any]:
    told = [{"field": c.field, "before": c.before, "after": c.after} for c in changes]
    return {"command": id, "changes": told}


def _lines(changes: "Sequence[EditedField]") -> Iterator[str]:
    for each in changes:
        name = _NAMES[each.field]
        if isinstance(each.before, str) and isinstance(each.after, str):
            yield f"  {name}:"
            yield from (f"  {sign} {line}" for sign, line in difference(each.before, each.after))
        elif each.before is None:
            yield f"  {name}: replaced; too large to show"
        else:
            yield f"  {name}: {shown(each.before)} -> {shown(each.after)}"
