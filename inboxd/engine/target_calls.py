"""Calls that are reported to breakers: a handler's run, or `ctx.breaker` in it.

Any error of a handler is a failure of the target, except a verdict on the payload, an error that
the policy calls permanent, and a stop by the daemon.
"""

import asyncio
import random
import time
from collections.abc import Mapping, Sequence

from inboxd.api.records import Handler
from inboxd.engine.breakers import Breakers, Holder
from inboxd.engine.execution import HandlerStopped, TimeLimit
from inboxd.engine.outcomes import is_ours
from inboxd.errors import (
    BreakerOpen,
    Defer,
    LeaseLost,
    NoHandler,
    PayloadError,
    Reject,
    Retry,
    UsageError,
)
from inboxd.model import duration
from inboxd.model.backoff import Policy
from inboxd.model.outcome import explain, only_error

Limits = Mapping[tuple[str, int], TimeLimit]

# Minimum seconds until a row that a breaker refused runs again, and the random share that is added,
# so that rows do not all return at once.
_SOON, _SPREAD = 1.0, 0.5
_IGNORED = (Reject, PayloadError, NoHandler, Defer, HandlerStopped, LeaseLost)


class TargetCall:
    __slots__ = ("_began", "_breakers", "_holder", "_name", "_ticket")

    def __init__(self, breakers: Breakers, name: str, holder: Holder) -> None:
        """Begin the call now. If the breaker does not allow it, nothing is reported."""
        self._breakers = breakers
        self._name = name
        self._holder = holder
        self._ticket = breakers.begin(name, holder)
        self._began = time.monotonic()

    def succeeded(self) -> None:
        if self._ticket is not None:
            self._breakers.end(
                self._name, self._holder, self._ticket, failed=False, began=self._began
            )

    def failed(self, error: BaseException, policy: Policy | None) -> None:
        """Report an error; the handler's policy decides whether the target has failed."""
        if self._ticket is None:
            return
        error = only_error(error)
        failed = None if is_ignored(error, policy) else True
        self._breakers.end(
            self._name,
            self._holder,
            self._ticket,
            failed=failed,
            began=self._began,
            after=_asked(error),
            reason=explain(error).error if failed else "",
        )


class HandlerCall(TargetCall):
    __slots__ = ("_limits",)

    def __init__(self, breakers: Breakers, limits: Limits, name: str, holder: Holder) -> None:
        """Raises BreakerOpen if the breaker refuses the call."""
        super().__init__(breakers, name, holder)
        if self._ticket is None:
            seconds = max(_SOON, breakers.rejected(name)) * (1 + random.uniform(0.0, _SPREAD))
            raise BreakerOpen(name, round(seconds, 1))
        self._limits = limits

    def ended(self, error: BaseException | None) -> None:
        """Report the end; an execution past its time limit ends with a cancellation."""
        if error is None:
            self.succeeded()
            return
        if isinstance(error, asyncio.CancelledError):
            kind, row_id = self._holder
            limit = self._limits.get(("command" if kind == "queue" else "event", row_id))
            stopped = None if limit is None else limit.error
            error = stopped or HandlerStopped("it was cancelled")
        self.failed(error, None)


def watch(
    breakers: Breakers, handler: Handler, row_id: int, queue: str | None = None
) -> Sequence[TargetCall]:
    """One call for each breaker that the handler needs."""
    names = breakers.needed_by(handler, queue)
    if not names:
        return ()
    kind = "topic" if queue is None else "queue"
    return [TargetCall(breakers, name, (kind, row_id)) for name in names]


def is_ignored(error: BaseException, policy: Policy | None) -> bool:
    if isinstance(error, _IGNORED) or is_ours(error):
        return True
    return policy is not None and policy.is_permanent(error)


def _asked(error: BaseException) -> float:
    """Seconds for which the target wants no calls."""
    if not isinstance(error, Retry) or error.after is None:
        return 0.0
    try:
        after = error.after
        return float(after) if isinstance(after, int | float) else duration.seconds(after)
    except UsageError:
        return 0.0
