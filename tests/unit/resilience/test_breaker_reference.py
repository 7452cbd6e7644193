"""One breaker against a simple reference, in any order of events.

The reference keeps every call with its time, and counts all of them for each question.
"""

import random
from dataclasses import dataclass, field
from math import inf
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from inboxd.model import duration
from inboxd.resilience.breaker import ENOUGH, Breaker, Ticket, WrittenBreaker
from inboxd.resilience.rules import BreakerRules, Mode, State

MODES = st.sampled_from(["auto", "auto", "auto", "open", "closed", "metrics_only"])
STATES = st.sampled_from(["closed", "open", "half_open"])
RULES = st.builds(
    BreakerRules,
    window=st.sampled_from(["5s", "20s"]),
    minimum_calls=st.integers(1, 6),
    failure_ratio=st.sampled_from([None, 0.3, 1.0]),
    consecutive_failures=st.sampled_from([None, 1, 3]),
    slow_call=st.sampled_from([None, "2s"]),
    slow_ratio=st.sampled_from([0.5, 1.0]),
    first_break=st.sampled_from(["1s", "4s"]),
    longest_break=st.sampled_from(["4s", "20s"]),
    jitter=st.sampled_from([0.0, 0.5]),
    probes=st.integers(1, 3),
)


def seconds_of(value: Any) -> float:
    """The seconds of a rule; infinity without a value."""
    return inf if value is None else duration.seconds(value)


@dataclass
class Reference:
    """A breaker by its description in the documentation, slow and simple."""

    rules: BreakerRules
    mode: Mode = "auto"
    state: State = "closed"
    opens: int = 0
    mine: bool = False
    probe_until: float = -inf
    version: int = 0
    unwritten: str | None = None
    # Counts resets of the state: calls that began before a reset do not count.
    epoch: int = 0
    calls: list[tuple[int, bool, bool]] = field(default_factory=list)
    latest: int = 0
    failures: int = 0
    good: int = 0
    good_at: float = inf

    @property
    def probes_here(self) -> bool:
        return (self.mode, self.state, self.mine) == ("auto", "half_open", True)

    def lets_pass(self, out: int) -> bool:
        """Whether a call may begin; `out` is the number of unfinished probes."""
        if self.mode != "auto":
            return self.mode in ("closed", "metrics_only")
        if self.probes_here:
            return out + self.good < self.rules.probes
        return self.state == "closed"

    def anew(self) -> None:
        self.epoch += 1
        self.calls, self.failures, self.good, self.good_at = [], 0, 0, inf

    def opens_now(self) -> None:
        self.state, self.mine, self.unwritten = "open", False, "open"
        self.opens += 1
        self.probe_until = -inf
        self.anew()

    def closes_now(self) -> None:
        self.state, self.mine, self.opens, self.unwritten = "closed", False, 0, "close"
        self.probe_until = -inf
        self.anew()

    def counted(self, now: float, *, failed: bool, slow: bool) -> None:
        """Count the end of a call of this epoch."""
        if self.probes_here:
            if failed or slow:
                self.opens_now()
                return
            self.good, self.good_at = self.good + 1, now
            if self.good >= self.rules.probes:
                self.closes_now()
            return
        self.latest = max(self.latest, int(now // (seconds_of(self.rules.window) / 10)))
        self.calls.append((self.latest, failed, slow))
        self.failures = self.failures + 1 if failed else 0
        if (failed or slow) and self.is_too_much():
            self.opens_now()

    def is_too_much(self) -> bool:
        rules = self.rules
        row = rules.consecutive_failures
        if row is not None and self.failures >= row:
            return True
        recent = [call for call in self.calls if call[0] > self.latest - 10]
        failed = sum(call[1] for call in recent)
        slow = sum(call[2] for call in recent)
        if len(recent) < rules.minimum_calls:
            return False
        by_failures = rules.failure_ratio is not None and failed >= rules.failure_ratio * len(
            recent
        )
        by_slow = rules.slow_call is not None and slow >= rules.slow_ratio * len(recent)
        return by_failures or by_slow

    def learns(self, told: WrittenBreaker, now: float) -> None:
        """Adopt the stored state, unless this worker has a newer one."""
        if self.unwritten is not None:
            if told.version == self.version:
                return
            if self.unwritten == "open" and (told.mode, told.state) == ("auto", "closed"):
                self.version = told.version
                return
            self.unwritten = None
        if told.version == self.version and self.mine:
            return
        mine = self.mine and told.mine and told.state == "half_open"
        changes = (self.mode, self.state, self.mine) != (told.mode, told.state, mine)
        self.mode, self.state, self.mine, self.opens = told.mode, told.state, mine, told.opens
        self.version = told.version
        if not mine:
            self.probe_until = now + told.probed if told.probed > 0 else -inf
        if changes:
            self.anew()


class OneBreaker(RuleBasedStateMachine):
    """A breaker, its reference, and the unfinished calls, each with its epoch."""

    @initialize(rules=RULES)
    def start(self, rules: BreakerRules) -> None:
        self.now = 1000.0
        self.one = Breaker("brevo", rules, random.Random(1))
        self.should = Reference(rules)
        self.out: list[tuple[Ticket, int]] = []

    @property
    def probes_out(self) -> int:
        """The number of unfinished probes of this epoch."""
        if not self.should.probes_here:
            return 0
        return sum(epoch == self.should.epoch for _, epoch in self.out)

    # ------------------------------------------------------------------------------------ time

    @rule(seconds=st.sampled_from([0.0, 0.1, 0.4, 1.1, 3.0, 30.0, 4000.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds

    @rule()
    def looks(self) -> None:
        """Each worker looks twice a second."""
        should, over = self.should, False
        if should.probes_here:
            if self.now >= should.probe_until:
                should.mine, over = False, True
                should.anew()
            elif not self.probes_out and self.now - should.good_at >= ENOUGH:
                over = True
                should.closes_now()
        assert self.one.tick(self.now) == over

    # ----------------------------------------------------------------------------------- calls

    @rule(count=st.integers(1, 4))
    def calls_begin(self, count: int) -> None:
        for _ in range(count):
            passes = self.should.lets_pass(self.probes_out)
            ticket = self.one.begin()
            assert (ticket is not None) == passes
            if ticket is not None:
                self.out.append((ticket, self.should.epoch))

    @precondition(lambda self: self.out)
    @rule(
        index=st.integers(0, 20),
        failed=st.booleans(),
        took=st.sampled_from([0.1, 2.0, 2.5]),
        after=st.sampled_from([0.0, 0.0, 50.0]),
    )
    def a_call_ends(self, index: int, failed: bool, took: float, after: float) -> None:
        ticket, epoch = self.out.pop(index % len(self.out))
        should, before = self.should, self.seen()
        opens, longest = should.opens, seconds_of(should.rules.longest_break)
        counts = epoch == should.epoch and should.mode == "auto"
        if counts:
            slow = took > seconds_of(should.rules.slow_call)
            should.counted(self.now, failed=failed, slow=slow)
        changed = self.one.ended(ticket, self.now, failed=failed, seconds=took, after=after)
        assert changed == (counts and epoch != should.epoch)
        if not changed:
            assert self.seen() == before, "an uncounted call changes nothing"
        elif should.state == "open":
            least = max(min(seconds_of(should.rules.first_break) * 2**opens, longest), after)
            rest = self.one.rest(self.now)
            assert least - 1e-6 <= rest <= least * (1 + should.rules.jitter) + 1e-6

    @precondition(lambda self: self.out)
    @rule(index=st.integers(0, 20))
    def call_is_given_back(self, index: int) -> None:
        ticket, _ = self.out.pop(index % len(self.out))
        before = self.seen()
        self.one.give_back(ticket)
        assert self.seen() == before

    # ----------------------------------------------------------------------------------- table

    @precondition(lambda self: self.should.unwritten is not None)
    @rule()
    def change_is_stored(self) -> None:
        self.should.version += 1
        self.should.unwritten = None
        self.one.written(self.should.version)

    @precondition(lambda self: self.one.is_due(self.now))
    @rule(lease=st.sampled_from([0.5, 9.0]))
    def worker_takes_the_probe(self, lease: float) -> None:
        should = self.should
        assert (should.mode, should.unwritten, should.mine) == ("auto", None, False)
        assert should.state != "closed"
        assert self.now >= should.probe_until, "another worker has the probe"
        should.version += 1
        should.state, should.mine, should.probe_until = "half_open", True, self.now + lease
        should.anew()
        self.one.took_probe(should.version, self.now, lease)

    @precondition(lambda self: self.should.probes_here and self.probes_out)
    @rule()
    def worker_keeps_the_probe(self) -> None:
        self.should.probe_until = self.now + 9.0
        self.one.keep_probe(self.now, 9.0)

    @rule(
        newer=st.integers(0, 2),
        mode=MODES,
        state=STATES,
        opens=st.integers(1, 70),
        rest=st.sampled_from([0.0, 3.0, 300.0]),
        probed=st.sampled_from([0.0, 5.0]),
        mine=st.booleans(),
    )
    def worker_learns(
        self,
        newer: int,
        mode: Mode,
        state: State,
        opens: int,
        rest: float,
        probed: float,
        mine: bool,
    ) -> None:
        closed = state == "closed"
        told = WrittenBreaker(
            mode,
            state,
            0 if closed else opens,
            0.0 if closed else rest,
            probed if state == "half_open" else 0.0,
            mine,
            self.should.version + newer,
        )
        epoch = self.should.epoch
        self.should.learns(told, self.now)
        assert self.one.learn(told, self.now) == (epoch != self.should.epoch)

    @rule(rules=RULES)
    def rules_change(self, rules: BreakerRules) -> None:
        if rules.window != self.should.rules.window:
            self.should.calls, self.should.latest = [], 0
        self.should.rules = rules
        before = self.seen()
        self.one.reload(rules)
        assert self.seen() == before

    # ------------------------------------------------------------------------------- invariants

    def seen(self) -> tuple[object, ...]:
        """The state that others can see."""
        one = self.one
        return (one.mode, one.state, one.opens, one.mine, one.until, one.unwritten, one.version)

    @invariant()
    def breaker_and_reference_agree(self) -> None:
        one, should = self.one, self.should
        assert (one.mode, one.state, one.opens) == (should.mode, should.state, should.opens)
        assert (one.mine, one.unwritten) == (should.mine, should.unwritten)
        assert (one.version, one.is_probing) == (should.version, should.probes_here)
        assert one.passes == should.lets_pass(self.probes_out)

    @invariant()
    def open_breaker_lets_no_call_begin(self) -> None:
        one = self.one
        if one.mode == "open" or (one.mode == "auto" and one.state == "open"):
            assert (one.passes, one.begin(), one.room) == (False, None, 0)
        if one.mode == "auto" and one.state == "half_open" and not one.mine:
            assert one.begin() is None

    @invariant()
    def probes_are_few(self) -> None:
        assert 0 <= self.one.room <= self.one.rules.probes


TestOneBreaker = OneBreaker.TestCase
TestOneBreaker.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
