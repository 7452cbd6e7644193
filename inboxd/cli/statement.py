"""`inboxd statement`: what was received on a day, and what became of it, as it adds up.

*See:* `operations/daily_statement.py`; docs/statement.md says what each number is made of.
"""

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
    TableColumn("what it says", "detail", cut="right"),
    TableColumn("accepted by", "accepted_by", cut="right", extra=True),
)
_SPOOLS: columns.Columns = (
    TableColumn("in a spool", lambda row: ", ".join(row["spooled"]), cut="right"),
    *("host", "receiver"),
    TableColumn("trouble", lambda row: row["trouble"] or ("withheld" if row["broken"] else None)),
)


@dataclass(frozen=True, kw_only=True)
class _Given(Looking, Acting):
    """It shows, and may accept."""


def statement(
    *,
    day: Annotated[
        str | None,
        typer.Option(metavar="DAY", help="Of this day of UTC (2026-01-31); else the newest."),
    ] = None,
    source: Annotated[
        str | None, typer.Option("--source", metavar="TEXT", help="Only of this source.")
    ] = None,
    accept: Annotated[
        bool,
        typer.Option(
            "--accept", help="Accept what does not add up of --day: it raises no alert any more."
        ),
    ] = False,
    given: _Given,
) -> None:
    """Show what was received on a day, what became of it, and whether that adds up.

    The code is 1 if something does not, and nobody has accepted it; without --day, also if
    something of another day does not.
    """
    from inboxd.operations import daily_statement

    wanted = None if day is None else daily_statement.read_day(day)
    if accept:
        if wanted is None:
            raise UsageError("--accept needs --day: what was looked into is of a day")
        done = given.do(daily_statement.accept_findings, wanted, source)
        given.tell({"accepted": done, "day": str(wanted)}, f"Accepted: {plural(done, 'finding')}")
        return
    found = given.ask(lambda session: daily_statement.statement(session, wanted, source))
    given.print(found, list(_parts(found)))
    if found["day"] is None and not given.json:
        remark("No day has a statement yet: the first is made an hour after a day has ended (UTC).")
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
                "looked at": found["checked_at"],
                "adds up": f"{total['received']:,} received, {became:,} found{off}",
            }
        )
    if found["lines"]:
        yield columns.table(_LINES, found["lines"])
    if found["findings"]:
        yield columns.table(_FINDINGS, found["findings"], "What does not add up")
    if found["spools"]:
        yield columns.table(_SPOOLS, found["spools"], "Answered, and not in the database yet")
