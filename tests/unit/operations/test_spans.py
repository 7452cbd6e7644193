"""Spans: steps in UTC, at most as many as there is room for, despite changes of clocks."""

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.errors import UsageError
from inboxd.operations.spans import LONGEST, MOST_STEPS, span_of

NOW = datetime(2026, 11, 24, 17, 27, 51, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("back", "resolution", "steps"),
    [
        (timedelta(seconds=1), "minutes", 1),
        (timedelta(hours=1), "minutes", 61),
        (timedelta(hours=6), "minutes", 361),
        (timedelta(hours=6, seconds=1), "hours", 7),
        (7 * DAY, "hours", 169),
        (7 * DAY + timedelta(seconds=1), "days", 8),
        (LONGEST, "days", 3661),
    ],
)
def test_length_of_a_span_decides_its_resolution(
    back: timedelta, resolution: str, steps: int
) -> None:
    span = span_of(NOW, back)
    assert (span.resolution, len(span.begins)) == (resolution, steps)
    assert span == span_of(NOW, NOW - back)


@given(
    now=st.integers(1_500_000_000, 2_200_000_000).map(lambda at: datetime.fromtimestamp(at, UTC)),
    back=st.timedeltas(timedelta(microseconds=1), LONGEST),
    points=st.integers(8, MOST_STEPS),
)
def test_steps_are_contiguous_and_cover_the_span(
    now: datetime, back: timedelta, points: int
) -> None:
    span = span_of(now, back, points=points)
    assert span.since <= now - back < span.since + span.step
    assert all(after - before == span.step for before, after in pairwise(span.begins))
    assert span.begins[-1] < now <= span.end
    assert len(span.begins) <= max(points, 40)
    assert [span.place(at) for at in span.begins] == list(range(len(span.begins)))


def test_times_outside_belong_to_the_first_or_last_step() -> None:
    """A row may lie outside if the clock was set back, or if it was written during the read."""
    span = span_of(NOW, timedelta(hours=1))
    assert span.place(NOW + DAY) == 60
    assert span.place(NOW - DAY) == 0


@pytest.mark.parametrize(
    "change", [datetime(2026, 3, 29, tzinfo=UTC), datetime(2026, 10, 25, tzinfo=UTC)]
)
def test_changes_of_local_time_move_no_step(change: datetime) -> None:
    span = span_of(change + timedelta(hours=12), DAY)
    assert {after - before for before, after in pairwise(span.begins)} == {timedelta(hours=1)}
    assert {at.tzinfo for at in span.begins} == {UTC}
    local = (change + timedelta(hours=12)).astimezone(ZoneInfo("Europe/Berlin"))
    assert span_of(local, DAY).begins == span.begins


def test_steps_of_several_units_begin_at_fixed_times() -> None:
    week = span_of(NOW, 300 * DAY, points=60)
    assert (week.units, week.since.weekday()) == (7, 0)
    quarter = span_of(NOW, timedelta(hours=5), points=25)
    assert (quarter.units, quarter.since.minute % 15) == (15, 0)


def test_span_of_a_tenant_has_hours() -> None:
    assert span_of(NOW, timedelta(minutes=5), by_minute=False).resolution == "hours"


@pytest.mark.parametrize("since", [timedelta(0), NOW, NOW + DAY, LONGEST + DAY])
def test_future_or_too_long_span_is_refused(since: datetime | timedelta) -> None:
    with pytest.raises(UsageError, match="is not a valid beginning: give a time in the past"):
        span_of(NOW, since)
