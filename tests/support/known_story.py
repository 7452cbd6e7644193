"""A story with known times: an event and its descendants, as workers leave them.

    story = await write_known_story(database)
    assert story.at(2) == finished_at  # of the event

The rows are inserted as if they had been processed; no worker runs. Promises: each time is a whole
number of milliseconds after `since`; rows that have not ended stay so.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import orjson

from tests.support.databases import Database
from tests.support.rows import daemon_session, join

_HISTORY = """
    insert into inboxd.commands_history
           (id, command_id, queue, type, schema_version, payload, priority, status, attempts,
            crashes, fence, run_at, started_at, cancel_requested, origin_kind, origin_id,
            replay_of, batch_id, causation_id, correlation_id, errors, created_at, updated_at,
            finished_at, duration)
    values (nextval(pg_get_serial_sequence('inboxd.commands', 'id')), $1, 'default', $2, 1, '{}', 0,
            $3, $4, 0, 1, $5, $6, false, $7, $8, $9, $10, $11, $12, $13::text::jsonb, $14, $15, $15,
            $16) returning id
"""
_HOT = """
    insert into inboxd.commands
           (command_id, queue, type, status, attempts, run_at, started_at, origin_kind, origin_id,
            causation_id, correlation_id, errors, created_at, worker_id, fence)
    values ($1, 'default', $2, $3, $4, $5, $6, 'event', $7, $8, $9, $10::text::jsonb, $11, $12, 1)
 returning id
"""


@dataclass
class KnownStory:
    """The rows: id by name. since: when the event was written."""

    since: datetime
    event: int
    uuid: UUID
    rows: dict[str, int]

    def at(self, seconds: float) -> datetime:
        """The time this many seconds after the event."""
        return self.since + timedelta(seconds=seconds)


def failed_at(*moments: datetime) -> str:
    """The column `errors` of attempts that failed at these times."""
    found = [
        {"at": at.isoformat(), "attempt": n, "error": "TimeoutError: no answer"}
        for n, at in enumerate(moments, start=1)
    ]
    return orjson.dumps(found).decode()


async def write_known_story(
    database: Database, *, open_ended: bool = True, minutes: int = 1
) -> KnownStory:
    """Insert the story, its event this many minutes ago. open_ended: some rows have not ended."""
    since = datetime.now(UTC).replace(microsecond=0) - timedelta(minutes=minutes)
    uuid = uuid4()
    event = await database.fetchval(
        "insert into inboxd.events_history (id, event_id, topic, mode, type, schema_version,"
        " payload, status, attempts, crashes, run_at, occurred_at, created_at, updated_at,"
        " finished_at, duration) values"
        " (nextval(pg_get_serial_sequence('inboxd.events', 'id')), $1, 'default', 'single', $2, 1,"
        " '{}', 'succeeded', 1, 0, $3, $3, $3, $4, $4, $5) returning id",
        *(uuid, "school.published", since, since + timedelta(seconds=2)),
        timedelta(seconds=0.5),
    )
    story = KnownStory(since, event, uuid, {"event": event})
    batch_uuid = uuid4()
    story.rows["batch"] = await database.fetchval(
        "insert into inboxd.batches (batch_id, name, status, size, succeeded, origin_kind,"
        " origin_id, causation_id, correlation_id, created_at, closed_at, finished_at) values ($1,"
        " $2, 'succeeded', 2, 2, 'event', $3, $4, $5, $6, $6, $7) returning id",
        *(batch_uuid, "school mails", event, uuid, str(uuid), story.at(2), story.at(12)),
    )
    # Runs at once: due for 1 s, then runs for 3 s.
    await _settled(database, story, "quick", created=2, due=2, began=3, ended=6, batch=batch_uuid)
    # Two attempts failed; the third was due at 9 s, began at 10 s, and took 2 s.
    await _settled(
        *(database, story, "retried"), created=2, due=9, began=10, ended=12, batch=batch_uuid,
        failed=(4, 7),
    )  # fmt: skip
    # Scheduled for later: not due for 10 s, due for 5 s, then runs for 5 s.
    await _settled(database, story, "later", created=10, due=20, began=25, ended=30)
    dead = await _settled(
        *(database, story, "dead"), created=3, due=3, began=None, ended=20, failed=(8,)
    )
    await _settled(database, story, "again", created=20, due=20, began=21, ended=22, replay_of=dead)
    if open_ended:
        await _unsettled(database, story)
    return story


async def _settled(
    database: Database,
    story: KnownStory,
    name: str,
    *,
    created: float,
    due: float,
    began: float | None,
    ended: float,
    failed: tuple[float, ...] = (),
    batch: UUID | None = None,
    replay_of: int | None = None,
) -> int:
    id_: int = await database.fetchval(
        _HISTORY,
        *(uuid4(), f"school.{name}", "succeeded" if began is not None else "failed"),
        *(len(failed) + (began is not None), story.at(due)),
        story.at(began) if began is not None else None,
        *(("replay", replay_of) if replay_of else ("batch" if batch else "event", story.event)),
        *(replay_of, story.rows["batch"] if batch else None),
        batch or story.uuid,
        str(story.uuid),
        failed_at(*map(story.at, failed)) if failed else None,
        *(story.at(created), story.at(ended)),
        None if began is None else timedelta(seconds=ended - began),
    )
    story.rows[name] = id_
    return id_


async def _unsettled(database: Database, story: KnownStory) -> None:
    async with daemon_session(database) as session:
        worker = await join(session)
    rows: tuple[tuple[Any, ...], ...] = (
        ("running", "running", 0, 30, 40, None, worker),
        ("pending", "pending", 1, 35, None, (33,), None),
        ("dying", "failed", 1, 30, None, (45,), None),
    )
    for name, status, attempts, due, began, failed, held in rows:
        story.rows[name] = await database.fetchval(
            _HOT,
            *(uuid4(), f"school.{name}", status, attempts, story.at(due)),
            story.at(began) if began is not None else None,
            *(story.event, story.uuid, str(story.uuid)),
            failed_at(*map(story.at, failed)) if failed else None,
            *(story.at(30), held),
        )
