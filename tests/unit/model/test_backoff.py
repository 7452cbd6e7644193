"""Policies: waits are finite and bounded, attempts are executions, settings override code."""

import math
import random
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.errors import UsageError
from inboxd.model.backoff import Explicit, Exponential, Fixed, Linear, Policy, override, policy_from

POLICIES: list[Policy] = [
    Exponential(),
    Exponential(base="1d", factor=1e300, cap="36525d", jitter="none"),
    Linear(base="1m", cap="1h"),
    Fixed(base="5s"),
    Explicit(delays=("1s", "5m")),
]


def waits(policy: Policy, count: int) -> list[float]:
    return [policy.delay(attempt, random) for attempt in range(1, count + 1)]


def test_default_policy_is_that_of_the_design() -> None:
    assert Exponential() == Exponential(base="2s", factor=2, cap="1h", attempts=15, jitter="full")


def test_each_kind_has_its_own_waits() -> None:
    assert waits(Exponential(base="2s", cap="20s", jitter="none"), 5) == [2, 4, 8, 16, 20]
    assert waits(Linear(base="2s", cap="5s", jitter="none"), 3) == [2, 4, 5]
    assert waits(Fixed(base="7s"), 3) == [7, 7, 7]
    assert waits(Explicit(delays=("1s", "1m")), 3) == [1, 60, 60]


@given(st.sampled_from(POLICIES), st.integers(1, 10**400), st.randoms(use_true_random=False))
def test_a_wait_is_finite_whatever_the_attempt(
    policy: Policy, attempt: int, rng: random.Random
) -> None:
    wait = policy.delay(attempt, rng)
    assert math.isfinite(wait)
    assert 0 <= wait <= timedelta(days=36_525).total_seconds()


@given(st.integers(1, 200), st.floats(1, 10), st.randoms(use_true_random=False))
def test_full_jitter_lies_below_the_wait_and_the_cap(
    attempt: int, factor: float, rng: random.Random
) -> None:
    steady = Exponential(factor=factor, jitter="none").delay(attempt, rng)
    assert 0 <= Exponential(factor=factor).delay(attempt, rng) <= steady <= 3600


@given(st.integers(1, 20), st.randoms(use_true_random=False))
def test_half_jitter_lies_above_half_of_the_wait(attempt: int, rng: random.Random) -> None:
    policy = Explicit(delays=("5s", "5m", "2h"), jitter="half")
    steady = Explicit(delays=("5s", "5m", "2h")).delay(attempt, rng)
    assert steady / 2 <= policy.delay(attempt, rng) <= steady


@given(st.integers(1, 100), st.floats(1, 10), st.randoms(use_true_random=False))
def test_waits_never_shrink(attempt: int, factor: float, rng: random.Random) -> None:
    policy = Exponential(factor=factor, jitter="none")
    assert policy.delay(attempt, rng) <= policy.delay(attempt + 1, rng)


@given(st.integers(1, 50))
def test_attempts_are_executions(attempts: int) -> None:
    """15 means exactly 15 (R0.41)."""
    policy = Exponential(attempts=attempts)
    ran = next(n for n in range(1, 100) if policy.is_exhausted(n, timedelta(0)))
    assert ran == attempts


def test_list_of_delays_sets_the_number_of_attempts() -> None:
    assert Explicit(delays=("1s", "2s")).attempts == 3
    assert Explicit(delays=("1s", "2s"), attempts=10).attempts == 10


def test_age_ends_retries_too() -> None:
    policy = Exponential(max_age="1h")
    assert not policy.is_exhausted(1, timedelta(minutes=59))
    assert policy.is_exhausted(1, timedelta(hours=1))


class Derived(ConnectionError):
    """An indirect subclass of OSError."""


@pytest.mark.parametrize(
    ("permanent", "error", "wanted"),
    [
        ((ValueError,), ValueError(), True),
        ((OSError,), Derived(), True),
        (("OSError",), Derived(), True),
        (("builtins.OSError",), Derived(), True),
        ((f"{Derived.__module__}.Derived",), Derived(), True),
        (("Derived",), Derived(), False),
        ((), ValueError(), False),
        ((KeyError,), ValueError(), False),
    ],
)
def test_permanent_errors_by_class_or_name(permanent: Any, error: Exception, wanted: bool) -> None:
    assert Exponential(permanent=permanent).is_permanent(error) is wanted


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Exponential(attempts=0),
        lambda: Fixed(attempts=100_000),
        lambda: Exponential(attempts=True),
        lambda: Exponential(attempts=1.5),  # type: ignore[arg-type]
        lambda: Exponential(factor=0.5),
        lambda: Exponential(factor=math.inf),
        lambda: Exponential(factor=math.nan),
        lambda: Exponential(base="2"),
        lambda: Exponential(base=2),  # type: ignore[arg-type]
        lambda: Exponential(jitter="some"),  # type: ignore[arg-type]
        lambda: Exponential(permanent="ValueError"),  # type: ignore[arg-type]
        lambda: Exponential(permanent=(3,)),  # type: ignore[arg-type]
        lambda: Explicit(delays=()),
        lambda: Explicit(delays="1s"),  # type: ignore[arg-type]
        lambda: Explicit(delays=("1s", "x")),
    ],
)
def test_wrong_values_are_refused(wrong: Any) -> None:
    with pytest.raises(UsageError):
        wrong()


def test_settings_make_a_policy() -> None:
    assert policy_from({}) == Exponential()
    assert policy_from({"kind": "linear", "base": "1s"}) == Linear(base="1s")
    assert policy_from({"kind": "explicit", "delays": ["1s"]}) == Explicit(delays=("1s",))
    assert policy_from({"permanent": ["smtplib.SMTPDataError"]}).permanent == (
        "smtplib.SMTPDataError",
    )


def test_override_keeps_other_fields() -> None:
    plugin = Exponential(base="5s", attempts=3, permanent=(ValueError,))
    assert override(plugin, {"attempts": 7}) == Exponential(
        base="5s", attempts=7, permanent=(ValueError,)
    )
    assert override(plugin, {}) == plugin


def test_override_with_another_kind_keeps_common_fields() -> None:
    plugin = Exponential(base="5s", max_age="1d", permanent=(ValueError,))
    assert override(plugin, {"kind": "fixed", "attempts": 4}) == Fixed(
        base="5s", max_age="1d", permanent=(ValueError,), attempts=4
    )


def test_new_delays_bring_their_own_attempts() -> None:
    assert override(Explicit(delays=("1s",)), {"delays": ["1s", "2s", "3s"]}).attempts == 4


@pytest.mark.parametrize(
    ("mapping", "message"),
    [
        ({"atempts": 3}, "has no 'atempts': did you mean 'attempts'"),
        ({"kind": "exponentially"}, "choose one of exponential, linear, fixed, explicit"),
        ({"kind": "fixed", "factor": 2}, "kind 'fixed' has no 'factor'"),
        ({"kind": "explicit"}, "delays"),
        ({"base": 2}, "is not a duration"),
        ({"attempts": "three"}, "1 to 32,767"),
    ],
)
def test_a_wrong_setting_names_its_remedy(mapping: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        policy_from(mapping)
