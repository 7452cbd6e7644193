"""Started sign-ins at a provider: they tie the provider's answer to the browser that asked.

Promises: a state is valid once, in the browser that got it, for ten minutes; a stolen code is
useless (PKCE), and cannot be planted (state, nonce). Known limit: only the process that saw a state
remembers its use; in others, only the provider refuses a code that comes twice.
"""

import re
import secrets
import time
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from inboxd.admin.screens.access.cookies import cookie_of, set_cookie
from inboxd.admin.screens.access.signed_texts import SignedTexts

_COOKIE: Final = "inboxd_oidc_"
_PURPOSE: Final = "oidc flow"
_STATE = re.compile(r"[A-Za-z0-9_-]{22}")
# The time for a sign-in on the provider's page.
_LASTS_SECONDS = 600
# The clocks of two machines may differ by this.
_AHEAD_SECONDS = 60
_MOST_USED: Final = 10_000
# At most this many at once, as when a browser reopens its tabs; a further one deletes them all.
_MOST_OPEN = 8
# Bytes of a path; a cookie has room for 4,000 in all.
_LONGEST_TO = 1500


@dataclass(frozen=True, slots=True)
class SignInFlow:
    """to: the page to open after it. begun: seconds since 1970."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    to: str
    begun: float

    @property
    def challenge(self) -> str:
        """The provider gets this digest of the verifier first (RFC 7636, S256)."""
        digest = sha256(self.verifier.encode()).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()


class SignInFlows:
    def __init__(self, texts: SignedTexts, clock: Callable[[], float] = time.time) -> None:
        self._texts, self._clock = texts, clock
        self._used: OrderedDict[str, None] = OrderedDict()

    def begin(self, to: str) -> SignInFlow:
        short = to if len(to.encode()) <= _LONGEST_TO else "/"
        nonce, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
        return SignInFlow(secrets.token_urlsafe(16), nonce, verifier, short, self._clock())

    def keep(self, request: Request, response: Response, flow: SignInFlow) -> None:
        kept = [name.partition(_COOKIE)[2] for name in request.cookies if _COOKIE in name]
        if len(kept) >= _MOST_OPEN:
            for state in filter(_STATE.fullmatch, kept):
                set_cookie(request, response, _COOKIE + state, "", 0)
        fields = [getattr(flow, name) for name in SignInFlow.__slots__]
        text = self._texts.written(_PURPOSE, fields)
        set_cookie(request, response, _COOKIE + flow.state, text, _LASTS_SECONDS)

    def take(self, request: Request, state: str) -> SignInFlow | None:
        """Remove and return the sign-in of this state; None: this browser has no valid sign-in."""
        text = cookie_of(request, _COOKIE + state) if _STATE.fullmatch(state) else None
        fields = self._texts.read(_PURPOSE, text) if text else None
        if fields is None or state in self._used:
            return None
        flow = SignInFlow(*fields)
        if (
            flow.state != state
            or not -_AHEAD_SECONDS <= self._clock() - flow.begun < _LASTS_SECONDS
        ):
            return None
        self._used[state] = None
        while len(self._used) > _MOST_USED:
            self._used.popitem(last=False)
        return flow

    def forget(self, request: Request, response: Response, state: str) -> None:
        if _STATE.fullmatch(state):
            set_cookie(request, response, _COOKIE + state, "", 0)
