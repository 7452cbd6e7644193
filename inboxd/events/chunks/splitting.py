"""A chunk that fails is halved, each half in a savepoint of its own: how far that is worth it.

Owns the rule when to give up. Where everything fails, nothing is to be isolated: when all events of
a chunk have failed, or many parts of it, and none has succeeded, it is requeued as a whole. Pure.
*See:* `run`.
"""

from dataclasses import dataclass, field

from inboxd.api.records import ChunkHandler
from inboxd.errors import Defer, HandlerTimeout, Retry

# After this many runs of parts without a success, it is not one event that spoils the chunk.
_HOPELESS = 32


def may_halve(handler: ChunkHandler, error: BaseException) -> bool:
    """Whether half of the chunk may be run instead, at once."""
    return handler.may_split and not isinstance(error, (Retry, Defer, HandlerTimeout))


@dataclass(slots=True)
class SplitProgress:
    """How the parts of a chunk have fared.

    told: of one event it is known what becomes of it. error: what the chunk, or the rest of it, is
    requeued for: the last one that is not an event's own, as long as there was any.
    """

    successes: int = 0
    failures: int = 0
    told: bool = False
    error: BaseException = field(default_factory=RuntimeError)
    _general: bool = False

    def failed(self, error: BaseException, *, own: bool, alone: bool) -> None:
        """A part has failed, or an event alone."""
        self.failures += 1
        self.told = self.told or (own and alone)
        if not (own and self._general):
            self.error, self._general = error, not own

    def is_hopeless(self, *, more: bool) -> bool:
        """Whether it is not single events that spoil the chunk; `more`: parts are left to run."""
        if self.successes or self.failures == 1:
            return False
        return self.failures >= _HOPELESS if more else not self.told
