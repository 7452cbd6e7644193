"""`inboxd erase`: what is known of a tenant or an entity is erased.

Promises: it shows what it would reach before it does it; without `--yes` it asks, and where there
is nobody to ask it refuses. Known limit: as `inboxd.operations.erase` has it.
"""

import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from inboxd.cli import rows
from inboxd.cli.exits import Exit
from inboxd.cli.options import Config, Json, Reason, ask, load_settings
from inboxd.cli.output import print_fields, print_json
from inboxd.errors import UnknownName, UsageError

if TYPE_CHECKING:
    from inboxd.operations.erase import About
    from inboxd.settings import Settings
    from inboxd.store.erase import Subject
    from inboxd.store.session import Session


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
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing: say what it would reach.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="End with 0 though no row is about it.")
    ] = False,
    reason: Reason = None,
    config: Config = None,
    json: Json = False,
) -> None:
    """Erase payloads, results, errors, keys and bodies of a tenant's or an entity's rows.

    Their skeletons stay: ids, types, times, statuses, lineage. There is no way back.
    """
    from inboxd.operations.erase import subject_of, survey

    subject = subject_of(tenant, entity_type, entity_id)
    settings = load_settings(config)
    asks = sys.stdin.isatty() and not (yes or json)
    if not (yes or dry_run or asks):
        raise UsageError("there is no way back from an erasure: give --yes, or --dry-run to look.")
    if dry_run or asks:
        found = ask(settings, lambda session: survey(session, subject, _tell))
        _show(found, json=json)
        if not found.total:
            _tell_of_nothing(subject, force=force)
        if dry_run or not found.total:
            return
        typer.confirm("Erase them now? There is no way back.", abort=True)
    about, left = _erase(settings, subject, reason, unsettled=unsettled)
    nothing = not (about.total or left)
    if json:
        print_json({"erased": _counts(about), "left": left})
    elif not nothing:
        typer.echo(f"Erased: {about.total:,} rows, {about.bodies:,} bodies")
    if nothing:
        _tell_of_nothing(subject, force=force)
    if left:
        typer.echo(f"{left:,} rows still run or came meanwhile: erase again soon", err=True)
        raise typer.Exit(Exit.PROBLEMS)


def _erase(
    settings: "Settings", subject: "Subject", reason: str | None, *, unsettled: bool
) -> "tuple[About, int]":
    from inboxd.operations import Terms
    from inboxd.operations.erase import erase as do

    terms = Terms(actor=rows.actor(), reason=reason)

    async def run(session: "Session") -> "tuple[About, int]":
        return await do(session, subject, terms, unsettled=unsettled, on_step=_tell)

    return ask(settings, run)


def _tell_of_nothing(subject: "Subject", *, force: bool) -> None:
    """What is meant to be erased and is not there: a slip of the pen must not look like success."""
    told = f"nothing matched: no row is about {subject}, and nothing was erased"
    if not force:
        raise UnknownName(f"{told}; --force takes that for success")
    typer.echo(told, err=True)


def _tell(share: float, found: int) -> None:
    """How far it is, for whoever watches."""
    if sys.stderr.isatty():
        typer.echo(f"\r{share:.0%} of history, {found:,} rows", nl=share >= 1, err=True)


def _show(found: "About", *, json: bool) -> None:
    counts = _counts(found)
    if json:
        print_json({"would_erase": counts})
        return
    print_fields("It would reach", {name.replace("_", " "): n for name, n in counts.items()})


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
            f"{name}_{place}": counter[place]
            for name, counter in stands.items()
            for place in ("events", "commands")
        },
        "bodies": about.bodies,
    }
