"""Password hashes: scrypt, as `$scrypt$ln=15,r=8,p=3$SALT$DIGEST`, which other tools write, too.

Comparing takes as long for a wrong password as for the right one. A hash is refused if it is too
cheap to guess, or needs too much memory. Neither password nor hash is in a representation or an
error. Known limit: one comparison takes a quarter of a second and 32 MiB: use a thread.
"""

import hmac
import re
import secrets
import unicodedata
from base64 import b64decode, b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from hashlib import scrypt
from typing import Final

# Longer than any passphrase; the field of a form could be of any size.
LONGEST: Final = 1024
_SALT, _DIGEST = 16, 32
_HASH = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
)
# 128 bytes for each block of each step: 16 to 128 MiB.
_LEAST_BYTES, _MOST_BYTES = 16 * 1024**2, 128 * 1024**2
_MOST_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """A stored hash. exponent: 2 ** exponent steps; 15 with 8 blocks needs 32 MiB."""

    exponent: int
    blocks: int
    rounds: int
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @property
    def memory(self) -> int:
        """Bytes of memory that a comparison needs."""
        return int(128 * self.blocks * 2**self.exponent)

    @property
    def cost(self) -> int:
        """The cost of a comparison, in bytes that it processes."""
        return self.memory * self.rounds

    def matches(self, password: str) -> bool:
        return hmac.compare_digest(self._digest_of(password), self.digest)

    def _digest_of(self, password: str) -> bytes:
        # The same letters may be typed in several ways.
        text = unicodedata.normalize("NFC", password).encode("utf-8", "surrogatepass")
        return scrypt(
            text,
            salt=self.salt,
            n=2**self.exponent,
            r=self.blocks,
            p=self.rounds,
            maxmem=self.memory + 1024**2,
            dklen=len(self.digest),
        )

    def __str__(self) -> str:
        salt, digest = (b64encode(each).rstrip(b"=").decode() for each in (self.salt, self.digest))
        return f"$scrypt$ln={self.exponent},r={self.blocks},p={self.rounds}${salt}${digest}"


# The parameters of a decoy if no user has a password.
_CHEAP: Final = PasswordHash(15, 8, 1, bytes(_SALT), bytes(_DIGEST))


def hash_password(
    password: str, *, exponent: int = 15, blocks: int = 8, rounds: int = 3
) -> PasswordHash:
    empty = PasswordHash(exponent, blocks, rounds, secrets.token_bytes(_SALT), bytes(_DIGEST))
    return PasswordHash(exponent, blocks, rounds, empty.salt, empty._digest_of(password))  # noqa: SLF001 - its own


def read_password_hash(text: str) -> PasswordHash:
    """Read a hash. Raises ValueError, which does not quote it."""
    found = _HASH.fullmatch(text.strip())
    if found is None:
        raise ValueError("is not a password's hash: make one with `inboxd admin hash`")
    exponent, blocks, rounds = (int(each) for each in found.groups()[:3])
    salt, digest = (_decoded(each) for each in found.groups()[3:])
    hash_ = PasswordHash(exponent, blocks, rounds, salt, digest)
    if not (
        len(salt) >= _SALT
        and _DIGEST <= len(digest) <= 2 * _DIGEST
        and blocks > 0
        and 0 < rounds <= _MOST_ROUNDS
        and _LEAST_BYTES <= hash_.memory <= _MOST_BYTES
    ):
        raise ValueError(
            "is a hash that costs too little or too much to compare: make one with "
            "`inboxd admin hash`"
        )
    return hash_


def decoy(hashes: Iterable[PasswordHash]) -> PasswordHash:
    """No password matches it. As expensive as the dearest of these, and made without hashing."""
    dearest = max(hashes, key=lambda each: each.cost, default=_CHEAP)
    return PasswordHash(
        dearest.exponent,
        dearest.blocks,
        dearest.rounds,
        secrets.token_bytes(_SALT),
        secrets.token_bytes(len(dearest.digest)),
    )


def _decoded(text: str) -> bytes:
    """Decode base64 without padding; empty if the text is invalid."""
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return b""
