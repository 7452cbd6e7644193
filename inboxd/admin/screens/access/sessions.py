"""A sign-in as a browser keeps it: a text that only this process, or its secret, can have made.

Owns its fields and its ends. Promises: what was changed by one bit, made with another secret, is
too old, or was left alone for too long is nobody's; a changed password ends what was begun with the
old one; nothing that a browser had before it signed in counts after.
Known limits: a sign-out is remembered by the process that saw it, until the sign-in would have
ended; elsewhere its text counts on, as do the last ones if more than `_MOST_ENDED` sign out. The
times are the machine's own, as they must outlive the process.
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
# Seconds by which clocks of several machines may differ.
_AHEAD = 60.0
# A page that is opened within so many seconds prolongs nothing.
_RENEWED_AFTER = 60.0


@dataclass(frozen=True, slots=True)
class SignedIn:
    """Who signed in. Times in seconds since 1970.

    mark: of the password that was typed, or of the settings of the provider that vouches. role:
    what such a provider's groups gave; "": users have the one of the settings.
    """

    id: str
    name: str
    mark: str
    begun: float
    seen: float
    role: str = ""


class Sessions:
    """The sign-ins that one secret vouches for."""

    def __init__(
        self,
        secret: bytes,
        idle: timedelta,
        lifetime: timedelta,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`idle`: without a page that is opened; `lifetime`: at all."""
        self._texts, self._clock = SignedTexts(secret), clock
        self._idle, self.lifetime = idle.total_seconds(), lifetime.total_seconds()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def mark(self, basis: str) -> str:
        """What stands in a sign-in for that on which it rests, and tells nothing of it."""
        return self._texts.digest("password", basis.encode())[:32]

    def begin(self, name: str, basis: str, role: str = "") -> SignedIn:
        """Somebody signed in. basis: the hash of a password, or a provider's settings."""
        now = self._clock()
        return SignedIn(secrets.token_urlsafe(16), name, self.mark(basis), now, now, role)

    def end(self, signed_in: SignedIn) -> None:
        """Let it count no more in this process."""
        self._ended[signed_in.id] = None
        while len(self._ended) > _MOST_ENDED:
            self._ended.popitem(last=False)

    def renewed(self, signed_in: SignedIn) -> SignedIn | None:
        """The same, seen now; None: it was a moment ago."""
        now = self._clock()
        return replace(signed_in, seen=now) if now - signed_in.seen >= _RENEWED_AFTER else None

    def written(self, signed_in: SignedIn) -> str:
        """As a cookie has it."""
        fields = [getattr(signed_in, name) for name in SignedIn.__slots__]
        return self._texts.written("session", fields)

    def read(self, text: str) -> SignedIn | None:
        """The sign-in that a cookie is; None: it is none, or has ended."""
        fields = self._texts.read("session", text)
        if fields is None:
            return None
        signed_in = SignedIn(*fields)
        now = self._clock()
        counts = (
            signed_in.id not in self._ended
            and now - signed_in.begun < self.lifetime
            and now - signed_in.seen < self._idle
            and signed_in.seen - now < _AHEAD
        )
        return signed_in if counts else None
