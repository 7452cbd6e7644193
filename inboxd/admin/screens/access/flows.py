"""Sign-ins at a provider that have begun: what ties an answer of it to the browser that asked.

Promises: a state counts once, in the browser that got it, for ten minutes; a code that somebody
else got is of no use, neither to a thief (PKCE) nor planted on a visitor (state, nonce).
Known limit: which states were used is remembered by the process that saw them; elsewhere only the
provider refuses a code that comes twice.
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
# Seconds for which somebody may sit before the provider's page.
_LASTS = 600
# Seconds by which clocks of several machines may differ.
_AHEAD = 60
_MOST_USED: Final = 10_000
# So many at once, as of tabs that a browser opens again; then the older ones are forgotten.
_MOST_OPEN = 8
# Bytes of a path, of which a cookie has room for four thousand.
_LONGEST_TO = 1500


@dataclass(frozen=True, slots=True)
class SignInFlow:
    """One way to the provider and back. to: where it leads. begun: in seconds since 1970."""

    state: str = field(repr=False)
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)
    to: str
    begun: float

    @property
    def challenge(self) -> str:
        """What the provider gets of the verifier, at first (RFC 7636, S256)."""
        digest = sha256(self.verifier.encode()).digest()
        return urlsafe_b64encode(digest).rstrip(b"=").decode()


class SignInFlows:
    """Those that one secret vouches for; a browser keeps each as a cookie of its own."""

    def __init__(self, texts: SignedTexts, clock: Callable[[], float] = time.time) -> None:
        """None has been used yet."""
        self._texts, self._clock = texts, clock
        self._used: OrderedDict[str, None] = OrderedDict()

    def begin(self, to: str) -> SignInFlow:
        """Somebody goes to the provider."""
        short = to if len(to.encode()) <= _LONGEST_TO else "/"
        nonce, verifier = secrets.token_urlsafe(24), secrets.token_urlsafe(48)
        return SignInFlow(secrets.token_urlsafe(16), nonce, verifier, short, self._clock())

    def keep(self, request: Request, response: Response, flow: SignInFlow) -> None:
        """Have the browser keep it, until it comes back."""
        kept = [name.partition(_COOKIE)[2] for name in request.cookies if _COOKIE in name]
        if len(kept) >= _MOST_OPEN:
            for state in filter(_STATE.fullmatch, kept):
                set_cookie(request, response, _COOKIE + state, "", 0)
        fields = [getattr(flow, name) for name in SignInFlow.__slots__]
        text = self._texts.written(_PURPOSE, fields)
        set_cookie(request, response, _COOKIE + flow.state, text, _LASTS)

    def take(self, request: Request, state: str) -> SignInFlow | None:
        """The one of this state, if this browser began it; it counts no more. None: it is none."""
        text = cookie_of(request, _COOKIE + state) if _STATE.fullmatch(state) else None
        fields = self._texts.read(_PURPOSE, text) if text else None
        if fields is None or state in self._used:
            return None
        flow = SignInFlow(*fields)
        if flow.state != state or not -_AHEAD <= self._clock() - flow.begun < _LASTS:
            return None
        self._used[state] = None
        while len(self._used) > _MOST_USED:
            self._used.popitem(last=False)
        return flow

    def forget(self, request: Request, response: Response, state: str) -> None:
        """Have the browser keep it no longer."""
        if _STATE.fullmatch(state):
            set_cookie(request, response, _COOKIE + state, "", 0)
