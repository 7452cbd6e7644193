"""Unhandled rows are let go after the whole grace, and not before."""

from datetime import timedelta
from typing import cast

import pytest

from inboxd.maintenance.context import MaintenanceContext
from inboxd.maintenance.unhandled import judgement
from inboxd.maintenance.unhandled.judgement import Judgement, dead_letter

MAIL, NEWS = ("default", "mail"), ("default", "news")


class Clock:
    """The time as the judgement sees it; only the test moves it."""

    def __init__(self) -> None:
        self.now = 1_000.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(judgement, "monotonic", lambda: clock.now)
    return clock


@pytest.fixture
def judge() -> Judgement:
    context = cast("MaintenanceContext", None)
    return Judgement(context, timedelta(seconds=30), lambda *_: True)


def test_each_key_has_a_grace_of_its_own(clock: Clock, judge: Judgement) -> None:
    assert judge.due([MAIL]) == []
    clock.now += 29
    assert judge.due([MAIL, NEWS]) == []
    clock.now += 1
    assert judge.due([MAIL, NEWS]) == [MAIL]
    clock.now += 29
    assert judge.due([MAIL, NEWS]) == [MAIL, NEWS]


def test_the_grace_starts_anew_for_a_key_that_was_handled_in_between(
    clock: Clock, judge: Judgement
) -> None:
    judge.due([MAIL])
    clock.now += 20
    judge.due([])
    clock.now += 20
    assert judge.due([MAIL]) == []
    clock.now += 30
    assert judge.due([MAIL]) == [MAIL]


def test_a_dead_letter_names_the_topic_unless_it_is_the_default() -> None:
    assert "no live worker handles command type 'mail': install" in dead_letter("command", "mail")
    assert "event type 'a.b' in topic 't': install" in dead_letter("event", "a.b", "t")
