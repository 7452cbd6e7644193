"""Times that people write: relative, with a zone, and without one."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from inboxd.errors import UsageError
from inboxd.model.moments import read_back, read_since, read_until

EIGHT = datetime(2026, 1, 31, 8, tzinfo=UTC)


@pytest.fixture(autouse=True)
def far_from_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let this process run in New York, five hours behind UTC in January."""
    monkeypatch.setenv("TZ", "America/New_York")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.parametrize(
    ("text", "here", "in_utc"),
    [
        ("2026-01-31T08:00", EIGHT + timedelta(hours=5), EIGHT),
        ("2026-01-31 08:00:00", EIGHT + timedelta(hours=5), EIGHT),
        ("2026-01-31", datetime(2026, 1, 31, 5, tzinfo=UTC), datetime(2026, 1, 31, tzinfo=UTC)),
        ("2026-01-31T08:00Z", EIGHT, EIGHT),
        ("2026-01-31T09:00+01:00", EIGHT, EIGHT),
    ],
)
def test_given_zone_is_used_only_for_times_without_a_zone(
    text: str, here: datetime, in_utc: datetime
) -> None:
    for read in (read_since, read_until, read_back):
        assert read(text) == here
        assert read(text, UTC) == in_utc


@pytest.mark.parametrize("zone", [None, UTC])
def test_relative_times_are_counted_from_now(zone: tzinfo | None) -> None:
    before = datetime.now(UTC)
    since, until = read_since("2h", zone), read_until("2h", zone)
    after = datetime.now(UTC)
    assert before <= since + timedelta(hours=2) <= after
    assert before <= until - timedelta(hours=2) <= after
    assert before <= read_until("now", zone) <= datetime.now(UTC)
    assert read_back("2h", zone) == timedelta(hours=2)


@pytest.mark.parametrize("text", ["", "soon", "2", "2026-13-45", "0001-01-01T00:00:00+14:00"])
def test_other_texts_are_refused_with_a_remedy(text: str) -> None:
    for read in (read_since, read_until, read_back):
        with pytest.raises(UsageError, match="neither a duration such as 2h nor a time"):
            read(text, UTC)
