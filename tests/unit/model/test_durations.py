"""Durations: buckets, sums, and the error of percentiles."""

import itertools
from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.model.durations import BOUNDS, BUCKETS, Durations

_SECONDS = st.floats(min_value=-1, max_value=10_000_000) | st.sampled_from([0.0, *BOUNDS])
_MANY = st.lists(_SECONDS, min_size=1, max_size=50)


def of(seconds: list[float]) -> Durations:
    found = Durations()
    if seconds:
        found.fold(sorted(seconds), max(0.0, sum(seconds)))
    return found


def test_bounds_double_from_a_millisecond_to_most_of_a_day() -> None:
    assert len(BOUNDS) == BUCKETS - 1
    assert (BOUNDS[0], BOUNDS[-1]) == (1 / 1024, 65536)
    assert {high / low for low, high in itertools.pairwise(BOUNDS)} == {2}


@given(_MANY)
def test_each_duration_is_in_its_bucket(seconds: list[float]) -> None:
    edges = [float("-inf"), *BOUNDS, float("inf")]
    expected = [
        sum(low <= each < high for each in seconds) for low, high in itertools.pairwise(edges)
    ]
    found = of(seconds)
    assert found.histogram + [0] * (BUCKETS - len(found.histogram)) == expected
    assert found.histogram[-1] > 0, "the last bucket of the list is filled"
    assert found.maximum == max(0.0, *seconds)


@given(_MANY, _MANY)
def test_sum_equals_counting_all_at_once(some: list[float], others: list[float]) -> None:
    added = of(some)
    added.add(of(others))
    added.add(Durations())
    whole = of(some + others)
    assert (added.histogram, added.maximum) == (whole.histogram, whole.maximum)
    assert added.total == pytest.approx(max(0.0, sum(some)) + max(0.0, sum(others)))


@given(_MANY, st.sampled_from([0.01, 0.5, 0.95, 0.99, 1.0]))
def test_a_percentile_is_at_most_twice_and_at_least_half_of_the_true_one(
    seconds: list[float], share: float
) -> None:
    true = sorted(seconds)[max(1, ceil(share * len(seconds))) - 1]
    told = of(seconds).percentile(share)
    assert told is not None
    assert told <= max(0.0, *seconds), "at most the longest duration"
    if true < BOUNDS[0]:
        assert 0 <= told <= BOUNDS[0]
    elif true < BOUNDS[-1]:
        assert true / 2 <= told <= true * 2
    else:
        assert told >= BOUNDS[-1]


def test_percentiles_of_a_usual_spread_are_close() -> None:
    """A thousand that are spread evenly over the logarithm, from 10 ms to 10 s."""
    seconds = [0.01 * 1000 ** (n / 999) for n in range(1000)]
    found = of(seconds)
    for share in (0.5, 0.95, 0.99):
        assert found.percentile(share) == pytest.approx(seconds[ceil(share * 1000) - 1], rel=0.05)


def test_empty_durations_have_no_percentile() -> None:
    assert Durations().percentile(0.5) is None
    assert repr(Durations()) == "Durations(0.0, 0.0, [])"
