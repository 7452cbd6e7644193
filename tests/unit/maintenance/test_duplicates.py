"""Duplicates are seen in the ordinary log, and a flood of them takes few lines."""

from typing import Any
from uuid import UUID

import pytest
import structlog

from inboxd.maintenance import duplicates
from inboxd.maintenance.duplicates import DuplicateLog
from inboxd.store.dedup import Repeat


class Clock:
    """The time as the log sees it; only the test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(duplicates, "monotonic", lambda: clock.now)
    return clock


def _repeats(count: int, source: str = "shop", *, conflict: bool = False) -> list[Repeat]:
    ids = UUID(int=1), UUID(int=2)
    return [Repeat("stock", source, str(n), "a.b", *ids, conflict, 0.0) for n in range(count)]


def _logged(log: DuplicateLog, repeats: list[Repeat]) -> list[dict[str, Any]]:
    """The lines of one run above level debug."""
    with structlog.testing.capture_logs() as logged:
        log.tell(repeats)
        log.end_minutes()
    return [dict(line) for line in logged if line["log_level"] != "debug"]


def test_few_duplicates_have_a_line_each(clock: Clock) -> None:
    log = DuplicateLog()
    lines = _logged(log, _repeats(2))
    assert [(line["log_level"], line["event"], line["key"]) for line in lines] == [
        ("info", "duplicate", "0"),
        ("info", "duplicate", "1"),
    ]
    assert lines[0]["event_id"] == str(UUID(int=1))
    assert lines[0]["first_event"] == str(UUID(int=2))
    clock.now += 61
    assert _logged(log, []) == [], "no duplicates were folded"


def test_the_rest_of_a_flood_is_one_line_a_minute(clock: Clock) -> None:
    log = DuplicateLog()
    assert len(_logged(log, _repeats(1_000))) == 10
    for _ in range(11):
        clock.now += 5
        assert _logged(log, _repeats(1_000)) == []
    clock.now += 5
    [line] = _logged(log, [])
    assert (line["log_level"], line["event"]) == ("info", "more duplicates")
    assert (line["topic"], line["source"], line["count"]) == ("stock", "shop", 12_000 - 10)
    assert len(_logged(log, _repeats(20))) == 10, "the next minute has its own lines"


def test_sources_and_contradictions_have_separate_lines(clock: Clock) -> None:
    log = DuplicateLog()
    mixed = [*_repeats(50), *_repeats(1, "bank"), *_repeats(30, conflict=True)]
    lines = _logged(log, mixed)
    assert [line["source"] for line in lines if line["log_level"] == "info"] == [
        *["shop"] * 10,
        "bank",
    ]
    assert sum(line["log_level"] == "warning" for line in lines) == 10
    clock.now += 60
    rest = {(line["event"], line["count"]) for line in _logged(log, [])}
    assert rest == {
        ("more duplicates", 40),
        ("more dedup keys that came again with other content", 20),
    }


@pytest.mark.usefixtures("clock")
def test_many_sources_take_few_lines_too() -> None:
    """Producers choose the sources: one duplicate from each of many sources is a flood, too."""
    log = DuplicateLog()
    flood = [each for n in range(5_000) for each in _repeats(1, f"source {n}")]
    assert len(_logged(log, flood)) == 100 + 10


def test_each_duplicate_has_its_line_at_level_debug(clock: Clock) -> None:
    with structlog.testing.capture_logs() as logged:
        DuplicateLog().tell(_repeats(25))
    assert [line["event"] for line in logged] == ["duplicate"] * 25
    assert clock.now == 1_000.0
