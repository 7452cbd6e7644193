"""`inboxd doctor`: checks a running inbox, names remedies, and changes nothing."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from inboxd.cli import findings
from inboxd.cli.exits import Exit
from inboxd.cli.options import Asking
from inboxd.cli.output import print_json

if TYPE_CHECKING:
    from inboxd.operations.doctor import Finding
    from inboxd.store.session import Session

Found = list[tuple[str, "Finding"]]


def doctor(
    fail_on: Annotated[
        Literal["warning", "critical"],
        typer.Option("--fail-on", help="Exit with 1 from this verdict on."),
    ] = "warning",
    *,
    given: Asking,
) -> None:
    """Check a running inbox: schema, backlog, workers, tables, server; name remedies."""
    from inboxd.inbound.spool.checks import judge_spool
    from inboxd.operations.doctor import Verdict, document, examine

    async def look(session: "Session") -> Found:
        return [each async for each in examine(session, given.settings)]

    found = given.ask(look)
    found += [("webhooks", each) for each in judge_spool(given.settings)]
    told = document(found)
    verdict = told["verdict"]
    if given.json:
        print_json(told)
    else:
        findings.print_findings(
            findings.FindingLine(group, each.subject, each.verdict, each.found, each.remedy)
            for group, each in found
        )
        typer.echo(f"\nWorst verdict: {verdict}.")
    raise typer.Exit(Exit.PROBLEMS if verdict.rank >= Verdict(fail_on).rank else Exit.OK)
