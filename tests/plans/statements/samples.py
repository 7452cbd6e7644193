# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of samples: how the leader takes them, and how workers and operators read them."""

from datetime import UTC, datetime, timedelta

from inboxd.model.notices import Cause
from inboxd.store import notices, purging, samples
from inboxd.store.session import Session
from tests.plans.filling import Known
from tests.plans.statements.case import Case

_DAY = timedelta(days=1)


def _ago(**words: float) -> datetime:
    return datetime.now(UTC) - timedelta(**words)


async def _write_lanes(session: Session, _: Known) -> None:
    lanes = [["event"] * 50, ["topic"] * 50, [f"t{n + 30}" for n in range(50)], *[[1] * 50] * 3]
    await session.execute("write_sampled_lanes", datetime.now(UTC), *lanes)


_CAUSES = [Cause("dead letters", "event", "a.b"), Cause("open breaker", "", "brevo")]


SAMPLES: dict[str, tuple[Case, tuple[str, ...]]] = {
    "begin_sample": (lambda c, k: c.fetch("begin_sample", "60s"), ()),
    "newest_sample": (lambda c, k: samples.newest(c), ("newest_sample_pkey",)),
    "write_sample": (
        lambda c, k: c.fetch(
            *("write_sample", datetime.now(UTC), timedelta(0), "{}"),
            '{"events_written": 1, "commands_written": 1, "events_waiting": 0, "events_paused": 0,'
            ' "events_kept": 0, "events_failed": 0, "events_running": 0, "commands_waiting": 0,'
            ' "commands_paused": 0, "commands_failed": 0, "commands_running": 0, "suspects": 0,'
            ' "blocked_keys": 0, "blocked_lines": 0, "held_topics": 0, "held_receipts": 0,'
            ' "workers": 1}',
        ),
        ("samples_pkey",),
    ),
    "open_breakers": (lambda c, k: notices.open_breakers(c), ()),
    "begin_notices": (lambda c, k: notices.begin(c, _CAUSES), ("notices_open",)),
    "end_notices": (
        lambda c, k: notices.end(c, _CAUSES, timedelta(minutes=1)),
        ("notices_open",),
    ),
    "close_notices": (lambda c, k: notices.close(c, _CAUSES), ("notices_open",)),
    "forget_notices": (lambda c, k: notices.forget(c), ()),
    "write_sampled_lanes": (_write_lanes, ()),
    "thin_samples": (
        lambda c, k: purging.thin_samples(c, timedelta(hours=12), _ago(hours=18), 10),
        ("samples_pkey",),
    ),
    "purge_samples": (
        lambda c, k: purging.remove(c, "samples", _DAY, 10),
        ("samples_pkey",),
    ),
    "purge_sampled_lanes": (
        lambda c, k: purging.remove(c, "sampled_lanes", timedelta(hours=6), 10),
        ("sampled_lanes_pkey",),
    ),
}


CHARTS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "list_notices": (lambda s, k: notices.listed(s, only_open=True, limit=100), ()),
    "sample_series": (
        lambda s, k: samples.series(s, _ago(days=1), _ago(), 96),
        ("samples_pkey",),
    ),
    "lane_series": (
        lambda s, k: samples.lane_series(s, ("event", "topic", "t7"), _ago(days=1), _ago(), 96),
        ("sampled_lanes_pkey",),
    ),
    "lanes_series": (
        lambda s, k: samples.lanes_series(s, _ago(hours=1)),
        ("sampled_lanes_pkey",),
    ),
}
