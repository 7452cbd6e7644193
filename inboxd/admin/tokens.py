"""Who sends a request with a bearer token, which is compared in constant time.

Promises: how long a comparison takes tells nothing of a token; none is in a log line or an answer;
who guesses is held back. A token's access is a role, for the API and the screens alike.
Known limits: files of tokens are read at the start and at each reload, not in between; while
somebody guesses, nobody's token counts.
*See:* `signatures/bearer.py`, which compares.
"""

import time
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from inboxd.admin.answers import RequestRefused
from inboxd.admin.budget import Budget
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.errors import Malformed, SettingsError, Unauthentic
from inboxd.settings import AdminToken
from inboxd.settings.secrets import read_secret
from inboxd.signatures.bearer import BearerVerifier
from inboxd.signatures.contract import Key, SignedRequest
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Fewer bytes of a token could be guessed.
_LEAST = 16
# Wrong tokens, after which nobody is let in for a moment: so many could be guesses.
_WRONG_RATE, _WRONG_BURST = 5, 50
_ROLES: Final = {"read": Role.READER, "full": Role.OPERATOR}


class Tokens:
    """The tokens of the settings; none: nobody is let in, as when a reload took all away."""

    def __init__(self, tokens: Sequence[AdminToken]) -> None:
        """Read their files. Raises SettingsError."""
        self._visitors = {
            each.name: Visitor(each.name, _ROLES[each.access], f"token {each.name}")
            for each in tokens
        }
        keys = [Key(each.name, _secret(each)) for each in tokens]
        self._verifier = BearerVerifier(keys, 0, {}) if keys else None
        self._wrong = Budget(_WRONG_RATE, _WRONG_BURST)

    def visitor(self, request: Request) -> Visitor:
        """Whose request this is. Raises RequestRefused, Unauthentic or Malformed."""
        if self._wrong.is_spent:
            detail = "too many wrong tokens: try again later"
            raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, detail)
        try:
            return self.bearer(request.headers)
        except (Unauthentic, Malformed) as error:
            self._wrong.spend()
            address = request.client.host if request.client else None
            _log.warning("an admin request is refused", reason=str(error), address=address)
            raise

    def bearer(self, headers: Mapping[str, str]) -> Visitor:
        """Whose token the headers have. Raises Unauthentic or Malformed."""
        if self._verifier is None:
            raise Unauthentic("there is no token any more")
        name = self._verifier.verify(SignedRequest(headers, b""), time.time())
        return self._visitors[name]


def _secret(token: AdminToken) -> bytes:
    if token.token is not None:
        return token.token.get_secret_value().encode()
    assert token.token_file is not None  # noqa: S101 - the settings have one of both
    secret = read_secret(token.token_file)
    if len(secret.encode()) < _LEAST:
        raise SettingsError(
            f"[admin]: the token {token.name!r} in {token.token_file} has less than {_LEAST} "
            "bytes, and could be guessed: `openssl rand -hex 32` makes a better one"
        )
    return secret.encode()


def has_token(request: Request) -> bool:
    """Whether one is sent, right or wrong; a proxy may send a login of its own in that header."""
    return request.headers.get("authorization", "").lower().startswith("bearer")
