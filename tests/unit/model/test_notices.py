"""Causes of notices in a sample, and the limits of a sample."""

from typing import Any

import pytest

from inboxd.model.notices import BEGAN, Cause, CauseFigures, NoticeRules, look, sentence

ALL = NoticeRules(
    topic="notices",
    dead_letters=True,
    blocked_keys=True,
    breakers=True,
    backlog_rows=100,
    backlog_age=60.0,
    most_keys=1_000,
)
NONE = ALL._replace(
    dead_letters=False, blocked_keys=False, breakers=False, backlog_rows=None, backlog_age=None
)


def lane(state: str, rows: int, oldest: float | None = None, **of: Any) -> dict[str, Any]:
    fixed = {"state": state, "rows": rows, "due": rows, "oldest": oldest}
    return {**fixed, "paused": False, "type": "a.b", **of}


def counts(**given: Any) -> dict[str, Any]:
    bounds: dict[str, Any] = {"counted_to": 100_000, "failed_counted_to": 10_000, "left_out": 0}
    empty: dict[str, list[Any]] = {
        name: [] for name in ("events", "commands", "lines", "blocked_keys", "blocked_lines")
    }
    return bounds | empty | given


SAMPLE = counts(
    events=[
        lane("failed", 3, topic="t"),
        lane("failed", 2, topic="other"),
        lane("failed", 9, topic="t", type=BEGAN),
        lane("failed", 9, topic="notices", type="x.y"),
        lane("pending", 500, 61.0, topic="t", due=100),
        lane("pending", 900, 900.0, topic="notices"),
        lane("pending", 900, 900.0, topic="held", paused=True),
        lane("pending", 900, None, topic="later", due=0),
        lane("kept", 900, 900.0, topic="kept"),
    ],
    commands=[
        lane("failed", 10_000, queue="q", type="c.d"),
        lane("running", 900, 900.0, queue="q"),
        lane("unmet", 900, None, queue="q", due=0),
        lane("pending", 5, None, queue="q"),
    ],
    lines=[{"topic": "lined", "arrived": 2_000, "lined_up": 1_000, "late": 75.0}],
    blocked_keys=[("q", "dead letter", 2, 30.0), ("q", "retry", 1_000, 90.0)],
    blocked_lines=[("t", "dead letter", 1, 4.0), ("notices", "dead letter", 1, 4.0)],
)


def test_causes_are_found_in_a_sample() -> None:
    assert look(ALL, SAMPLE, ["brevo"]).there == {
        Cause("dead letters", "event", "a.b"): CauseFigures(5),
        Cause("dead letters", "command", "c.d"): CauseFigures(10_000, at_least=True),
        Cause("blocked keys", "command", "q"): CauseFigures(1_002, 90.0, at_least=True),
        Cause("blocked keys", "event", "t"): CauseFigures(1, 4.0),
        Cause("open breaker", "", "brevo"): CauseFigures(),
        Cause("backlog", "event", "t"): CauseFigures(100, 61.0),
        Cause("late backlog", "event", "t"): CauseFigures(100, 61.0),
        Cause("late backlog", "event", "lined"): CauseFigures(0, 75.0),
    }


def test_only_watched_causes_are_found() -> None:
    assert look(NONE, SAMPLE, ["brevo"]).there == {}
    assert look(NONE._replace(backlog_rows=101), SAMPLE, []).there == {}
    assert look(NONE._replace(backlog_age=80), SAMPLE, []).there == {}


def test_uncounted_cause_is_not_gone() -> None:
    backlog, late = Cause("backlog", "command", "q"), Cause("late backlog", "command", "q")
    dead, breaker = Cause("dead letters", "event", "z"), Cause("open breaker", "", "z")
    near = counts(counted_to=10_000, commands=[lane("pending", 10_000, 1.0, queue="q")])
    rules = ALL._replace(backlog_rows=50_000)
    unsure = look(rules, near, []).unsure
    assert [*map(unsure, (backlog, late, dead, breaker))] == [True, False, False, False]
    unsure = look(rules, counts(left_out=1), []).unsure
    assert [*map(unsure, (backlog, late, dead, breaker))] == [True, True, True, False]
    unsure = look(NONE, near | {"left_out": 1}, []).unsure
    assert not any(map(unsure, (backlog, late, dead, breaker)))


@pytest.mark.parametrize(
    ("cause", "figures", "began", "gone"),
    [
        (
            Cause("dead letters", "event", "a.b"),
            CauseFigures(1),
            "Dead letters of event type a.b: 1 dead letter",
            "Dead letters of event type a.b: none left",
        ),
        (
            Cause("blocked keys", "command", "q"),
            CauseFigures(1_002, 90.0, at_least=True),
            "Blocked ordering keys in queue q: at least 1,002 keys, for 90 s",
            "Blocked ordering keys in queue q: none left",
        ),
        (
            Cause("open breaker", "", "x"),
            CauseFigures(),
            "Breaker x is open",
            "Breaker x lets calls pass again",
        ),
        (
            Cause("late backlog", "event", "t"),
            CauseFigures(100, 61.0),
            "Late backlog of topic t: 100 rows, for 61 s",
            "Late backlog of topic t: none left, or paused",
        ),
    ],
)
def test_each_cause_has_a_sentence(
    cause: Cause, figures: CauseFigures, began: str, gone: str
) -> None:
    assert sentence(cause, figures) == began
    assert sentence(cause, CauseFigures(), "gone") == gone
    assert sentence(cause, CauseFigures(), "unwatched").endswith(": no longer watched")
