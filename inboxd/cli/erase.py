"""`inboxd erase`: erases the contents of all rows of a tenant or an entity.

Promises: it counts the rows before it erases them; without `--yes` it asks, and refuses if there is
no terminal. Known limit: see `inboxd.operations.erase`.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli.exits import Exit
from inboxd.cli.options import Previewed, actor
from inboxd.cli.output import Fields, print_json
from inboxd.errors import UnknownName, UsageError
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations.erase import About
    from inboxd.store.erase import Subject
    from inboxd.store.session import Session


@dataclass(frozen=True, kw_only=True)
class Erasing(Previewed):
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; required without a terminal.")
    ] = False


def erase(
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="All rows of this tenant.")
    ] = None,
    entity_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="With --entity-id: all rows of that entity.")
    ] = None,
    entity_id: Annotated[str | None, typer.Option(metavar="ID", help="The entity's id.")] = None,
    *,
    unsettled: Annotated[
        bool,
        typer.Option(
            "--unsettled", help="Also cancel waiting commands, and ask running ones to stop."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Exit with 0 even if no row matches.")
    ] = False,
    given: Erasing,
) -> None:
    """Erase payloads, results, errors, keys and bodies of a tenant's or an entity's rows.

    The rows keep ids, types, times, statuses and lineage. Dead letters are dismissed. The command
    refuses while rows wait or run, unless --unsettled is given. An erasure cannot be undone.
    """
    from inboxd.operations.erase import subject_of, survey

    subject = subject_of(tenant, entity_type, entity_id)
    if not (given.yes or given.dry_run or given.asks):
        raise UsageError("an erasure cannot be undone: give --yes, or --dry-run for a preview.")

    def show() -> bool:
        found = given.ask(lambda session: survey(session, subject, _tell))
        counts = _counts(found)
        fields = {name.replace("_", " "): n for name, n in counts.items()}
        given.print({"would_erase": counts}, [Fields(fields, "Would erase")])
        if not found.total:
            _tell_of_nothing(subject, force=force)
        return found.total > 0

    if not given.confirmed(show, "Erase them now? This cannot be undone."):
        return
    about, left = _erase(subject, given, unsettled=unsettled)
    nothing = not (about.total or left)
    if given.json:
        print_json({"erased": _counts(about), "left": left})
    elif not nothing:
        rows = plural(about.total, "row")
        bodies = "1 body" if about.bodies == 1 else f"{about.bodies:,} bodies"
        typer.echo(f"Erased: {rows}, {bodies}")
    if nothing:
        _tell_of_nothing(subject, force=force)
    if left:
        runs = "is still running or was" if left == 1 else "are still running or were"
        typer.echo(f"{plural(left, 'row')} {runs} just written: erase again soon", err=True)
        raise typer.Exit(Exit.PROBLEMS)


def _erase(subject: "Subject", given: Previewed, *, unsettled: bool) -> "tuple[About, int]":
    from inboxd.operations import Terms
    from inboxd.operations.erase import erase as do

    terms = Terms(actor=actor(), reason=given.reason)

    async def run(session: "Session") -> "tuple[About, int]":
        return await do(session, subject, terms, unsettled=unsettled, on_step=_tell)

    return given.ask(run)


def _tell_of_nothing(subject: "Subject", *, force: bool) -> None:
    """Fail if no row matched: a mistyped name must not look like a success."""
    told = f"nothing was erased: no row belongs to {subject}"
    if not force:
        raise UnknownName(f"{told}; check the name, or exit with 0 by --force")
    typer.echo(told, err=True)


def _tell(share: float, found: int) -> None:
    """Print the progress at a terminal."""
    if sys.stderr.isatty():
        typer.echo(f"\r{share:.0%} of history, {plural(found, 'row')}", nl=share >= 1, err=True)


def _counts(about: "About") -> dict[str, Any]:
    """Return the counts as JSON values: rows by status and table, and bodies."""
    stands = {
        "settled": about.settled,
        "dead_letters": about.dead,
        "waiting": about.waiting,
        "running": about.running,
    }
    return {
        **{
            f"{name}_{table}": counter[table]
            for name, counter in stands.items()
            for table in ("events", "commands")
        },
        "held_events": about.waiting["held"] + about.settled["held"],
        "bodies": about.bodies,
    }
