"""`inboxd statement`: the events received on a day, and their outcomes (docs/statement.md)."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from inboxd.cli import columns
from inboxd.cli.exits import Exit
from inboxd.cli.options import Acting, Looking
from inboxd.cli.output import Fields, Part, TableColumn, remark
from inboxd.errors import UsageError
from inboxd.model.wording import plural

_LINES: columns.Columns = (
    TableColumn("source", lambda row: row["source"] or "(none)", cut="left"),
    *columns.numbers("received", "duplicates", "succeeded", "dead", "dismissed", "cancelled"),
    *columns.numbers("erased", "open", "difference"),
    *columns.numbers("receipts", extra=True),
)
_FINDINGS: columns.Columns = (
    TableColumn("difference", "what"),
    TableColumn("source", lambda row: row["source"] or "(none)", cut="left"),
    *columns.numbers("rows"),
    TableColumn("detail", cut="right"),
    TableColumn("accepted by", "accepted_by", cut="right", extra=True),
)
_SPOOLS: columns.Columns = (
    TableColumn("in a spool", lambda row: ", ".join(row["spooled"]), cut="right"),
    *("host", "receiver"),
    TableColumn("trouble", lambda row: row["trouble"] or ("withheld" if row["broken"] else None)),
)


@dataclass(frozen=True, kw_only=True)
class _Given(Looking, Acting):
    """Options to show the statement, and to accept findings."""


def statement(
    *,
    day: Annotated[
        str | None,
        typer.Option(metavar="DAY", help="The day in UTC (2026-01-31). Default: the newest."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="TEXT", help="Only this source.")
    ] = None,
    accept: Annotated[
        bool,
        typer.Option("--accept", help="Accept the findings of --day: they raise no more alerts."),
    ] = False,
    given: _Given,
) -> None:
    """Show the events received on a day, their outcomes, and whether the numbers add up.

    The exit code is 1 if the day has a finding that is not accepted; without --day, also if another
    day has one.
    """
    from inboxd.operations import daily_statement

    wanted = None if day is None else daily_statement.read_day(day)
    if accept:
        if wanted is None:
            raise UsageError("--accept needs --day: it accepts the findings of one day")
        done = given.do(daily_statement.accept_findings, wanted, source)
        given.tell({"accepted": done, "day": str(wanted)}, f"Accepted: {plural(done, 'finding')}")
        return
    found = given.ask(lambda session: daily_statement.statement(session, wanted, source))
    given.print(found, list(_parts(found)))
    if found["day"] is None and not given.json:
        remark("No statement yet: the first one is made an hour after the end of a day (UTC).")
    elsewhere = found["elsewhere"] if wanted is None else []
    if elsewhere and not given.json:
        remark(
            f"Other days that do not add up: {', '.join({each['day']: 1 for each in elsewhere})}"
        )
    if elsewhere or any(each["accepted_at"] is None for each in found["findings"]):
        raise typer.Exit(Exit.PROBLEMS)


def _parts(found: dict[str, Any]) -> Iterator[Part]:
    if found["day"] is not None:
        total = found["total"]
        became = sum(total[name] for name in total if name not in ("received", "difference"))
        left = total["difference"]
        off = f"; {abs(left):,} {'missing' if left > 0 else 'too many'}" if left else ""
        yield Fields(
            {
                "day": f"{found['day']} (UTC)",
                "closed": found["closed_at"],
                "checked": found["checked_at"],
                "adds up": f"{total['received']:,} received, {became:,} found{off}",
            }
        )
    if found["lines"]:
        yield columns.table(_LINES, found["lines"])
    if found["findings"]:
        yield columns.table(_FINDINGS, found["findings"], "Findings: numbers that do not add up")
    if found["spools"]:
        yield columns.table(_SPOOLS, found["spools"], "Answered but not in the database yet")
