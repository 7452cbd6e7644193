"""`inboxd erase`: erases the contents of a tenant's or an entity's rows, or webhooks by a text."""

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
    from inboxd.features.erasure.matching import ErasedReceipts
    from inboxd.operations.erase import About
    from inboxd.store.erase import Subject
    from inboxd.store.session import Session


# The preview lists the ids of at most this number of receipts.
_LISTED = 10


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
    receipts_matching: Annotated[
        str | None,
        typer.Option(
            metavar="TEXT",
            help="Instead of rows: webhooks whose body contains this text; -: the first line of "
            "standard input.",
        ),
    ] = None,
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

    With --receipts-matching: erase body, headers and address of the webhooks, and the dead letters
    of bodies that could not be read. The command refuses while events of a webhook are held.
    """
    from inboxd.operations.erase import subject_of, survey

    if receipts_matching is not None:
        if unsettled or any(each is not None for each in (tenant, entity_type, entity_id)):
            raise UsageError(
                "--receipts-matching cannot be combined with tenant, entity or --unsettled: "
                "leave them out."
            )
        _erase_matching(receipts_matching, given, force=force)
        return
    subject = subject_of(tenant, entity_type, entity_id)
    _refuse_unasked(given)

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


def _refuse_unasked(given: Erasing) -> None:
    if not (given.yes or given.dry_run or given.asks):
        raise UsageError("an erasure cannot be undone: give --yes, or --dry-run for a preview.")


def _erase_matching(text: str, given: Erasing, *, force: bool) -> None:
    from inboxd.features.erasure.matching import erase_matching, matching, text_of
    from inboxd.operations import Terms

    wanted = text_of(sys.stdin.readline().rstrip("\r\n") if text == "-" else text)
    _refuse_unasked(given)
    terms = Terms(actor=actor(), reason=given.reason)

    def show() -> bool:
        found = given.ask(lambda session: matching(session, wanted))
        counts = {"receipts": len(found), "unread": sum(bool(each.broken) for each in found)}
        first = [str(each.id) for each in found[:_LISTED]]
        fields = {**counts, "first": ", ".join(first) or None}
        given.print({"would_erase": {**counts, "first": first}}, [Fields(fields, "Would erase")])
        if not found:
            _tell_of_no_receipt(force=force)
        return bool(found)

    if not given.confirmed(show, "Erase them now? This cannot be undone."):
        return
    erased = given.ask(lambda session: erase_matching(session, wanted, terms))
    _tell_of_receipts(erased, given)
    if not erased.receipts:
        _tell_of_no_receipt(force=force)
    if erased.left:
        kept = plural(erased.left, "receipt")
        reason = "events of each were replayed and have not ended"
        typer.echo(f"{kept} not erased: {reason}; erase again soon", err=True)
        raise typer.Exit(Exit.PROBLEMS)


def _tell_of_receipts(erased: "ErasedReceipts", given: Erasing) -> None:
    if given.json:
        counts = {"receipts": erased.receipts, "dead_letters": erased.dead_letters}
        print_json({"erased": counts, "left": erased.left})
    elif erased.receipts:
        dead = plural(erased.dead_letters, "dead letter")
        typer.echo(f"Erased: {plural(erased.receipts, 'receipt')}, {dead}")


def _tell_of_nothing(subject: "Subject", *, force: bool) -> None:
    """Fail if no row matched: a mistyped name must not look like a success."""
    _tell_of_no_match(f"no row belongs to {subject}", force=force)


def _tell_of_no_receipt(*, force: bool) -> None:
    _tell_of_no_match("no webhook's body contains this text", force=force)


def _tell_of_no_match(reason: str, *, force: bool) -> None:
    told = f"nothing was erased: {reason}"
    if not force:
        raise UnknownName(f"{told}; check the name, or exit with 0 by --force")
    typer.echo(told, err=True)


def _tell(share: float, found: int) -> None:
    if sys.stderr.isatty():
        typer.echo(f"\r{share:.0%} of history, {plural(found, 'row')}", nl=share >= 1, err=True)


def _counts(about: "About") -> dict[str, Any]:
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
