"""What a verifier is given, what it answers, and what it needs to know of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class SignedRequest(NamedTuple):
    """A request as far as a verifier may look at it."""

    headers: Mapping[str, str]
    """Lower-case names; values are latin-1 text; a header that is repeated is joined by ", "."""
    body: bytes
    path: str = ""
    from_trusted_proxy: bool = False
    """Whether the peer of the connection is one of `inbound.http.trusted_proxies`."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key as the settings give it: the scheme decodes it. No secret is in its repr."""

    id: str
    secret: bytes = field(default=b"", repr=False)
    not_before: float | None = None
    """Unix seconds, both inclusive; None is without bound."""
    not_after: float | None = None
    public_key: str = ""
    """Instead of a secret, where the scheme has key pairs: `whpk_…`."""

    def is_valid(self, now: float) -> bool:
        """Whether it counts at a time."""
        return (self.not_before is None or self.not_before <= now) and (
            self.not_after is None or now <= self.not_after
        )


class Verifier(Protocol):
    """Authenticates requests of one source. Inherit from it, and override what differs."""

    signed_headers: frozenset[str] = frozenset()
    """Kept with the receipt: with them and the body a signature can be verified again."""
    secret_headers: frozenset[str] = frozenset({"authorization"})
    """Never kept and never logged: they are the secret itself."""
    default_dedup_key: str | None = None
    """Where the sender's own id is: "header:webhook-id", "pointer:/id"; None: it has none."""
    doubts: tuple[str, ...] = ()
    """What an operator should know of these settings: logged at start, and shown by `check`."""

    def verify(self, request: SignedRequest, now: float) -> str:
        """Return the id of the key that matched. Raises Unauthentic, or Malformed, nothing else."""
        ...

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:
        """Return the headers that the sender would send; raises UsageError if it cannot sign."""
        ...
