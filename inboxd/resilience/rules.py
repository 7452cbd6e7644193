"""The rules of breakers, the values of `[breakers.NAME]`; every `BreakerRules` object is valid."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import timedelta
from typing import Any, Literal, TypedDict, get_args

from inboxd.errors import UsageError
from inboxd.model import checks, duration
from inboxd.model.backoff import Rng
from inboxd.model.duration import Duration

# The mode that an operator sets; "auto": calls decide.
Mode = Literal["auto", "open", "closed", "metrics_only"]
MODES: tuple[Mode, ...] = get_args(Mode)
# The stored state. "half_open": a worker probes.
State = Literal["closed", "open", "half_open"]
# The fallback by which commands wait, in place of a command type.
WAIT = "wait"


class BreakerOptions(TypedDict, total=False):
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
    """When a breaker opens: by the ratio of failures, by failures in a row, or by slow calls.

    window: span of the calls that count. minimum_calls: with fewer, ratios are ignored. slow_call:
    longer calls are slow. first_break: doubled while probes fail, up to longest_break. jitter: the
    largest share by which a break is lengthened. probes: calls after a break. fallback: type of the
    command that is sent instead, or "wait".
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
                raise UsageError(f"{name} is {value!r}: give a share, above 0 and up to 1.")

    def break_time(self, opens: int, rng: Rng, at_least: float = 0.0) -> float:
        """Seconds of a break after `opens` earlier breaks; the jitter only lengthens it."""
        longest = duration.seconds(self.longest_break)
        usual = min(duration.seconds(self.first_break) * 2.0 ** min(opens, 60), longest)
        return max(usual, at_least) * (1 + rng.uniform(0.0, self.jitter))


_NAMES = frozenset(each.name for each in fields(BreakerRules))


def with_options(rules: BreakerRules, options: Mapping[str, Any]) -> BreakerRules:
    """The rules with these changes. Raises UsageError for invalid ones."""
    unknown = options.keys() - _NAMES
    if unknown:
        raise UsageError(
            f"{', '.join(sorted(unknown))}: a breaker has {', '.join(sorted(_NAMES))}."
        )
    return replace(rules, **options)
