"""Authenticates requests by a bearer token, compared in constant time.

Promises: no token is in a log line or an answer; a wrong token costs one comparison, and a caller
with wrong tokens at most a few log lines a second; they do not count towards a valid token's
limits. A token's access is a role, for the API and the screens alike. Known limits: token files are
read at the start and at each reload; only its length (at least 16 bytes) protects a token from
guesses.
"""

import time
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Final

from starlette.requests import Request

from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.throttle import Throttle
from inboxd.errors import Malformed, SettingsError, Unauthentic
from inboxd.model.addresses import Networks, client_address, normal_peer, subscriber
from inboxd.settings import AdminToken
from inboxd.settings.secrets import read_secret
from inboxd.signatures.bearer import BearerVerifier
from inboxd.signatures.contract import Key, SignedRequest
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# A shorter token could be guessed.
_LEAST_BYTES = 16
# Wrong tokens of an address that are logged and answered 401, a second and at once; more get 429.
_WRONG_RATE, _WRONG_BURST = 5, 50
_ROLES: Final = {"read": Role.READER, "full": Role.OPERATOR}


class Tokens:
    """Without any token, as after a reload, every request is refused."""

    def __init__(self, tokens: Sequence[AdminToken], proxies: Iterable[object] = ()) -> None:
        """Read the files. proxies: trusted to name a client's address. Raises SettingsError."""
        self._visitors = {
            each.name: Visitor(each.name, _ROLES[each.access], f"token {each.name}")
            for each in tokens
        }
        keys = [Key(each.name, _secret(each)) for each in tokens]
        self._verifier = BearerVerifier(keys, 0, {}) if keys else None
        self._proxies = Networks(proxies)
        self._wrong = Throttle(_WRONG_RATE, _WRONG_BURST)

    def visitor(self, request: Request) -> Visitor:
        """Raises RequestRefused, Unauthentic or Malformed."""
        try:
            return self.bearer(request.headers)
        except (Unauthentic, Malformed) as error:
            address = client_address(normal_peer(request.client), request.headers, self._proxies)
            guesser = [subscriber(address) if address else "-"]
            if self._wrong.is_spent(guesser):
                detail = "too many wrong tokens: try again later"
                raise RequestRefused(HTTPStatus.TOO_MANY_REQUESTS, detail) from None
            self._wrong.spend(guesser)
            _log.warning("an admin request is refused", reason=str(error), address=address)
            raise

    def bearer(self, headers: Mapping[str, str]) -> Visitor:
        if self._verifier is None:
            raise Unauthentic("[admin] has no tokens any more")
        name = self._verifier.verify(SignedRequest(headers, b""), time.time())
        return self._visitors[name]


def _secret(token: AdminToken) -> bytes:
    if token.token is not None:
        return token.token.get_secret_value().encode()
    assert token.token_file is not None  # noqa: S101 - the settings require one of the two
    secret = read_secret(token.token_file)
    if len(secret.encode()) < _LEAST_BYTES:
        raise SettingsError(
            f"[admin]: the token {token.name!r} in {token.token_file} has less than {_LEAST_BYTES} "
            "bytes and could be guessed: make a longer one with `openssl rand -hex 32`"
        )
    return secret.encode()


def has_token(request: Request) -> bool:
    """It may be invalid; a proxy may send its own login instead."""
    return request.headers.get("authorization", "").lower().startswith("bearer")
