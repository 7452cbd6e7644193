"""Due times of schedules: daylight saving time, missed runs, refusals."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from inboxd.api.cron import MOST, Cron, Missed
from inboxd.errors import UsageError

BERLIN = ZoneInfo("Europe/Berlin")
NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


def times(cron: str, start: datetime, count: int) -> list[str]:
    found, one = [], Cron(cron, "Europe/Berlin")
    for _ in range(count):
        start = one.after(start)
        assert start.tzinfo is UTC
        found.append(f"{start.astimezone(BERLIN):%d %H:%M %z}")
    return found


def test_the_missing_hour_of_spring() -> None:
    """02:00 to 03:00 of 29 March 2026 does not exist: runs in it are sent right after it."""
    eve = datetime(2026, 3, 28, 12, tzinfo=BERLIN)
    assert times("30 2 * * *", eve, 2) == ["29 03:00 +0200", "30 02:30 +0200"]
    assert times("0 * * * *", datetime(2026, 3, 29, 0, 30, tzinfo=BERLIN), 3) == [
        *("29 01:00 +0100", "29 03:00 +0200", "29 04:00 +0200")
    ]


def test_the_repeated_hour_of_autumn() -> None:
    """02:00 to 03:00 of 25 October 2026 comes twice: daily runs once, hourly runs each time."""
    eve = datetime(2026, 10, 24, 12, tzinfo=BERLIN)
    assert times("30 2 * * *", eve, 2) == ["25 02:30 +0200", "26 02:30 +0100"]
    assert times("0 * * * *", datetime(2026, 10, 25, 1, 30, tzinfo=BERLIN), 3) == [
        *("25 02:00 +0200", "25 02:00 +0100", "25 03:00 +0100")
    ]


@pytest.mark.parametrize(
    "day", [datetime(2026, 3, 31, tzinfo=UTC), datetime(2026, 10, 27, tzinfo=UTC)]
)
@pytest.mark.parametrize("cron", ["30 2 * * *", "0 * * * *", "*/20 2 * * *"])
def test_made_up_runs_are_those_that_were_missed(cron: str, day: datetime) -> None:
    """Backwards over both changes of the clock, the times are those that go forwards."""
    since, one = day - timedelta(days=4), Cron(cron, "Europe/Berlin")
    forwards = []
    time = one.after(since - timedelta(seconds=1))
    while time <= day:
        forwards.append(time)
        time = one.after(time)
    assert one.due(since, day, "all").times == tuple(forwards)


@pytest.mark.parametrize(
    ("missed", "late", "expected"),
    [
        ("skip", "10s", ["12:00"]),
        ("once", "10s", ["12:00"]),
        ("all", "10s", ["12:00"]),
        ("skip", "2m", []),
        ("once", "2m", ["12:00"]),
        ("all", "2m", ["12:00"]),
        ("skip", "2h", []),
        ("once", "2h", ["14:00"]),
        ("all", "2h", ["12:00", "13:00", "14:00"]),
    ],
)
def test_missed_runs(missed: Missed, late: str, expected: list[str]) -> None:
    lateness = {"10s": timedelta(seconds=10), "2m": timedelta(minutes=2)}
    now = NOON + lateness.get(late, timedelta(hours=2, minutes=5))
    due = Cron("0 * * * *").due(NOON, now, missed)
    assert [f"{time:%H:%M}" for time in due.times] == expected
    assert not due.cut


def test_newest_run_is_sent_whatever_was_missed_before() -> None:
    now = NOON + timedelta(hours=2, seconds=3)
    assert Cron("0 * * * *").due(NOON, now, "skip").times == (NOON + timedelta(hours=2),)


@pytest.mark.parametrize("microsecond", [0, 1, 999_999])
def test_both_ends_of_the_span_are_due(microsecond: int) -> None:
    now = (NOON + timedelta(hours=1)).replace(microsecond=microsecond)
    assert Cron("0 * * * *").due(NOON, now, "all").times == (NOON, NOON + timedelta(hours=1))


def test_nothing_is_due_before_its_time() -> None:
    assert Cron("0 * * * *").due(NOON, NOON - timedelta(microseconds=1), "all").times == ()


def test_number_of_made_up_runs_is_bounded() -> None:
    """A schedule of every minute, after a year: the newest thousand runs, in order."""
    now = NOON + timedelta(days=365)
    due = Cron("* * * * *").due(NOON, now, "all")
    assert due.cut
    assert len(due.times) == MOST
    assert due.times[0] == now - timedelta(minutes=MOST - 1)
    assert due.times[-1] == now
    exact = Cron("* * * * *").due(now - timedelta(minutes=MOST - 1), now, "all")
    assert (len(exact.times), exact.cut) == (MOST, False)


@pytest.mark.parametrize(
    ("cron", "zone", "problem"),
    [
        ("61 * * * *", "UTC", "cron '61 .*Bad minute"),
        ("* * * *", "UTC", "five fields"),
        ("* * * * * *", "UTC", "five fields"),
        ("@daily", "UTC", "five fields"),
        ("", "UTC", "five fields"),
        ("0 0 30 2 *", "UTC", "day-of-month"),
        ("0 0 * * MON#6", "UTC", "cron '0 0"),
        ("* * * * *", "Europe/Atlantis", "zone 'Europe/Atlantis' is unknown.*tzdata"),
        ("* * * * *", "", "zone ''"),
        ("* * * * *", "localtime", "'localtime' is not the zone of a place"),
        ("* * * * *", "Factory", "not the zone of a place"),
        ("* * * * *", "posixrules", "not the zone of a place"),
        ("* * * * *", "right/UTC", "not the zone of a place"),
        ("* * * * *", "../etc/passwd", "zone"),
    ],
)
def test_wrong_expression_is_refused_by_name(cron: str, zone: str, problem: str) -> None:
    with pytest.raises(UsageError, match=problem):
        Cron(cron, zone)
