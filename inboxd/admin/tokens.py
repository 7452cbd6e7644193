"""Who sends a request of the admin API: its bearer token, compared in constant time.

Promises: how long a comparison takes tells nothing of a token; none is in a log line or an answer.
Known limit: files of tokens are read at the start and at each reload, not in between.
*See:* `signatures/bearer.py`, which compares.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from inboxd.errors import SettingsError, Unauthentic
from inboxd.settings import AdminToken
from inboxd.settings.secrets import read_secret
from inboxd.signatures.bearer import BearerVerifier
from inboxd.signatures.contract import Key, SignedRequest

# Fewer bytes of a token could be guessed.
_LEAST = 16


@dataclass(frozen=True, slots=True)
class Caller:
    """Whose token it is, and whether it may change something."""

    name: str
    may_act: bool

    @property
    def actor(self) -> str:
        """As the audit has it."""
        return f"token {self.name}"


class Tokens:
    """The tokens of the settings; none: nobody is let in, as when a reload took all away."""

    def __init__(self, tokens: Sequence[AdminToken]) -> None:
        """Read their files. Raises SettingsError."""
        self._callers = {each.name: Caller(each.name, each.access == "full") for each in tokens}
        keys = [Key(each.name, _secret(each)) for each in tokens]
        self._verifier = BearerVerifier(keys, 0, {}) if keys else None

    def caller(self, headers: Mapping[str, str]) -> Caller:
        """Whose request this is. Raises Unauthentic or Malformed."""
        if self._verifier is None:
            raise Unauthentic("there is no token any more")
        name = self._verifier.verify(SignedRequest(headers, b""), time.time())
        return self._callers[name]


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
