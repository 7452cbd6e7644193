"""Signatures of webhooks: each scheme verifies what came, and signs as the sender would.

`verifier` makes the one of a source from its keys and options. A plugin adds a scheme by an entry
point of the group `inboxd.verifiers` that names a factory of the same arguments.

Promises: nothing is authentic that no valid key has signed; `verify` raises Unauthentic or
Malformed and nothing else, whatever the bytes are; secrets are compared in constant time, and are
in no repr and no message. A header that a proxy sets counts only if
`SignedRequest.from_trusted_proxy` says so: the receiver, who knows the peer, answers for that.
*See:* `docs/webhook-schemes.md`.
"""

from inboxd.errors import Malformed, Unauthentic
from inboxd.signatures.contract import Key, SignedRequest, Verifier
from inboxd.signatures.schemes import verifier

__all__ = ["Key", "Malformed", "SignedRequest", "Unauthentic", "Verifier", "verifier"]
