"""The schedules table: what is sent, and the next time of each schedule.

Promises that each time is sent once over all workers, even if one dies: a sender locks the row, and
moves the next time in its transaction (`send_due`). Known limit: a schedule that no living worker
declares is not sent; its row stays for a week, and with it its pause and last run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta

from inboxd.api.cron import Cron
from inboxd.api.drafts import CommandDraft
from inboxd.api.schedules import Schedule, payload_at
from inboxd.model.lineage import Lineage, uuid7
from inboxd.store import commands
from inboxd.store.arrays import columns
from inboxd.store.connections import Row, is_passing
from inboxd.store.pools import Pool, transact
from inboxd.store.session import Session
from inboxd.store.settlements import Parent

# The fields that the statements take as they are, in their order, and those that never change.
_FIELDS = tuple(each.name for each in fields(Schedule) if each.name != "payload")
_FIXED = ("name", "source", "kind", "type")
# Bytes of a schedule's name for which `source` and `correlation_id` have room.
_NAME_BYTES = 234


@dataclass(frozen=True, slots=True)
class SentSchedule:
    """since: the oldest due time. cut: older ones were too many. error: why nothing was sent."""

    name: str
    since: datetime
    times: tuple[datetime, ...] = ()
    cut: bool = False
    error: Exception | None = None


async def declare(session: Session, schedules: Sequence[Schedule]) -> None:
    """Declare this worker's schedules; known ones keep their next time."""
    if not schedules:
        return
    now: datetime = await session.fetchval("clock")
    await session.execute(
        "declare_schedules",
        [Cron(s.cron, s.zone).after(now) for s in schedules],
        *columns(schedules, "payload", *_FIELDS),
    )


async def send_due(pool: Pool, declared: Sequence[str], but: Sequence[str]) -> SentSchedule | None:
    """None: no schedule is due. but: names that are excluded."""
    row: Row | None = None
    try:
        async with transact(pool) as session:
            row = await session.fetchrow("claim_schedule", declared, but)
            return None if row is None else await _send(session, row)
    except Exception as error:
        if row is None or is_passing(error):
            raise
        return SentSchedule(row["name"], row["next_at"], error=error)


async def _send(session: Session, row: Row) -> SentSchedule:
    cron, now = Cron(row["cron"], row["zone"]), row["now"]
    due = cron.due(row["next_at"], now, row["missed"])
    if due.times:
        await _insert(session, row, due.times)
    last = due.times[-1] if due.times else None
    await session.execute("advance_schedule", row["id"], cron.after(now), last)
    return SentSchedule(row["name"], row["next_at"], due.times, due.cut)


async def run_now(session: Session, row: Row, time: datetime) -> None:
    """Send a locked schedule outside of its times; `time` counts as its last run."""
    await _insert(session, row, [time])
    await session.execute("advance_schedule", row["id"], row["next_at"], time)


async def hold(session: Session, name: str) -> Row | None:
    """Lock a schedule until the transaction ends, and return it."""
    return await session.fetchrow("hold_schedule", name)


async def add(session: Session, schedule: Schedule) -> datetime | None:
    """Add a schedule; returns its first time, None if its name is taken."""
    next_at = await _first_time(session, schedule)
    given = (getattr(schedule, name) for name in ("payload", *_FIELDS))
    return None if await session.fetchval("add_schedule", next_at, *given) is None else next_at


async def change(session: Session, row: Row, to: Schedule) -> datetime:
    """Change a locked schedule; returns its next time, kept if cron and zone stay the same."""
    same = (row["cron"], row["zone"]) == (to.cron, to.zone)
    next_at: datetime = row["next_at"] if same else await _first_time(session, to)
    given = (getattr(to, name) for name in ("payload", *_FIELDS) if name not in _FIXED)
    await session.execute("change_schedule", row["id"], next_at, *given)
    return next_at


async def remove(session: Session, row: Row) -> None:
    await session.execute("remove_schedule", row["id"])


async def _first_time(session: Session, schedule: Schedule) -> datetime:
    return Cron(schedule.cron, schedule.zone).after(await session.fetchval("clock"))


async def _insert(session: Session, row: Row, times: Sequence[datetime]) -> None:
    payloads = [payload_at(row["payload"], row["time_field"], time) for time in times]
    name = row["name"].encode()[:_NAME_BYTES].decode(errors="ignore")
    stories = [f"{name}@{time.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}" for time in times]
    if row["kind"] == "event":
        source = f"schedule {name}"
        fixed = (row["lane"], row["type"], row["schema_version"], source, row["tenant"])
        await session.execute("emit_scheduled", *fixed, payloads, stories, times)
        return
    after: timedelta | None = row["expires_after"]
    drafts = [
        CommandDraft(
            uuid7(),
            row["type"],
            payload,
            row["schema_version"],
            row["lane"],
            row["priority"],
            expires_at=None if after is None else time + after,
            tenant=row["tenant"],
        )
        for time, payload in zip(times, payloads, strict=True)
    ]
    parents = [Parent("schedule", row["id"], Lineage(story)) for story in stories]
    await commands.insert(session, list(zip(drafts, parents, strict=True)))


async def mark_undeclared(session: Session) -> list[str]:
    """Mark schedules that no living worker declares; returns those that were marked now."""
    rows = await session.fetch("mark_schedules")
    return [row["name"] for row in rows if row["name"] is not None]


async def forget_undeclared(session: Session) -> list[str]:
    """Delete schedules that were undeclared for a week; returns their names."""
    return [row["name"] for row in await session.fetch("forget_schedules")]


async def exists(session: Session, name: str) -> bool:
    return bool(await session.fetchval("has_schedule", name))


async def last_runs(session: Session) -> dict[str, datetime]:
    rows = await session.fetch("list_schedules", None, None)
    return {row["name"]: row["last_at"] for row in rows if row["last_at"] is not None}


async def listed(
    session: Session, *, after: str | None = None, rows: int | None = None
) -> list[Row]:
    return await session.fetch("list_schedules", after, rows)
