"""Who sends a request with a bearer token, which is compared in constant time.

Promises: how long a comparison takes tells nothing of a token; none is in a log line or an answer;
who sends wrong ones costs a comparison, and a log line a few times a second, and spends nothing of
whose token is right. A token's access is a role, for the API and the screens alike.
Known limits: files of tokens are read at the start and at each reload, not in between; a token is
safe from guesses by its length alone, which is 16 bytes at least.
*See:* `signatures/bearer.py`, which compares.
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

# Fewer bytes of a token could be guessed.
_LEAST = 16
# Wrong tokens of an address that are told so, and logged; more are answered that they are too many.
_WRONG_RATE, _WRONG_BURST = 5, 50
_ROLES: Final = {"read": Role.READER, "full": Role.OPERATOR}


class Tokens:
    """The tokens of the settings; none: nobody is let in, as when a reload took all away."""

    def __init__(self, tokens: Sequence[AdminToken], proxies: Iterable[object] = ()) -> None:
        """Read their files. Raises SettingsError. proxies: by whom an address is believed."""
        self._visitors = {
            each.name: Visitor(each.name, _ROLES[each.access], f"token {each.name}")
            for each in tokens
        }
        keys = [Key(each.name, _secret(each)) for each in tokens]
        self._verifier = BearerVerifier(keys, 0, {}) if keys else None
        self._proxies = Networks(proxies)
        self._wrong = Throttle(_WRONG_RATE, _WRONG_BURST)

    def visitor(self, request: Request) -> Visitor:
        """Whose request this is. Raises RequestRefused, Unauthentic or Malformed."""
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
