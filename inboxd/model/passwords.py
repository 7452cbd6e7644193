"""Passwords as they are kept: scrypt, in the form that other tools write too.

Owns the text `$scrypt$ln=15,r=8,p=3$SALT$DIGEST`. Promises that comparing takes as long for a wrong
password as for the right one, that a hash which costs too little to guess, or more memory than a
process should give, is refused, and that neither is in a representation or an error.
Known limit: one comparison takes a quarter of a second and 32 MiB, so it belongs in a thread.
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

# Longer than a passphrase; a form's field could be of any size.
LONGEST: Final = 1024
_SALT, _DIGEST = 16, 32
_HASH = re.compile(
    r"\$scrypt\$ln=(\d{1,2}),r=(\d{1,2}),p=(\d{1,2})\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)"
)
# 128 bytes for each block of each step: 16 to 128 MiB.
_LEAST_MEMORY, _MOST_MEMORY = 16 * 1024**2, 128 * 1024**2
_MOST_ROUNDS = 16


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """What is kept of a password. exponent: of the steps; 2 ** 15 of 8 blocks take 32 MiB."""

    exponent: int
    blocks: int
    rounds: int
    salt: bytes = field(repr=False)
    digest: bytes = field(repr=False)

    @property
    def memory(self) -> int:
        """Bytes that a comparison takes."""
        return int(128 * self.blocks * 2**self.exponent)

    @property
    def cost(self) -> int:
        """What a comparison costs, in bytes that are passed over."""
        return self.memory * self.rounds

    def matches(self, password: str) -> bool:
        """Whether it is this password's."""
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


# What a decoy is like where nobody has a password.
_CHEAP: Final = PasswordHash(15, 8, 1, bytes(_SALT), bytes(_DIGEST))


def hash_password(
    password: str, *, exponent: int = 15, blocks: int = 8, rounds: int = 3
) -> PasswordHash:
    """A hash of a password, with a salt of its own."""
    empty = PasswordHash(exponent, blocks, rounds, secrets.token_bytes(_SALT), bytes(_DIGEST))
    return PasswordHash(exponent, blocks, rounds, empty.salt, empty._digest_of(password))  # noqa: SLF001 - its own


def read_password_hash(text: str) -> PasswordHash:
    """The hash that a text is. Raises ValueError, which does not quote it."""
    found = _HASH.fullmatch(text.strip())
    if found is None:
        raise ValueError("is not a password's hash: make it by `inboxd admin hash`")
    exponent, blocks, rounds = (int(each) for each in found.groups()[:3])
    salt, digest = (_decoded(each) for each in found.groups()[3:])
    hash_ = PasswordHash(exponent, blocks, rounds, salt, digest)
    if not (
        len(salt) >= _SALT
        and _DIGEST <= len(digest) <= 2 * _DIGEST
        and blocks > 0
        and 0 < rounds <= _MOST_ROUNDS
        and _LEAST_MEMORY <= hash_.memory <= _MOST_MEMORY
    ):
        raise ValueError(
            "is a hash that costs too little or too much to compare: make it by `inboxd admin hash`"
        )
    return hash_


def decoy(hashes: Iterable[PasswordHash]) -> PasswordHash:
    """One that no password matches, and that costs as much as the most expensive of these.

    Nothing is hashed for it: it is made wherever settings are read.
    """
    dearest = max(hashes, key=lambda each: each.cost, default=_CHEAP)
    return PasswordHash(
        dearest.exponent,
        dearest.blocks,
        dearest.rounds,
        secrets.token_bytes(_SALT),
        secrets.token_bytes(len(dearest.digest)),
    )


def _decoded(text: str) -> bytes:
    """Base64 without its padding; empty if it is none."""
    try:
        return b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return b""
