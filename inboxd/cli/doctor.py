"""`inboxd doctor`: what is wrong with an inbox that runs, and what to do.

Promises: nothing is changed; a line that is not ok says what to do; the exit code tells a script
whether somebody must look. Known limit: colours are for terminals, `--json` is for programs.
"""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from inboxd.cli.exits import Exit
from inboxd.cli.options import Config, Json, ask, load_settings
from inboxd.cli.output import print_json, show

if TYPE_CHECKING:
    from inboxd.operations.doctor import Finding
    from inboxd.store.session import Session

_STYLES: dict[str, dict[str, Any]] = {
    "ok": {"fg": "green"},
    "notice": {"fg": "cyan"},
    "warning": {"fg": "yellow"},
    "critical": {"fg": "red", "bold": True},
}
_WIDTH = max(map(len, _STYLES))

Found = list[tuple[str, "Finding"]]


def doctor(
    fail_on: Annotated[
        Literal["warning", "critical"],
        typer.Option("--fail-on", help="From which verdict on the exit code is 1."),
    ] = "warning",
    config: Config = None,
    json: Json = False,
) -> None:
    """Look at a live inbox: schema, backlog, workers, tables, server; say what to do."""
    from inboxd.operations.doctor import Verdict, examine, worst

    settings = load_settings(config)

    async def look(session: "Session") -> Found:
        return [each async for each in examine(session, settings)]

    found = ask(settings, look)
    verdict = worst(*(finding.verdict for _, finding in found))
    if json:
        lines = [{"group": group, **asdict(finding)} for group, finding in found]
        print_json({"verdict": verdict, "findings": lines})
    else:
        _print(found)
        typer.echo(f"\nAll in all: {verdict}.")
    raise typer.Exit(Exit.PROBLEMS if verdict.rank >= Verdict(fail_on).rank else Exit.OK)


def _print(found: Found) -> None:
    """A line for each finding, under the heading of its group; below it what to do."""
    width = max((len(each.subject) for _, each in found), default=0)
    last = None
    for group, each in found:
        if group != last:
            typer.echo(("" if last is None else "\n") + typer.style(group, bold=True))
            last = group
        verdict = typer.style(f"{each.verdict:<{_WIDTH}}", **_STYLES[each.verdict])
        typer.echo(f"  {verdict}  {show(each.subject):<{width}}  {show(each.found)}")
        if each.remedy:
            typer.echo(f"  {'':<{_WIDTH}}  {'':<{width}}  -> {_brief(each.remedy)}")


def _brief(remedy: str) -> str:
    """Its first line; a function has many."""
    first, cut, _ = remedy.partition("\n")
    return show(first) + (" … (the whole statement: --json)" if cut else "")
