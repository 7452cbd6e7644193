"""Shows the leader's daily statement, and accepts its findings; it counts nothing itself."""

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
    """Read ISO 8601. Raises UsageError."""
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is not a valid day: write it as 2026-01-31") from None


async def statement(
    session: Session, day: date | None = None, source: str | None = None
) -> dict[str, Any]:
    """None: the newest day, and all sources. Raises NotFound for a day without a statement.

    `elsewhere`: open findings of other days. `day` is empty before the first statement.
    """
    rows = await store.shown(session, day, source)
    if not rows and day is not None:
        raise NotFound(
            f"{day} has no statement: it is made an hour after the end of the day (UTC), if a "
            "worker of this release leads then; `inboxd statement` shows the newest"
        )
    shown = rows[0]["day"] if rows else None
    lines = [_line(row) for row in rows if row["source"] is not None]
    found = [dict(row) for row in await store.findings(session, shown, source)]
    for each in found:
        each["day"] = str(each["day"])
    shown_day = None if shown is None else str(shown)
    return {
        "day": shown_day,
        "closed_at": rows[0]["closed_at"] if rows else None,
        "checked_at": rows[0]["checked_at"] if rows else None,
        "total": {name: sum(line[name] for line in lines) for name in _SUMMED},
        "lines": lines,
        "findings": [each for each in found if each["day"] == shown_day],
        "elsewhere": [each for each in found if each["day"] != shown_day],
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
    """Only later findings raise alerts again. Raises NotFound if there is nothing to accept."""
    async with session.transaction():
        accepted = await store.accept(session, day, source, actor)
        if not accepted:
            raise NotFound(f"{day} has no finding to accept; nothing was changed")
        target = f"statement {day}" + ("" if source is None else f" {source}")
        await audit.record(session, actor, "accept", target, reason, accepted)
    return accepted
