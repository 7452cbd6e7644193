"""A breaker in one worker: closed, open, half-open, or forced by an operator.

Promises that no call passes while it is open; that at most `probes` calls pass while it is
half-open, and only in the worker that has the probe; and that a call counts only for the state in
which it began. A change takes effect here at once, and is `unwritten` until the database has it;
without the database, this worker follows its own calls. Known limit: other workers learn of a
change only after its write.
"""

import random
from dataclasses import dataclass
from math import inf
from typing import Literal

from inboxd.model import duration
from inboxd.model.backoff import Rng
from inboxd.resilience.rules import BreakerRules, Mode, State
from inboxd.resilience.window import Window

# After this many seconds without further probes, fewer successes suffice.
ENOUGH = 1.0

# Identifies a call between `begin` and `ended`.
Ticket = int


@dataclass(frozen=True, slots=True)
class WrittenBreaker:
    """rest, probed: seconds from the reading. opens: breaks in a row. version 0: not stored yet."""

    mode: Mode = "auto"
    state: State = "closed"
    opens: int = 0
    rest: float = 0.0
    probed: float = 0.0
    mine: bool = False
    version: int = 0


class Breaker:
    """A breaker of one worker; callers pass the time, in seconds of a monotonic clock."""

    def __init__(self, name: str, rules: BreakerRules, rng: Rng = random) -> None:
        self.name = name
        self.mode: Mode = "auto"
        self.state: State = "closed"
        self.opens = 0
        self.version = 0
        # Grows with each change of state: calls that began before the change do not count.
        self.generation = 0
        # The change to be written, and its reason.
        self.unwritten: Literal["open", "close"] | None = None
        self.reason = ""
        # End of the break, and end of the right to probe, in any worker.
        self.until = self.probe_until = -inf
        self.mine = False
        # For the metrics: calls by outcome.
        self.succeeded = self.failed = self.slow = self.rejected = 0
        self._rng = rng
        self._in_a_row = 0
        # Of the current probe: calls in flight, successes, time of the last success.
        self._out = self._successes = 0
        self._last_success = inf
        self._window = Window(duration.seconds(rules.window))
        self.reload(rules)

    def reload(self, rules: BreakerRules) -> None:
        """Replace the rules; a break that has begun keeps its length."""
        self.rules = rules
        self._slow_call = inf if rules.slow_call is None else duration.seconds(rules.slow_call)
        seconds = duration.seconds(rules.window)
        if seconds != self._window.seconds:
            self._window = Window(seconds)

    # ------------------------------------------------------------------------------- questions

    @property
    def is_probing(self) -> bool:
        return self.mine and self.state == "half_open" and self.mode == "auto"

    @property
    def room(self) -> int:
        left = self.rules.probes - self._out - self._successes
        return max(0, left) if self.is_probing else 0

    @property
    def passes(self) -> bool:
        if self.mode != "auto":
            return self.mode != "open"
        return self.state == "closed" or self.room > 0

    @property
    def in_use(self) -> bool:
        return self._out > 0

    def is_due(self, now: float) -> bool:
        """Whether a worker should probe: the break is over, and no worker has the right."""
        over = now >= self.until and now >= self.probe_until and not self.mine
        stands = self.mode == "auto" and self.state != "closed"
        return stands and over and self.unwritten is None

    def rest(self, now: float) -> float:
        """Seconds until a call may begin, by this worker's knowledge."""
        return 0.0 if self.passes else max(0.0, self.until - now)

    # ----------------------------------------------------------------------------------- calls

    def begin(self) -> Ticket | None:
        """Begin a call, if allowed; the ticket is for `ended` or `give_back`."""
        if not self.passes:
            return None
        if self.is_probing:
            self._out += 1
        return self.generation

    def give_back(self, ticket: Ticket) -> None:
        """Cancel a call that was not made, or whose end says nothing about its target."""
        if ticket == self.generation and self.is_probing:
            self._out -= 1

    def ended(
        self,
        ticket: Ticket,
        now: float,
        *,
        failed: bool,
        seconds: float = 0.0,
        after: float = 0.0,
        reason: str = "",
    ) -> bool:
        """Returns whether the state changed. after: seconds for which the target asked to wait."""
        slow = seconds > self._slow_call
        if failed:
            self.failed += 1
        elif slow:
            self.slow += 1
        else:
            self.succeeded += 1
        if ticket != self.generation or self.mode != "auto":
            return False
        if self.is_probing:
            return self._probed(now, after, failed or slow, reason or "a slow call")
        self._window.add(now, failed=failed, slow=slow)
        self._in_a_row = self._in_a_row + 1 if failed else 0
        if (failed or slow) and self._is_too_much(now):
            self._open(now, after, reason or "slow calls")
            return True
        return False

    def tick(self, now: float) -> bool:
        """Expire the right to probe, or close after enough successes; returns whether it did."""
        if not self.is_probing:
            return False
        if now >= self.probe_until:
            self.mine = False
            self._change()
            return True
        if not self._out and now - self._last_success >= ENOUGH:
            self._close()
            return True
        return False

    def _probed(self, now: float, after: float, failed: bool, reason: str) -> bool:  # noqa: FBT001 - one caller
        self._out -= 1
        if failed:
            self._open(now, after, reason)
            return True
        self._successes += 1
        self._last_success = now
        if self._successes >= self.rules.probes:
            self._close()
            return True
        return False

    def _is_too_much(self, now: float) -> bool:
        rules, window = self.rules, self._window
        if rules.consecutive_failures is not None and self._in_a_row >= rules.consecutive_failures:
            return True
        window.forget_old(now)
        if window.calls < rules.minimum_calls:
            return False
        ratio = rules.failure_ratio
        if ratio is not None and window.failures >= ratio * window.calls:
            return True
        return self._slow_call < inf and window.slow >= rules.slow_ratio * window.calls

    def _open(self, now: float, after: float, reason: str) -> None:
        self.until = now + self.rules.break_time(self.opens, self._rng, after)
        self.opens += 1
        self.state, self.mine, self.unwritten = "open", False, "open"
        self.probe_until = -inf
        self.reason = reason
        self._change()

    def _close(self) -> None:
        self.state, self.mine, self.opens, self.unwritten = "closed", False, 0, "close"
        self.until = self.probe_until = -inf
        self._change()

    def _change(self) -> None:
        self.generation += 1
        self._out = self._successes = self._in_a_row = 0
        self._last_success = inf
        self._window.clear()

    # ------------------------------------------------------------------------ what is written

    def written(self, version: int) -> None:
        self.unwritten, self.version = None, version

    def took_probe(self, version: int, now: float, seconds: float) -> None:
        self.state, self.mine, self.version = "half_open", True, version
        self.probe_until = now + seconds
        self._change()

    def keep_probe(self, now: float, seconds: float) -> None:
        self.probe_until = now + seconds

    def learn(self, shared: WrittenBreaker, now: float) -> bool:
        """Returns whether it changed anything. An unwritten change stays until it is refused."""
        if self.unwritten is not None:
            if shared.version == self.version:
                return False
            if self.unwritten == "open" and (shared.mode, shared.state) == ("auto", "closed"):
                self.version = shared.version
                return False
            self.unwritten = None
        if shared.version == self.version and self.mine:
            return False  # this worker knows the end of its own probe best
        before = (self.mode, self.state, self.mine)
        self.mode, self.state, self.opens = shared.mode, shared.state, shared.opens
        # A right to probe that this process does not know of, since the answer was lost, expires.
        self.mine = self.mine and shared.mine and shared.state == "half_open"
        self.version = shared.version
        self.until = now + shared.rest if shared.rest > 0 else -inf
        if not self.mine:
            self.probe_until = now + shared.probed if shared.probed > 0 else -inf
        if (self.mode, self.state, self.mine) == before:
            return False
        self._change()
        return True
