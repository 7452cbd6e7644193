"""Replay, dismiss and cancel, the same for events and commands: rows by name, or all that match.

Promises: rows that are named are all changed or none; what matches a filter is shown before, with
`--dry-run` or by a question at a terminal; nothing at all is no filter: `--all` says it.
Known limit: an action on many rows that is interrupted has been done to those of its pages before.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import rows
from inboxd.cli.options import ask, load_settings, named_in, read_id, read_since
from inboxd.cli.output import print_json, print_table
from inboxd.errors import UsageError

if TYPE_CHECKING:
    from inboxd.operations import Action, ActionPreview, Done, RowId, Selection
    from inboxd.settings import Settings
    from inboxd.store.session import Session
    from inboxd.store.wakeups import Place

Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="ID", help="Row numbers or uuids; or else a filter.", show_default=False
    ),
]
ByError = Annotated[
    str | None,
    typer.Option("--error", metavar="TEXT", help="Only where the newest error contains this."),
]
ByGroup = Annotated[
    str | None,
    typer.Option(
        "--group",
        metavar="GROUP",
        help="Only this group of `inboxd failures list`, or the beginning of its name.",
    ),
]
ByBatch = Annotated[
    str | None, typer.Option("--batch", metavar="ID", help="Only what is in this batch.")
]
All = Annotated[bool, typer.Option("--all", help="All whose status allows it: no filter.")]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Change nothing: say how many match, and show a few.")
]
Rate = Annotated[float | None, typer.Option(metavar="N", help="At most so many rows a second.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask; without a terminal nobody is asked.")
]

_DONE = {"replay": "Replayed", "dismiss": "Dismissed", "cancel": "Cancelled"}


class Options:
    """What was given to an action besides ids and filter."""

    def __init__(
        self,
        reason: str | None,
        rate: float | None,
        config: Path | None,
        *,
        everything: bool,
        dry_run: bool,
        yes: bool,
        force: bool,
        json: bool,
    ) -> None:
        """Hold them."""
        self.reason, self.rate, self.config = reason, rate, config
        self.everything, self.dry_run, self.yes, self.json = everything, dry_run, yes, json
        self.force = force


def act(
    place: "Place", action: "Action", ids: Sequence[str] | None, given: Options, **filters: Any
) -> None:
    """Do it to the rows named, or to all that match; print what was done."""
    from inboxd.operations import Selection

    wanted = {name: value for name, value in filters.items() if value is not None}
    if "since" in wanted:
        wanted["since"] = read_since(wanted["since"])
    if "batch" in wanted:
        wanted["batch"] = read_id(wanted["batch"])
    if bool(ids) + bool(wanted) + given.everything != 1:
        raise UsageError(
            f"what is to be {_DONE[action].lower()}? Give ids, or a filter such as --type, "
            "or --all; one of these."
        )
    if not ids:
        _on_matching(place, action, Selection(**wanted), given)
    else:
        _on_named(place, action, [read_id(each) for each in ids], given)


def _on_named(place: "Place", action: "Action", ids: "list[RowId]", given: Options) -> None:
    from inboxd import operations

    settings = load_settings(given.config)
    if given.dry_run:
        found = ask(settings, lambda session: operations.preview(session, place, action, ids))
        _print_preview(place, action, found, json=given.json)
        return
    who = rows.actor()
    done = ask(
        settings,
        lambda session: operations.act(session, place, action, ids, actor=who, reason=given.reason),
    )
    if given.json:
        print_json(_as_json(action, done))
        return
    pairs = zip(done.ids, done.new_ids or done.ids, strict=True)
    texts = [str(old) if old == new else f"{old} as {new}" for old, new in pairs]
    for heading, changed in ((_DONE[action], texts), ("Running, asked to end", done.requested)):
        if changed:
            typer.echo(f"{heading}: {place.removesuffix('s')} {', '.join(map(str, changed))}")


def _as_json(action: "Action", done: "Done") -> dict[str, Any]:
    if action == "replay":
        pairs = zip(done.ids, done.new_ids, strict=True)
        return {"replayed": [{"old_id": old, "new_id": new} for old, new in pairs]}
    found = {_DONE[action].lower(): done.ids}
    return {**found, "requested": done.requested} if action == "cancel" else found


def _on_matching(place: "Place", action: "Action", wanted: "Selection", given: Options) -> None:
    settings = load_settings(given.config)
    if given.dry_run or (sys.stdin.isatty() and not (given.yes or given.json)):
        from inboxd.operations import preview

        async def look(session: "Session") -> "ActionPreview":
            found = await preview(session, place, action, wanted)
            await _check_names(session, settings, place, wanted, given, found.count)
            return found

        found = ask(settings, look)
        _print_preview(place, action, found, json=given.json)
        if given.dry_run or not found.count:
            return
        typer.confirm(f"{action.capitalize()} them now?", abort=True)

    async def run(session: "Session") -> int:
        count = await _in_pages(session, place, action, wanted, given)
        await _check_names(session, settings, place, wanted, given, count)
        return count

    count = ask(settings, run)
    if given.json:
        print_json({"action": action, "count": count})
    else:
        typer.echo(f"{_DONE[action]}: {count:,} {place}")


async def _check_names(
    session: "Session",
    settings: "Settings",
    place: "Place",
    wanted: "Selection",
    given: Options,
    count: int,
) -> None:
    """Raise UnknownName where nothing matched a name that nobody declared and no row has."""
    if count or given.force:
        return
    from inboxd import operations

    for kind, name in rows.names_of(place, wanted):
        await operations.check_known(session, kind, name, also=named_in(settings, kind))


async def _in_pages(
    session: "Session", place: "Place", action: "Action", wanted: "Selection", given: Options
) -> int:
    from inboxd import operations

    def tell(done: int) -> None:
        typer.echo(f"\r{done:,} {place}", nl=False, err=True)

    terms = operations.Terms(
        actor=rows.actor(),
        reason=given.reason,
        rate=given.rate,
        on_page=tell if sys.stderr.isatty() else None,
    )
    return await operations.act_on_all(session, place, action, wanted, terms)


def _print_preview(place: "Place", action: "Action", found: "ActionPreview", *, json: bool) -> None:
    if json:
        print_json({"action": action, "count": found.count, "sample": found.sample})
        return
    if found.sample:
        columns = ("id", "type", "lane", "status", "tenant", "created_at", "error")
        print_table(columns, ([row[name] for name in columns] for row in found.sample))
    what = place.removesuffix("s") if found.count == 1 else place
    typer.echo(f"{found.count:,} {what} would be {_DONE[action].lower()}.")
