"""A school in the middle of a day, as rows for the screens to show.

Example:
    await fill(database)

Owns rows, and one hour of statistics and samples, as workers would write them; no worker is
started. Promises the same rows each time, except for times, which follow the database's clock.
"""

import math
from datetime import timedelta
from pathlib import Path

from inboxd.model.durations import Durations
from inboxd.store import samples, statistics
from inboxd.store.samples import Sample
from inboxd.store.session import Session
from inboxd.telemetry.tally import Kind, Statistic, StatisticKey
from tests.support.databases import Database
from tests.support.rows import daemon_session
from tests.support.sampled import counted

# Kind, lane, type, rows a minute, seconds a row.
_DONE: tuple[tuple[Kind, str, str, int, float], ...] = (
    ("event", "default", "activity.published", 4, 0.012),
    ("event", "default", "activity.delivered", 4, 0.004),
    ("event", "default", "answer.given", 70, 0.003),
    ("event", "default", "institution.created", 1, 0.021),
    ("command", "email", "school.send_email", 120, 0.180),
    ("command", "grading", "school.grade_answer", 70, 0.024),
    ("command", "default", "school.tell_teacher", 3, 0.150),
    ("command", "default", "school.seed_users", 1, 1.900),
)
_MINUTES = 62


async def fill(database: Database) -> None:
    """Write the school into an empty inbox."""
    await database.execute(Path(__file__).with_name("school.sql").read_text())
    async with daemon_session(database) as session:
        await _write_statistics(session)
        await _write_samples(session)


async def _write_statistics(session: Session) -> None:
    written = [
        _statistic(*done, minute) for minute in range(_MINUTES) for done in _DONE if done[3] > 1
    ]
    failed = [
        Statistic(
            StatisticKey(
                -minute * 60.0, "command", "email", "school.send_email", outcome, "", None
            ),
            (minute * 7) % 5 + more,
            Durations(0.9, 0.6, [0, 0, 0, 0, 0, 0, 0, 0, 2]),
            Durations(0.1, 0.1, [2]),
        )
        for minute in (3, 9, 17, 24, 25, 26, 41)
        for outcome, more in (("failed", 1), ("retried", 4))
    ]
    await statistics.write(session, [*written, *failed], lambda: 0.0)


def _statistic(
    kind: Kind, lane: str, type_: str, often: int, seconds: float, minute: int
) -> Statistic:
    rows = max(1, round(often * (1 + 0.45 * math.sin(minute / 7 + len(type_)))))
    bucket = max(0, 10 + math.ceil(math.log2(seconds)))
    took = Durations(rows * seconds, seconds * 1.3, [0] * bucket + [rows])
    waited = Durations(rows * 0.2, 1.5, [0] * 7 + [rows])
    key = StatisticKey(-minute * 60.0, kind, lane, type_, "succeeded", "", "malta")
    return Statistic(key, rows, took, waited, took)


async def _write_samples(session: Session) -> None:
    """Write one sample for each minute; the newest one agrees with the rows."""
    counts = await counted(session)
    now = await session.connection.fetchval("select now()")
    totals = counts["totals"]
    for minute in range(_MINUTES, -1, -1):
        swing = 0 if minute == 0 else round(90 * math.sin(minute / 6) ** 2)
        earlier = {
            **totals,
            "events_written": totals["events_written"] - 79 * minute - swing,
            "commands_written": totals["commands_written"] - 194 * minute - swing,
            "events_waiting": totals["events_waiting"] + swing // 3,
            "commands_waiting": totals["commands_waiting"] + swing * 2,
        }
        lanes = [
            {**row, "rows": row["rows"] + (swing if row["state"] != "failed" else 0)}
            for row in counts["commands"]
        ]
        at = now - timedelta(minutes=minute)
        sample = Sample(at, 0.0, {**counts, "commands": lanes, "totals": earlier})
        async with session.transaction():
            await samples.write(session, sample, timedelta(0))
