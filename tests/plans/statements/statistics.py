# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of statistics: written by each worker, rolled up and purged by the leader, read by all."""

from datetime import UTC, datetime, timedelta

from inboxd.model.durations import Durations
from inboxd.store import purging, statistics
from inboxd.store.session import Session
from inboxd.store.statistics import FigureFilter, Resolution
from inboxd.telemetry.tally import Statistic, StatisticKey
from tests.plans.filling import Known
from tests.plans.statements.case import AGE, Case


def _purge(table: str) -> Case:
    return lambda c, k: purging.remove(c, table, AGE, 10)


OF_WORKERS: dict[str, tuple[Case, tuple[str, ...]]] = {
    f"purge_{table}": (_purge(table), (index,))
    for table, index in (
        ("stats_minutes", "stats_minutes_at"),
        ("stats_hours", "stats_hours_at"),
        ("stats_days", "stats_days_at"),
        ("stats_tenant_hours", "stats_tenant_hours_at"),
        ("stats_tenant_days", "stats_tenant_days_at"),
    )
}


async def _write_statistics(session: Session, _: Known) -> None:
    took = Durations(1.0, 1.0, [0, 1])
    key = StatisticKey(0.0, "event", "default", "t1", "succeeded", "", "1")
    await statistics.write(session, [Statistic(key, 1, took, took, took)] * 10)


OF_WORKERS |= {
    "write_statistics": (_write_statistics, ()),
    "hold_written, gather_rest, name_series, roll_up_*, remove_written": (
        lambda c, k: statistics.roll_up(c, 10),
        (
            "stats_written_minute",
            "stats_written_pkey",
            "stats_series_type_kind_lane_outcome_after_key",
        ),
    ),
    "take_over_stats": (lambda c, k: statistics.take_over(c, 10), ("stats_pkey",)),
    "admit_tenants, list_tenants": (
        lambda c, k: statistics.admit_tenants(c, ["1", "new"], 200),
        (),
    ),
    "lock_series, forget_series": (
        lambda c, k: purging.forget_series(c, 0, 10),
        ("stats_series_pkey",),
    ),
    "forget_tenants": (lambda c, k: purging.forget_tenants(c), ()),
}


def _read(resolution: Resolution, back: timedelta, of: FigureFilter) -> Case:
    """Read the statistics of a span that ends now."""

    async def case(session: Session, _: Known) -> None:
        since = datetime.now(UTC) - back
        await statistics.read(session, resolution, since, of=of)

    return case


def _executions(resolution: Resolution, back: timedelta) -> Case:
    """Count executions in a span that ends now, some types and lanes separately."""

    async def case(session: Session, _: Known) -> None:
        since = datetime.now(UTC) - back
        named = [("event", "t7"), ("command", "t8")]
        await statistics.executions(session, resolution, since, types=named, lanes=named)

    return case


def _back() -> timedelta:
    """Five minutes, or seven if five would begin with an hour: that span is read by hours only."""
    return timedelta(minutes=7 if datetime.now(UTC).minute in (4, 5) else 5)


OF_OPERATORS = {
    "executions_minutes": (
        _executions("minutes", timedelta(minutes=10)),
        ("stats_minutes_at", "stats_written_minute"),
    ),
    "executions_hours": (
        _executions("hours", timedelta(hours=10)),
        ("stats_hours_at", "stats_written_minute"),
    ),
    "executions_days": (
        _executions("days", timedelta(days=2)),
        ("stats_days_at", "stats_written_minute"),
    ),
    "read_minutes": (
        _read("minutes", timedelta(minutes=10), FigureFilter()),
        ("stats_minutes_at", "stats_written_minute"),
    ),
    "read_minutes of a type": (
        _read("minutes", timedelta(minutes=60), FigureFilter(type="t7")),
        ("stats_minutes_pkey", "stats_written_minute"),
    ),
    "read_hours": (
        _read("hours", timedelta(hours=10), FigureFilter(lane="default")),
        ("stats_hours_at", "stats_written_minute"),
    ),
    "read_hours of a type": (
        _read("hours", timedelta(hours=60), FigureFilter(type="t7")),
        ("stats_hours_pkey", "stats_written_minute"),
    ),
    "read_days": (
        _read("days", timedelta(days=2), FigureFilter(kind="event")),
        ("stats_days_at",),
    ),
    "read_days of a type": (
        _read("days", timedelta(days=2), FigureFilter(type="t7")),
        ("stats_days_pkey",),
    ),
    "read_tenant_hours": (
        _read("hours", timedelta(hours=3), FigureFilter(tenant="7")),
        ("stats_tenant_hours_pkey", "stats_written_minute"),
    ),
    "read_tenant_days": (
        _read("days", timedelta(days=2), FigureFilter(tenant="7")),
        ("stats_tenant_days_pkey",),
    ),
    "statistics.lately, database_time": (
        lambda c, k: statistics.lately(c, _back()),
        ("stats_minutes_at", "stats_hours_at"),
    ),
}
