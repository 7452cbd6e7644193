"""The log of an outage: one line at its begin, one each minute, one at its end."""

from typing import Any

import pytest
from structlog.testing import capture_logs

from inboxd.errors import DatabaseAway, DatabaseError
from inboxd.store.outage import Outage
from inboxd.telemetry.logs import get_logger

AWAY = DatabaseAway("cannot connect to postgresql://h/d: refused")
TASKS = ("heartbeat failed", "maintenance task failed", "processor starts again")
_log = get_logger("test")


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def outage(clock: Clock) -> Outage:
    return Outage(clock)


def _lines(outage: Outage, clock: Clock, seconds: int) -> list[Any]:
    """The log lines of an outage of `seconds`: every task fails twice a second."""
    with capture_logs() as lines:
        for _ in range(2 * seconds):
            for task in TASKS:
                outage.warn(_log.warning, task, AWAY, pause=0.5)
            clock.now += 0.5
        outage.over()
        outage.over()
    return lines


def test_short_outage_is_two_lines(outage: Outage, clock: Clock) -> None:
    begins, ends = _lines(outage, clock, 24)
    assert (begins["event"], begins["log_level"]) == ("the database is unreachable", "warning")
    assert "refused" in begins["reason"]
    assert (ends["event"], ends["log_level"]) == ("the database answers again", "info")
    assert (ends["seconds"], ends["held_up"]) == (24, sorted(TASKS))
    assert ends["lines_left_out"] == 24 * 2 * len(TASKS) - 1


def test_long_outage_is_one_more_line_a_minute(outage: Outage, clock: Clock) -> None:
    events = [line["event"] for line in _lines(outage, clock, 200)]
    assert events == [
        "the database is unreachable",
        *(["the database is still unreachable"] * 3),
        "the database answers again",
    ]
    assert len(_lines(outage, clock, 5)) == 2, "the next outage is logged anew"


def test_other_error_is_logged_each_time(outage: Outage) -> None:
    """A wrong password, a broken connection, a bug: none of them is an outage."""
    for error in (
        DatabaseError("the password is wrong"),
        ConnectionResetError("cut"),
        ValueError(),
    ):
        with capture_logs() as lines:
            for _ in range(3):
                outage.warn(_log.warning, "task failed", error, task="folds")
            outage.over()
        assert [(line["event"], line["task"]) for line in lines] == [("task failed", "folds")] * 3
