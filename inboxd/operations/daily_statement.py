"""The daily statement as it is shown, and what does not add up of it, accepted by an operator.

Promises that showing it reads what the leader made, and counts nothing. Known limit: it is as old
as `checked_at` says.
*See:* `inboxd.maintenance.daily_statement`, which makes it; `cli/statement.py`, which prints it.
"""

from datetime import date
from typing import Any

from inboxd.errors import NotFound, UsageError
from inboxd.model.daily_statement import FATES
from inboxd.store import daily_statement as store
from inboxd.store import operations as audit
from inboxd.store.connections import Row
from inboxd.store.session import Session

_SUMMED = ("received", "duplicates", *FATES, "difference")


def read_day(text: str) -> date:
    """A day as people write it. Raises UsageError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a day: write it as 2026-01-31") from None


async def statement(
    session: Session, day: date | None = None, source: str | None = None
) -> dict[str, Any]:
    """The statement of a day, None: the newest that has one; of a source, None: of all.

    `elsewhere`: what does not add up of other days, and nobody has accepted. Raises NotFound for a
    day that has none; where no day has one yet, `day` is None.
    """
    rows = await store.shown(session, day, source)
    if not rows and day is not None:
        raise NotFound(
            f"{day} has no statement: a day gets it an hour after it ended (UTC), if a worker of "
            "this release led by then; `inboxd statement` shows the newest"
        )
    shown = rows[0]["day"] if rows else None
    lines = [_line(row) for row in rows if row["source"] is not None]
    found = [dict(row) for row in await store.findings(session, shown, source)]
    for each in found:
        each["day"] = str(each["day"])
    told = None if shown is None else str(shown)
    return {
        "day": told,
        "closed_at": rows[0]["closed_at"] if rows else None,
        "checked_at": rows[0]["checked_at"] if rows else None,
        "total": {name: sum(line[name] for line in lines) for name in _SUMMED},
        "lines": lines,
        "findings": [each for each in found if each["day"] == told],
        "elsewhere": [each for each in found if each["day"] != told],
        "spools": [dict(row) for row in await store.spools(session)],
    }


def _line(row: Row) -> dict[str, Any]:
    sums = {name: row[name] for name in _SUMMED if name != "difference"}
    difference = row["received"] - row["duplicates"] - sum(row[name] for name in FATES)
    return {
        "source": row["source"],
        **sums,
        "difference": difference,
        "receipts": row["receipts"],
        "receipt_duplicates": row["receipt_duplicates"],
    }


async def accept_findings(
    session: Session,
    day: date,
    source: str | None = None,
    *,
    actor: str,
    reason: str | None = None,
) -> int:
    """Accept what does not add up of a day: it is shown still, and raises no alert any more.

    What is found beyond that is to be accepted anew. Raises NotFound where there is nothing.
    """
    async with session.connection.transaction():
        accepted = await store.accept(session, day, source, actor)
        if not accepted:
            raise NotFound(f"of {day} nothing is to be accepted; nothing was changed")
        target = f"statement {day}" + ("" if source is None else f" {source}")
        await audit.record(session, actor, "accept", target, reason, accepted)
    return accepted
