"""One breaker: when it opens, how long its breaks are, and how its probes end."""

import random
from typing import Any

import pytest

from inboxd.errors import UsageError
from inboxd.resilience.breaker import Breaker, WrittenBreaker
from inboxd.resilience.rules import BreakerRules, with_options


def breaker(**rules: Any) -> Breaker:
    usual = {"consecutive_failures": None, "jitter": 0.0, "first_break": "4s", "probes": 2}
    return Breaker("brevo", BreakerRules(**{**usual, **rules}), random.Random(1))


def call(one: Breaker, now: float, *, failed: bool = False, seconds: float = 0.1) -> bool:
    ticket = one.begin()
    assert ticket is not None
    return one.ended(
        ticket, now, failed=failed, seconds=seconds, reason="ConnectionError: no" * failed
    )


def test_failures_in_a_row_open_the_breaker_without_a_success_between() -> None:
    one = breaker(consecutive_failures=3, failure_ratio=None)
    for failed in (True, True, False, True, True):
        assert not call(one, 10.0, failed=failed)
    assert call(one, 10.0, failed=True)
    assert (one.state, one.passes, one.begin(), one.unwritten) == ("open", False, None, "open")
    assert one.reason == "ConnectionError: no"
    assert one.rest(11.0) == 3.0


def test_ratio_needs_the_minimum_of_calls_and_forgets() -> None:
    one = breaker(window="10s", minimum_calls=4, failure_ratio=0.5)
    assert not any(call(one, 10.0, failed=True) for _ in range(3))
    # These calls have left the window: half of the new ones must fail.
    assert not any(call(one, 30.0 + n / 10, failed=n in (1, 4, 7)) for n in range(9))
    assert not any(call(one, 31.0, failed=True) for _ in range(2))
    assert call(one, 31.0, failed=True)


def test_slow_calls_open_the_breaker() -> None:
    one = breaker(slow_call="1s", minimum_calls=4, slow_ratio=0.75)
    for seconds in (2.0, 0.1, 2.0):
        assert not call(one, 10.0, seconds=seconds)
    assert call(one, 10.0, seconds=2.0)
    assert (one.succeeded, one.failed, one.slow) == (1, 0, 3)
    assert one.reason == "slow calls"


def test_wait_that_the_target_asked_for_is_obeyed() -> None:
    one = breaker(consecutive_failures=1)
    ticket = one.begin()
    assert ticket is not None
    one.ended(ticket, 10.0, failed=True, after=90.0)
    assert one.rest(10.0) == 90.0


def test_breaks_grow_until_the_longest_and_begin_anew_after_a_close() -> None:
    one = breaker(consecutive_failures=1, longest_break="10s")
    now, rests = 0.0, []
    for version in range(1, 6):
        call(one, now, failed=True)
        rests.append(one.rest(now))
        one.written(version)
        now = one.until
        assert one.is_due(now)
        assert not one.is_due(now - 0.1)
        one.took_probe(version, now, 9.0)
    assert rests == [4.0, 8.0, 10.0, 10.0, 10.0]
    assert not call(one, now)
    assert call(one, now)
    assert (one.state, one.opens) == ("closed", 0)
    call(one, now, failed=True)
    assert one.rest(now) == 4.0


def test_jitter_only_adds() -> None:
    rules = BreakerRules(first_break="4s", jitter=0.5)
    drawn = [rules.break_time(0, random.Random(n)) for n in range(50)]
    assert 4.0 <= min(drawn) < max(drawn) <= 6.0


def test_call_counts_only_for_the_state_in_which_it_began() -> None:
    one = breaker(consecutive_failures=1)
    late = [one.begin() for _ in range(3)]
    assert late[0] is not None
    call(one, 10.0, failed=True)
    one.written(1)
    one.took_probe(2, 14.0, 9.0)
    for ticket in late:
        assert ticket is not None
        assert not one.ended(ticket, 14.0, failed=True)
        one.give_back(ticket)
    assert (one.is_probing, one.room) == (True, 2)


def test_fewer_probes_close_the_breaker_after_a_while() -> None:
    one = breaker(consecutive_failures=1)
    call(one, 10.0, failed=True)
    one.written(1)
    one.took_probe(2, 14.0, 9.0)
    call(one, 14.0)
    assert not one.tick(14.5)
    assert one.tick(15.1)
    assert (one.state, one.unwritten) == ("closed", "close")


def test_expired_probe_is_given_up() -> None:
    one = breaker(consecutive_failures=1)
    call(one, 10.0, failed=True)
    one.written(1)
    one.took_probe(2, 14.0, 9.0)
    assert one.begin() is not None
    assert one.tick(23.0)
    assert (one.passes, one.mine, one.state) == (False, False, "half_open")
    assert one.is_due(23.0)


def test_a_probe_of_another_worker_is_waited_for() -> None:
    one = breaker()
    one.learn(WrittenBreaker(state="half_open", opens=1, probed=5.0, version=3), 10.0)
    assert not one.passes
    assert not one.is_due(14.9)
    assert one.is_due(15.0)


@pytest.mark.parametrize("mode", ["closed", "metrics_only"])
def test_breaker_forced_to_pass_counts_and_never_opens(mode: Any) -> None:
    one = breaker(consecutive_failures=1)
    one.learn(WrittenBreaker(mode=mode, version=2), 1.0)
    assert not any(call(one, 1.0, failed=True) for _ in range(5))
    assert (one.passes, one.failed) == (True, 5)


def test_refused_change_is_replaced_by_the_stored_state() -> None:
    one = breaker(consecutive_failures=1)
    call(one, 1.0, failed=True)
    assert not one.learn(WrittenBreaker(), 1.0), "the change is not stored yet"
    # An operator forced and released it: the breaker opens again, in the new version.
    assert not one.learn(WrittenBreaker(version=4), 1.0)
    assert (one.state, one.unwritten, one.version) == ("open", "open", 4)
    assert one.learn(WrittenBreaker(mode="closed", version=5), 1.0)
    assert (one.passes, one.unwritten) == (True, None)


@pytest.mark.parametrize(
    "options",
    [
        {"probes": 0},
        {"minimum_calls": 1.5},
        {"failure_ratio": 0},
        {"failure_ratio": 1.1},
        {"jitter": -0.1},
        {"window": "0s"},
        {"first_break": "10m"},
        {"fallback": "two words"},
        {"probe": 1},
    ],
)
def test_invalid_rules_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        with_options(BreakerRules(), options)


def test_changed_rules_count_on_from_what_was_seen() -> None:
    one = breaker(consecutive_failures=None, minimum_calls=4, failure_ratio=0.5)
    assert not any(call(one, 10.0, failed=True) for _ in range(3))
    one.reload(BreakerRules(minimum_calls=4, consecutive_failures=None, first_break="8s"))
    assert call(one, 10.0, failed=True)
    one.reload(BreakerRules(first_break="1s", probes=3))
    assert one.rest(10.0) >= 8.0, "a current break keeps its length"
    one.written(1)
    one.took_probe(2, 30.0, 9.0)
    assert [one.begin() is not None for _ in range(3)] == [True] * 3
    one.reload(BreakerRules(probes=1))
    assert (one.room, one.passes) == (0, False)
