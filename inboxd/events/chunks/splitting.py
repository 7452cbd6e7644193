"""Decides how long a failing chunk is halved; `run` states the rule."""

from dataclasses import dataclass, field

from inboxd.api.records import ChunkHandler
from inboxd.errors import Defer, HandlerTimeout, Retry

# After this many failures without a success, no single event is blamed.
_HOPELESS_FAILURES = 32


def may_halve(handler: ChunkHandler, error: BaseException) -> bool:
    return handler.may_split and not isinstance(error, (Retry, Defer, HandlerTimeout))


@dataclass(slots=True)
class SplitProgress:
    """error: of the requeue: the last that is not about an event itself, else the last."""

    successes: int = 0
    failures: int = 0
    told: bool = False
    error: BaseException = field(default_factory=RuntimeError)
    _general: bool = False

    def failed(self, error: BaseException, *, own: bool, alone: bool) -> None:
        """Note that a part has failed; alone: the part was a single event."""
        self.failures += 1
        self.told = self.told or (own and alone)
        if not (own and self._general):
            self.error, self._general = error, not own

    def is_hopeless(self, *, more: bool) -> bool:
        """Whether the cause is not in single events; more: parts are left to run."""
        if self.successes or self.failures == 1:
            return False
        return self.failures >= _HOPELESS_FAILURES if more else not self.told
