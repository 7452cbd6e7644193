"""Workers share one breaker and one table, in any order of calls, clocks, outages and operators."""

import random
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from inboxd.resilience.breaker import Breaker, Ticket, WrittenBreaker
from inboxd.resilience.rules import BreakerRules, Mode, State

RULES = BreakerRules(
    window="10s",
    minimum_calls=4,
    failure_ratio=0.5,
    consecutive_failures=3,
    slow_call="2s",
    first_break="4s",
    longest_break="20s",
    probes=2,
)
LEASE = 3.0
WORKERS = st.integers(0, 2)


@dataclass
class Row:
    """The only row of the table: `store/breakers.py` in short."""

    mode: Mode = "auto"
    state: State = "closed"
    opens: int = 0
    until: float = 0.0
    probe_by: int | None = None
    probe_until: float = 0.0
    version: int = 0
    # For the test: the length of the last stored break.
    opened_for: float = field(default=0.0)


class Workers(RuleBasedStateMachine):
    """Three workers; all read the same clock."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.row = Row()
        self.away = False
        self.workers = [Breaker("brevo", RULES, random.Random(seed)) for seed in range(3)]
        self.out: list[tuple[int, Ticket, bool]] = []

    # ---------------------------------------------------------------------------- the database

    def _sync(self, me: int) -> None:
        """One turn of a worker: write, read, probe."""
        breaker, row = self.workers[me], self.row
        breaker.tick(self.now)
        if self.away:
            return
        if breaker.unwritten is not None and breaker.version == row.version and row.mode == "auto":
            row.version += 1
            row.probe_by = None
            if breaker.unwritten == "open":
                row.state, row.opens = "open", breaker.opens
                row.until = breaker.until
                row.opened_for = breaker.until - self.now
            else:
                row.state, row.opens = "closed", 0
            breaker.written(row.version)
        probed = row.probe_until - self.now if row.probe_by is not None else 0.0
        breaker.learn(
            WrittenBreaker(
                row.mode,
                row.state,
                row.opens,
                max(0.0, row.until - self.now) if row.state != "closed" else 0.0,
                max(0.0, probed),
                row.probe_by == me,
                row.version,
            ),
            self.now,
        )
        free = row.probe_by is None or row.probe_until <= self.now
        if breaker.is_due(self.now) and row.until <= self.now and free:
            assert (row.state != "closed", row.mode) == (True, "auto")
            row.state, row.probe_by, row.probe_until = "half_open", me, self.now + LEASE
            row.version += 1
            breaker.took_probe(row.version, self.now, LEASE)

    # ------------------------------------------------------------------------------------ rules

    @rule(seconds=st.floats(0.1, 12))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        for each in self.workers:  # workers look twice a second, also without the database
            each.tick(self.now)

    @rule(me=WORKERS)
    def turn(self, me: int) -> None:
        self._sync(me)

    @rule(me=WORKERS)
    def target_is_down(self, me: int) -> None:
        """Calls fail one after the other until none may begin."""
        for _ in range(4):
            ticket = self.workers[me].begin()
            if ticket is not None:
                self.workers[me].ended(ticket, self.now, failed=True)
        breaker = self.workers[me]
        assert breaker.mode not in ("auto", "open") or not breaker.passes
        self._sync(me)

    @precondition(lambda self: self.row.state != "closed" and not self.away)
    @rule(me=WORKERS)
    def break_ends(self, me: int) -> None:
        """One worker looks at the moment when a probe is allowed."""
        self.time_passes(max(self.row.until, self.row.probe_until, self.now) - self.now + 0.1)
        self._sync(me)

    @rule(me=WORKERS)
    def call(self, me: int) -> None:
        breaker = self.workers[me]
        passes, probing = breaker.passes, breaker.is_probing
        ticket = breaker.begin()
        assert (ticket is not None) == passes
        if ticket is not None:
            self.out.append((me, ticket, probing))

    @precondition(lambda self: bool(self.out))
    @rule(index=st.integers(0, 50), failed=st.booleans(), seconds=st.sampled_from([0.1, 3.0]))
    def end(self, index: int, failed: bool, seconds: float) -> None:
        me, ticket, probe = self.out.pop(index % len(self.out))
        breaker = self.workers[me]
        before, opens, late = breaker.state, breaker.opens, ticket != breaker.generation
        changed = breaker.ended(ticket, self.now, failed=failed, seconds=seconds)
        if late:
            assert not changed, "a call counts only in its own state"
        elif probe and (failed or seconds > 2):
            assert (changed, breaker.state, breaker.opens) == (True, "open", opens + 1)
        elif changed and before == "closed":
            assert breaker.state == "open"
        if changed and breaker.state == "open":
            rest = breaker.until - self.now
            assert 4.0 <= rest + 1e-9 <= 20.0 * 1.2 + 1e-6

    @precondition(lambda self: bool(self.out))
    @rule(index=st.integers(0, 50))
    def reject(self, index: int) -> None:
        me, ticket, _ = self.out.pop(index % len(self.out))
        self.workers[me].give_back(ticket)

    @rule(me=WORKERS)
    def die(self, me: int) -> None:
        """A worker dies, and another one starts without knowledge and without the probe."""
        self.workers[me] = Breaker("brevo", RULES, random.Random(me))
        self.out = [each for each in self.out if each[0] != me]
        if self.row.probe_by == me:  # the id of a dead worker
            self.row.probe_by = -1

    @rule()
    def database_goes_or_comes(self) -> None:
        self.away = not self.away

    @rule(mode=st.sampled_from(["auto", "open", "closed", "metrics_only"]))
    def operator(self, mode: Mode) -> None:
        if mode == self.row.mode:
            return
        if mode == "auto":
            self.row.state = "open" if self.row.mode == "open" else "closed"
            self.row.until = self.now
            self.row.opens = 0
        self.row.mode, self.row.probe_by = mode, None
        self.row.version += 1

    # ------------------------------------------------------------------------------- invariants

    @invariant()
    def one_worker_probes(self) -> None:
        """At most one probes the current version; each prober's lease has time left."""
        probing = [each for each in self.workers if each.is_probing]
        current = [each for each in probing if each.version == self.row.version]
        assert len(current) <= 1
        for each in probing:
            assert each.probe_until > self.now

    @invariant()
    def probes_are_few(self) -> None:
        for each in self.workers:
            assert 0 <= each.room <= RULES.probes
            if each.is_probing:
                assert each.generation >= 0
                held = [
                    t for m, t, _ in self.out if self.workers[m] is each and t == each.generation
                ]
                assert len(held) <= RULES.probes

    @invariant()
    def open_lets_nothing_pass(self) -> None:
        for each in self.workers:
            if each.mode == "open" or (each.mode == "auto" and each.state == "open"):
                assert (each.passes, each.begin()) == (False, None)
            if each.mode in ("closed", "metrics_only"):
                assert each.passes

    @invariant()
    def current_worker_obeys_the_row(self) -> None:
        """A worker of the current version has the stored mode, and is open if the row is open."""
        for each in self.workers:
            if each.version == self.row.version and each.unwritten is None:
                assert each.mode == self.row.mode
                if self.row.state == "open":
                    assert each.state == "open"

    def teardown(self) -> None:
        """When all is well at last, the breaker closes and lets calls pass in every worker."""
        self.away = False
        self.operator("closed")
        self.operator("auto")
        for me in range(3):
            self._sync(me)
        for me, breaker in enumerate(self.workers):
            if breaker.unwritten == "open":  # it opened, and could not store it until now
                self._sync(me)
        for _ in range(40):
            self.now += 1.0
            for me, breaker in enumerate(self.workers):
                self._sync(me)
                if (ticket := breaker.begin()) is not None:
                    breaker.ended(ticket, self.now, failed=False)
        assert self.row.state == "closed"
        assert all(each.passes for each in self.workers)


TestWorkers = Workers.TestCase
TestWorkers.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
