"""How long a failing chunk is halved, each half in a savepoint of its own.

Owns the rule when to give up. If everything fails, no single event is to blame: when all events of
a chunk have failed, or many parts of it, and none has succeeded, it is requeued as a whole. Pure.
*See:* `run`.
"""

from dataclasses import dataclass, field

from inboxd.api.records import ChunkHandler
from inboxd.errors import Defer, HandlerTimeout, Retry

# After this many failures without a success, no single event is to blame.
_HOPELESS_FAILURES = 32


def may_halve(handler: ChunkHandler, error: BaseException) -> bool:
    """Whether halves of the chunk may run instead, at once."""
    return handler.may_split and not isinstance(error, (Retry, Defer, HandlerTimeout))


@dataclass(slots=True)
class SplitProgress:
    """The progress of a chunk's parts.

    told: an event has an outcome of its own. error: why the chunk, or the rest of it, is requeued:
    the last error that is not about an event itself, if there was one.
    """

    successes: int = 0
    failures: int = 0
    told: bool = False
    error: BaseException = field(default_factory=RuntimeError)
    _general: bool = False

    def failed(self, error: BaseException, *, own: bool, alone: bool) -> None:
        """A part has failed; alone: it was a single event."""
        self.failures += 1
        self.told = self.told or (own and alone)
        if not (own and self._general):
            self.error, self._general = error, not own

    def is_hopeless(self, *, more: bool) -> bool:
        """Whether the chunk fails for another reason than single events; more: parts are left."""
        if self.successes or self.failures == 1:
            return False
        return self.failures >= _HOPELESS_FAILURES if more else not self.told
