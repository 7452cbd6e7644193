"""A sign-in as a browser keeps it: a text signed with the secret of this process or its settings.

Promises: a text that is too old or was unused for too long is not accepted; a new password ends the
sign-ins with the old one; a text from before the sign-in is not valid after it. Known limits: only
the process that handled a sign-out remembers it, and at most `_MOST_ENDED` of them; others accept
the text until the sign-in would have ended. The times come from the system clock, since they must
outlive the process.
"""

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Final

from inboxd.admin.screens.access.signed_texts import SignedTexts

_MOST_ENDED: Final = 10_000
# The clocks of two machines may differ by this.
_AHEAD_SECONDS = 60.0
# A page opened sooner than this does not prolong the sign-in.
_RENEWED_AFTER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Times in seconds since 1970. role: by a provider's groups; "": that of the settings' user."""

    id: str
    name: str
    mark: str
    begun: float
    seen: float
    role: str = ""


class Sessions:
    def __init__(
        self,
        secret: bytes,
        idle: timedelta,
        lifetime: timedelta,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """idle: the longest time between two opened pages; lifetime: from the sign-in on."""
        self._texts, self._clock = SignedTexts(secret), clock
        self._idle, self.lifetime = idle.total_seconds(), lifetime.total_seconds()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def mark(self, basis: str) -> str:
        """A digest of the password hash or of the provider's settings, which reveals neither."""
        return self._texts.digest("password", basis.encode())[:32]

    def begin(self, name: str, basis: str, role: str = "") -> SignedIn:
        now = self._clock()
        return SignedIn(secrets.token_urlsafe(16), name, self.mark(basis), now, now, role)

    def end(self, signed_in: SignedIn) -> None:
        """Stop accepting this sign-in, in this process."""
        self._ended[signed_in.id] = None
        while len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def renewed(self, signed_in: SignedIn) -> SignedIn | None:
        """None: it was prolonged a moment ago."""
        now = self._clock()
        return (
            replace(signed_in, seen=now) if now - signed_in.seen >= _RENEWED_AFTER_SECONDS else None
        )

    def written(self, signed_in: SignedIn) -> str:
        fields = [getattr(signed_in, name) for name in SignedIn.__slots__]
        return self._texts.written("session", fields)

    def read(self, text: str) -> SignedIn | None:
        """None: the cookie is not valid, or the sign-in has ended."""
        fields = self._texts.read("session", text)
        if fields is None:
            return None
        signed_in = SignedIn(*fields)
        now = self._clock()
        counts = (
            signed_in.id not in self._ended
            and now - signed_in.begun < self.lifetime
            and now - signed_in.seen < self._idle
            and signed_in.seen - now < _AHEAD_SECONDS
        )
        return signed_in if counts else None
