"""`inboxd erase`: what is known of a tenant or an entity is erased.

Promises: it shows what it would reach before it does it; without `--yes` it asks, and where there
is nobody to ask it refuses. Known limit: as `inboxd.operations.erase` has it.
"""

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli.exits import Exit
from inboxd.cli.options import Careful, actor
from inboxd.cli.output import Fields, print_json
from inboxd.errors import UnknownName, UsageError
from inboxd.model.wording import plural

if TYPE_CHECKING:
    from inboxd.operations.erase import About
    from inboxd.store.erase import Subject
    from inboxd.store.session import Session


@dataclass(frozen=True, kw_only=True)
class Erasing(Careful):
    """How an erasure is done."""

    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Do not ask; needed where nobody can be asked.")
    ] = False


def erase(
    tenant: Annotated[
        str | None, typer.Option(metavar="NAME", help="All rows of this tenant.")
    ] = None,
    entity_type: Annotated[
        str | None, typer.Option(metavar="TYPE", help="With --entity-id: all rows of that entity.")
    ] = None,
    entity_id: Annotated[str | None, typer.Option(metavar="ID", help="Its id.")] = None,
    *,
    unsettled: Annotated[
        bool,
        typer.Option(
            "--unsettled", help="Cancel what waits, and ask for the end of what runs, as well."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="End with 0 though no row is about it.")
    ] = False,
    given: Erasing,
) -> None:
    """Erase payloads, results, errors, keys and bodies of a tenant's or an entity's rows.

    Their skeletons stay: ids, types, times, statuses, lineage. There is no way back.
    """
    from inboxd.operations.erase import subject_of, survey

    subject = subject_of(tenant, entity_type, entity_id)
    if not (given.yes or given.dry_run or given.asks):
        raise UsageError("there is no way back from an erasure: give --yes, or --dry-run to look.")

    def show() -> bool:
        found = given.ask(lambda session: survey(session, subject, _tell))
        counts = _counts(found)
        fields = {name.replace("_", " "): n for name, n in counts.items()}
        given.print({"would_erase": counts}, [Fields(fields, "It would reach")])
        if not found.total:
            _tell_of_nothing(subject, force=force)
        return found.total > 0

    if not given.agreed(show, "Erase them now? There is no way back."):
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
        runs = "still runs" if left == 1 else "still run"
        typer.echo(f"{plural(left, 'row')} {runs} or came meanwhile: erase again soon", err=True)
        raise typer.Exit(Exit.PROBLEMS)


def _erase(subject: "Subject", given: Careful, *, unsettled: bool) -> "tuple[About, int]":
    from inboxd.operations import Terms
    from inboxd.operations.erase import erase as do

    terms = Terms(actor=actor(), reason=given.reason)

    async def run(session: "Session") -> "tuple[About, int]":
        return await do(session, subject, terms, unsettled=unsettled, on_step=_tell)

    return given.ask(run)


def _tell_of_nothing(subject: "Subject", *, force: bool) -> None:
    """What is meant to be erased and is not there: a slip of the pen must not look like success."""
    told = f"nothing matched: no row is about {subject}, and nothing was erased"
    if not force:
        raise UnknownName(f"{told}; --force takes that for success")
    typer.echo(told, err=True)


def _tell(share: float, found: int) -> None:
    """How far it is, for whoever watches."""
    if sys.stderr.isatty():
        typer.echo(f"\r{share:.0%} of history, {plural(found, 'row')}", nl=share >= 1, err=True)


def _counts(about: "About") -> dict[str, Any]:
    """As JSON values: rows by table and how they stand, and bodies."""
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
