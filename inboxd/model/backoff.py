"""Retry policies: the wait before the next attempt, and the last attempt (design, section 7).

`attempts` counts executions, not repetitions (R0.41). A wait is finite, and counts from now. Known
limit: a policy does not see that all rows fail; a circuit breaker does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import timedelta
from difflib import get_close_matches
from typing import Literal, Protocol, get_args

from inboxd.errors import UsageError
from inboxd.model import duration
from inboxd.model.duration import Duration

# A row counts its attempts in a smallint.
MOST_ATTEMPTS = 32_767

# full: random between zero and the whole wait; half: between half the wait and the whole wait.
Jitter = Literal["full", "half", "none"]


class Rng(Protocol):
    """The random source for jitter: `random`, or a seeded `random.Random`."""

    def uniform(self, a: float, b: float, /) -> float: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class _Policy:
    attempts: int = 15
    jitter: Jitter = "full"
    max_age: Duration | None = None
    permanent: tuple[type[BaseException] | str, ...] = ()

    def __post_init__(self) -> None:
        countable = _is_number(self.attempts, whole=True) and self.attempts <= MOST_ATTEMPTS
        self._check(countable, "attempts", f"1 to {MOST_ATTEMPTS:,}")
        self._check(self.jitter in get_args(Jitter), "jitter", '"full", "half" or "none"')
        named = _is_list(self.permanent) and all(map(_names_error, self.permanent))
        self._check(named, "permanent", 'exception types, or names such as "smtplib.SMTPException"')
        self._set("permanent", tuple(self.permanent))
        if self.max_age is not None:
            self._set("max_age", duration.parse(self.max_age))

    def delay(self, attempt: int, rng: Rng) -> float:
        """Seconds to wait after execution number `attempt` (1 is the first) has failed."""
        try:
            wait = min(self._wait(attempt), duration.seconds(duration.LONGEST))
        except OverflowError:  # a power too large for a float is past any cap
            wait = self._ceiling()
        least = {"full": 0.0, "half": wait / 2, "none": wait}[self.jitter]
        return wait if least == wait else rng.uniform(least, wait)

    def is_permanent(self, error: BaseException) -> bool:
        kinds = type(error).__mro__
        names = {f"{kind.__module__}.{kind.__qualname__}" for kind in kinds}
        return any(
            one in kinds if isinstance(one, type) else one in names or f"builtins.{one}" in names
            for one in self.permanent
        )

    def is_exhausted(self, attempt: int, age: timedelta) -> bool:
        too_old = self.max_age is not None and age >= duration.parse(self.max_age)
        return attempt >= self.attempts or too_old

    def _wait(self, attempt: int) -> float:
        raise NotImplementedError

    def _ceiling(self) -> float:
        return duration.seconds(duration.LONGEST)

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)

    def _check(self, valid: object, name: str, allowed: str) -> None:
        if not valid:
            kind = type(self).__name__
            raise UsageError(f"{kind}({name}={getattr(self, name)!r}) is wrong: give {allowed}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growing(_Policy):
    base: Duration = timedelta(seconds=2)
    cap: Duration = timedelta(hours=1)

    def __post_init__(self) -> None:
        _Policy.__post_init__(self)
        self._set("base", duration.parse(self.base))
        self._set("cap", duration.parse(self.cap))

    def _ceiling(self) -> float:
        return duration.seconds(self.cap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Exponential(_Growing):
    """Waits `base`, then `factor` times as long after each attempt, up to `cap`; the default."""

    factor: float = 2

    def __post_init__(self) -> None:
        _Growing.__post_init__(self)
        self._check(_is_number(self.factor, whole=False), "factor", "a number of 1 or more")

    def _wait(self, attempt: int) -> float:
        growth = float(self.factor) ** (attempt - 1)
        return min(duration.seconds(self.base) * growth, self._ceiling())


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear(_Growing):
    """Waits `base` times the number of executions so far, up to `cap`."""

    def _wait(self, attempt: int) -> float:
        return min(duration.seconds(self.base) * attempt, self._ceiling())


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed(_Policy):
    """Always waits the same time; without jitter by default."""

    base: Duration = timedelta(seconds=2)
    jitter: Jitter = "none"

    def __post_init__(self) -> None:
        _Policy.__post_init__(self)
        self._set("base", duration.parse(self.base))

    def _wait(self, attempt: int) -> float:  # noqa: ARG002 - the same for every attempt
        return duration.seconds(self.base)


@dataclass(frozen=True, slots=True, kw_only=True)
class Explicit(_Policy):
    """Waits the listed times in turn, then gives up; more `attempts` repeat the last wait."""

    delays: tuple[Duration, ...]
    attempts: int = 0
    jitter: Jitter = "none"

    def __post_init__(self) -> None:
        self._check(_is_list(self.delays) and self.delays, "delays", 'a list such as ["10s", "5m"]')
        self._set("delays", tuple(map(duration.parse, self.delays)))
        self._set("attempts", self.attempts or len(self.delays) + 1)
        _Policy.__post_init__(self)

    def _wait(self, attempt: int) -> float:
        return duration.seconds(self.delays[min(attempt, len(self.delays)) - 1])


Policy = Exponential | Linear | Fixed | Explicit

_KINDS: dict[str, type[Policy]] = {
    "exponential": Exponential,
    "linear": Linear,
    "fixed": Fixed,
    "explicit": Explicit,
}


def policy_from(mapping: Mapping[str, object]) -> Policy:
    return override(Exponential(), mapping)


def override(policy: Policy, mapping: Mapping[str, object]) -> Policy:
    """Change fields; a new `kind` keeps the fields that both kinds have. Raises UsageError."""
    name = mapping.get("kind", type(policy).__name__.lower())
    kind = _KINDS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise UsageError(f"{name!r} is not a kind of retry: choose one of {', '.join(_KINDS)}.")
    known = [field.name for field in fields(kind)]
    for key in mapping:
        if key not in (*known, "kind"):
            raise UsageError(_unknown(key, known, name))
    # Another kind does not inherit a kind's jitter, or the number of its listed delays.
    kept = known if kind is type(policy) else ["max_age", "permanent", "base", "cap"]
    if "delays" in mapping:
        kept = [key for key in kept if key != "attempts"]
    values = {key: getattr(policy, key) for key in kept if key in known and hasattr(policy, key)}
    values |= {key: value for key, value in mapping.items() if key != "kind"}
    try:
        return kind(**values)
    except TypeError as error:
        raise UsageError(f"A retry of kind {name!r} does not fit: {error}.") from error


def _unknown(key: str, known: list[str], kind: object) -> str:
    close = get_close_matches(key, [*known, "kind"], n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}."
    return f"A retry of kind {kind!r} has no {key!r}: {hint}"


def _is_number(value: object, *, whole: bool) -> bool:
    """Whether it is a finite number of 1 or more; TOML may give any type."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 1 <= value < math.inf and (isinstance(value, int) or not whole)


def _is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def _names_error(value: object) -> bool:
    is_type = isinstance(value, type) and issubclass(value, BaseException)
    return is_type or (isinstance(value, str) and value != "")
