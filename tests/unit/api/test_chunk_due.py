"""When chunks are due, and which events belong to them."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from inboxd.api.chunk_due import Rule, rule_of
from inboxd.api.cron import Cron
from inboxd.api.topics import TopicDeclaration, checked

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)
BERLIN = ZoneInfo("Europe/Berlin")
MIDNIGHT = Cron("0 0 * * *", "Europe/Berlin")


def berlin(day: int, hour: int, minute: int = 0, *, month: int = 6, fold: int = 0) -> datetime:
    return datetime(2026, month, day, hour, minute, tzinfo=BERLIN, fold=fold)


def test_full_chunk_takes_no_more_events() -> None:
    assert Rule(full=3).takes([NOON] * 5) == 3
    assert Rule(full=3).takes([NOON] * 2) == 2
    assert Rule(age=timedelta(hours=1)).takes([NOON] * 5) == 5
    assert Rule(full=3).takes([]) == 0


def test_each_day_has_its_own_chunk() -> None:
    monday = [berlin(1, 22), berlin(1, 23, 59)]
    tuesday = [berlin(2, 0), berlin(2, 12)]
    rule = Rule(cron=MIDNIGHT)
    assert rule.takes([*monday, *tuesday]) == len(monday)
    assert rule.takes(tuesday) == len(tuesday)
    assert rule.opened_at(berlin(2, 0)) == berlin(1, 0)


def test_order_wins_over_the_clock_at_a_period_end() -> None:
    """The second event has the earlier time, and comes later in the order."""
    inverted = [berlin(1, 23), berlin(2, 0), berlin(1, 23, 59), berlin(2, 1)]
    rule = Rule(cron=MIDNIGHT)
    assert rule.takes(inverted) == 1
    assert rule.takes(inverted[1:]) == 3


@pytest.mark.parametrize(("month", "day", "hours"), [(3, 29, 23), (10, 25, 25)])
def test_event_counts_to_its_day_when_clocks_change(month: int, day: int, hours: int) -> None:
    """Each event counts to the day that its zone's calendar shows, however long that is."""
    start = berlin(day, 0, month=month).astimezone(UTC)
    written = [start + timedelta(minutes=30 * half) for half in range(-4, 2 * hours + 4)]
    rule, chunks = Rule(cron=MIDNIGHT), []
    while written:
        size = rule.takes(written)
        chunks.append((rule.closes_at(written[0]), size))
        written = written[size:]
    assert chunks == [
        (start, 4),
        (start + timedelta(hours=hours), 2 * hours),
        (start + timedelta(hours=hours + 24), 4),
    ]
    assert rule.opened_at(start + timedelta(hours=hours)) == start


@pytest.mark.parametrize("cron", ["30 2 * * *", "0 * * * *", "*/20 2 * * *"])
def test_a_chunk_always_closes_after_its_oldest_event(cron: str) -> None:
    """The same for events in the repeated hour, and just before the missing hour."""
    rule = Rule(cron=Cron(cron, "Europe/Berlin"))
    for start in (berlin(28, 23, month=3), berlin(24, 23, month=10)):
        first = start.astimezone(UTC)
        for minutes in range(0, 8 * 60, 10):
            written = first + timedelta(minutes=minutes)
            closes_at = rule.closes_at(written)
            assert closes_at is not None
            assert closes_at > written
            assert rule.takes([written]) == 1
            opened_at = rule.opened_at(written)
            assert opened_at is not None
            assert opened_at < written


def test_a_chunk_ends_where_an_older_period_begins() -> None:
    """A replayed event comes first; events up to a minute before the period still belong to it."""
    rule = Rule(cron=MIDNIGHT)
    today, days = NOON, timedelta(days=1)
    assert rule.takes([today, today, today - days, today]) == 2
    closes_at = rule.closes_at(today)
    assert closes_at is not None
    opened_at = rule.opened_at(closes_at)
    assert opened_at is not None
    assert rule.takes([opened_at, opened_at - timedelta(seconds=59), today]) == 3


def test_set_is_complete_with_each_expected_type() -> None:
    rule = Rule(expected=("order.paid", "order.packed"), age=timedelta(hours=1))
    assert rule.missing({"order.packed", "other"}) == ("order.paid",)
    assert rule.missing({"order.packed", "order.paid"}) == ()


def test_the_ends_of_periods_are_bounded() -> None:
    rule = Rule(cron=Cron("0 * * * *"))
    until = NOON + timedelta(hours=2, minutes=5)
    assert rule.ends(NOON, until, 10) == [NOON + timedelta(hours=n) for n in (1, 2, 3)]
    assert len(rule.ends(NOON, NOON + timedelta(days=9), 10)) == 10
    assert Rule(full=3).ends(NOON, until, 10) == []


def test_rule_follows_from_the_topic() -> None:
    def rule(**options: object) -> Rule:
        declared = TopicDeclaration("t", "test", {"mode": "batch", **options})
        return rule_of(checked(declared))

    assert rule(count=10, age="5m") == Rule(full=10, age=timedelta(minutes=5))
    assert rule(expect=3, age="5m") == Rule(full=3, age=timedelta(minutes=5), belongs=True)
    assert rule(expect=["a", "b"], age="5m") == Rule(
        age=timedelta(minutes=5), expected=("a", "b"), belongs=True
    )
    assert rule(cron="0 0 * * *", zone="Europe/Berlin") == Rule(cron=MIDNIGHT)
