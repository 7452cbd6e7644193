"""When a breaker opens, for how long, and what is tried then: the values of `[breakers.NAME]`.

Promises that rules which exist are valid.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from inboxd.errors import UsageError
from inboxd.model import checks, duration
from inboxd.model.backoff import Rng
from inboxd.model.duration import Duration

# What an operator makes of a breaker; "auto": what the calls make of it.
Mode = Literal["auto", "open", "closed", "metrics_only"]
MODES: tuple[Mode, ...] = get_args(Mode)
# As it is written down. "half_open": a worker probes.
State = Literal["closed", "open", "half_open"]
# What becomes of a command whose breaker is open, unless another type is named.
WAIT = "wait"


class BreakerOptions(TypedDict, total=False):
    """What `Handlers.breaker` takes; the rest as `BreakerRules`."""

    window: Duration
    minimum_calls: int
    failure_ratio: float | None
    consecutive_failures: int | None
    slow_call: Duration | None
    slow_ratio: float
    first_break: Duration
    longest_break: Duration
    jitter: float
    probes: int
    fallback: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BreakerRules:
    """When a breaker opens: by the ratio of failures, or by failures in a row, or by slow calls.

    window: how far back calls count; minimum_calls: below that many no ratio is judged. slow_call:
    a call that takes longer is slow; slow_ratio of them open the breaker. A break lasts
    first_break, and twice as long each time that probes fail, up to longest_break; jitter: by how
    much of itself it may be longer. probes: how many calls are tried after it. fallback: the type
    of the command that is sent instead, or "wait".
    """

    window: Duration = timedelta(seconds=30)
    minimum_calls: int = 20
    failure_ratio: float | None = 0.5
    consecutive_failures: int | None = 10
    slow_call: Duration | None = None
    slow_ratio: float = 0.8
    first_break: Duration = timedelta(seconds=5)
    longest_break: Duration = timedelta(minutes=5)
    jitter: float = 0.2
    probes: int = 3
    fallback: str = WAIT

    def __post_init__(self) -> None:
        for name in ("window", "slow_call", "first_break", "longest_break"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, duration.parse(value))
        self._check_counts()
        self._check_parts()
        if not duration.seconds(self.window) or not duration.seconds(self.first_break):
            raise UsageError("window and first_break must be longer than 0s.")
        if duration.seconds(self.longest_break) < duration.seconds(self.first_break):
            raise UsageError("longest_break is shorter than first_break: raise it.")
        if self.fallback != WAIT:
            checks.refuse(f"the fallback {self.fallback!r:.60}", checks.plain(self.fallback))

    def _check_counts(self) -> None:
        for name in ("minimum_calls", "consecutive_failures", "probes"):
            value = getattr(self, name)
            if value is None and name == "consecutive_failures":
                continue
            if not isinstance(value, int) or isinstance(value, bool) or value < 1:
                raise UsageError(f"{name} is {value!r}: give a whole number of 1 or more.")

    def _check_parts(self) -> None:
        for name in ("failure_ratio", "slow_ratio", "jitter"):
            value = getattr(self, name)
            if value is None and name == "failure_ratio":
                continue
            least = value >= 0 if name == "jitter" else value > 0
            if not (least and value <= 1):
                raise UsageError(f"{name} is {value!r}: give a part, above 0 and up to 1.")

    def break_time(self, opens: int, rng: Rng, at_least: float = 0.0) -> float:
        """Seconds that a break lasts when `opens` breaks went before it; the jitter only adds."""
        longest = duration.seconds(self.longest_break)
        usual = min(duration.seconds(self.first_break) * 2.0 ** min(opens, 60), longest)
        return max(usual, at_least) * (1 + rng.uniform(0.0, self.jitter))


_NAMES = frozenset(each.name for each in fields(BreakerRules))


def with_options(rules: BreakerRules, options: Mapping[str, Any]) -> BreakerRules:
    """The same rules with these changes. Raises UsageError for what is none."""
    unknown = options.keys() - _NAMES
    if unknown:
        raise UsageError(
            f"{', '.join(sorted(unknown))}: a breaker has {', '.join(sorted(_NAMES))}."
        )
    return replace(rules, **options)
