"""The interface of verifiers: request, key, and the verifier's own properties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol


class SignedRequest(NamedTuple):
    headers: Mapping[str, str]
    """Lower-case names; values are latin-1 text; repeated headers are joined by ", "."""
    body: bytes
    path: str = ""
    from_trusted_proxy: bool = False
    """Whether the peer of the connection is one of `inbound.http.trusted_proxies`."""


@dataclass(frozen=True, slots=True)
class Key:
    """A key of the settings; the scheme decodes it. Its repr has no secret."""

    id: str
    secret: bytes = field(default=b"", repr=False)
    not_before: float | None = None
    """Unix seconds, both inclusive; None: no bound."""
    not_after: float | None = None
    public_key: str = ""
    """Instead of a secret, if the scheme has key pairs: `whpk_…`."""

    def is_valid(self, now: float) -> bool:
        return (self.not_before is None or self.not_before <= now) and (
            self.not_after is None or now <= self.not_after
        )


class Verifier(Protocol):
    """Authenticates requests of one source. Inherit from it, and override the parts that differ."""

    signed_headers: frozenset[str] = frozenset()
    """Headers that are stored with the receipt, so that a signature can be verified again."""
    secret_headers: frozenset[str] = frozenset({"authorization"})
    """Headers that are never stored or logged, since they contain the secret itself."""
    default_dedup_key: str | None = None
    """Place of the sender's own id: "header:webhook-id", "pointer:/id"; None: there is no id."""
    doubts: tuple[str, ...] = ()
    """Warnings about these settings: logged at start, and shown by `check`."""

    def verify(self, request: SignedRequest, now: float) -> str:
        """Return the id of the matching key. Raises only Unauthentic or Malformed."""
        ...

    def seconds(self, size: int) -> float:  # noqa: ARG002 - used in subclasses
        """Longest time of `verify`; above 5 ms it runs in two threads, and must keep no state."""
        return 0.0

    def sign(self, body: bytes, message_id: str, now: float) -> dict[str, str]:
        """Return the headers that the sender would send. Raises UsageError if it cannot sign."""
        ...
