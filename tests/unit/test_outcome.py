"""From an error to what follows, and to a failure that can always be stored."""

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.errors import Defer, HandlerTimeout, NoHandler, PayloadError, Reject, Retry
from inboxd.model.backoff import Exponential, Fixed
from inboxd.model.outcome import (
    Dead,
    Deferred,
    Outcome,
    Retrying,
    Site,
    decide,
    explain,
)

SOON = Fixed(base="5s", attempts=3, permanent=(ZeroDivisionError,))
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def decided(error: BaseException, made: int = 0, age: timedelta = timedelta(0)) -> Outcome:
    return decide(error, SOON, made, age, random)


def raised(error: BaseException) -> BaseException:
    with pytest.raises(type(error)) as caught:
        raise error
    return caught.value


@pytest.mark.parametrize(
    "error",
    [PayloadError("no"), Reject("spam"), NoHandler(), ZeroDivisionError()],
)
def test_what_cannot_get_better_is_dead_at_once(error: Exception) -> None:
    assert isinstance(decided(error), Dead)


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(3), KeyboardInterrupt(), GeneratorExit(), MemoryError()]
)
def test_any_error_is_retried_until_attempts_are_spent(error: BaseException) -> None:
    first, second, third = (decided(error, made) for made in range(3))
    assert isinstance(first, Retrying)
    assert first.delay == 5
    assert isinstance(second, Retrying)
    assert isinstance(third, Dead)


def test_retry_names_its_own_wait() -> None:
    for after in (90, 90.0, "90s", "1m30s", timedelta(seconds=90)):
        outcome = decided(Retry(after, "busy"))
        assert isinstance(outcome, Retrying)
        assert outcome.delay == 90
        assert outcome.failure.error == "Retry: busy"


def test_retry_without_a_wait_takes_the_policy_s() -> None:
    outcome = decided(Retry())
    assert isinstance(outcome, Retrying)
    assert outcome.delay == 5


def test_retry_spends_attempts_and_age() -> None:
    assert isinstance(decided(Retry("1s"), made=2), Dead)
    policy = Exponential(max_age="1h")
    assert isinstance(decide(Retry(), policy, 0, timedelta(hours=2)), Dead)


def test_defer_spends_nothing() -> None:
    assert decided(Defer(until=LATER), made=99) == Deferred(until=LATER)
    assert decided(Defer(after="1m"), made=99) == Deferred(delay=60)


@pytest.mark.parametrize("after", ["soon", "5", -1, float("nan"), float("inf"), 1e300])
def test_a_wait_that_is_none_is_the_handler_s_failure(after: Any) -> None:
    for signal in (Retry(after), Defer(after=after)):
        outcome = decided(signal)
        assert isinstance(outcome, Retrying)
        assert outcome.failure.kind == "UsageError"
        assert outcome.delay == 5


def test_a_task_group_s_single_error_counts_as_itself() -> None:
    assert isinstance(decided(ExceptionGroup("tasks", [ExceptionGroup("inner", [Reject()])])), Dead)
    several = decided(ExceptionGroup("tasks", [Reject(), ValueError()]))
    assert isinstance(several, Retrying)
    assert several.failure.kind == "ExceptionGroup"


class Hostile(Exception):
    """Its message cannot be made."""

    def __str__(self) -> str:
        raise RuntimeError


def test_a_hostile_error_costs_nobody_the_settlement() -> None:
    assert explain(raised(Hostile())).error == "Hostile: <RuntimeError while its message was made>"


@given(st.text(st.characters(codec=None)))
def test_a_failure_can_always_be_stored(text: str) -> None:
    failure = explain(raised(ValueError(text + "\0\ud800")))
    for stored in (failure.error, failure.traceback):
        assert "\0" not in stored
        stored.encode()


def test_a_failure_is_bounded_and_keeps_the_last_frames() -> None:
    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        raise ValueError("x" * 100_000)

    with pytest.raises(ValueError, match="x") as caught:
        deep(200)
    failure = explain(caught.value)
    assert len(failure.error) == 1_000
    assert len(failure.traceback) <= 4_000
    assert failure.kind == "ValueError"


def test_the_traceback_ends_where_it_was_raised() -> None:
    assert "in raised" in explain(raised(KeyError("x"))).traceback


def test_a_path_is_kept() -> None:
    assert explain(PayloadError("no", "a.0")).path == "a.0"
    assert explain(PayloadError("no", "k" * 5000)).path == "k" * 1000
    assert explain(ValueError()).path is None


def test_equal_failures_share_a_fingerprint() -> None:
    def one(text: str) -> BaseException:
        return raised(ValueError(text))

    def other() -> BaseException:
        with pytest.raises(ValueError, match=r"^$") as caught:
            raise ValueError
        return caught.value

    assert explain(one("a")).fingerprint == explain(one("b")).fingerprint
    assert explain(one("a")).fingerprint != explain(other()).fingerprint
    assert explain(one("a")).fingerprint != explain(raised(KeyError())).fingerprint


def test_payload_errors_are_grouped_by_field() -> None:
    same = {explain(PayloadError(text, "age")).fingerprint for text in ("a", "b")}
    assert len(same) == 1
    assert same != {explain(PayloadError("a", "name")).fingerprint}


def test_the_items_of_a_list_and_the_rows_of_a_type_are_one_group() -> None:
    email = Site("email.send")
    third = explain(PayloadError("no", "students.3.email"), email).fingerprint
    assert third == explain(PayloadError("no", "students.77.email"), email).fingerprint
    assert third != explain(PayloadError("no", "students.3.name"), email).fingerprint
    assert third != explain(PayloadError("no", "students.3.email"), Site("sms.send")).fingerprint


@pytest.mark.parametrize("error", [HandlerTimeout("ran longer than 3 s"), NoHandler("none")])
def test_failures_without_a_place_are_grouped_by_type(error: BaseException) -> None:
    other = type(error)("another message 4711")
    assert explain(error, Site("a")).fingerprint == explain(other, Site("a")).fingerprint
    assert explain(error, Site("a")).fingerprint != explain(error, Site("b")).fingerprint


def test_a_drivers_error_belongs_to_the_handler_that_met_it() -> None:
    """The innermost frame is the driver's for all of them; the handler's own tells them apart."""

    def driver(number: int) -> None:
        json.loads(f"{number} is no JSON")

    def first(number: int) -> BaseException:
        with pytest.raises(ValueError, match="Extra data") as caught:
            driver(number)
        return caught.value

    def second() -> BaseException:
        with pytest.raises(ValueError, match="Extra data") as caught:
            json.loads("1 2")
        return caught.value

    here = Site("a", __name__.partition(".")[0])
    assert explain(first(1), here).fingerprint == explain(first(2), here).fingerprint
    assert explain(first(1), here).fingerprint != explain(second(), here).fingerprint
    assert explain(first(1)).fingerprint == explain(second()).fingerprint, "the driver's frame"
