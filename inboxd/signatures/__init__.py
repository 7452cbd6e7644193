"""Signatures of webhooks: each scheme verifies requests, and signs in the sender's way.

Promises: a request is authentic only if a valid key has signed it; `verify` raises Unauthentic or
Malformed and nothing else, for any input; secrets are compared in constant time, and are in no repr
and no message. A header from a proxy counts only if `SignedRequest.from_trusted_proxy` is True,
which the receiver sets. A plugin adds a scheme by an entry point of the group `inboxd.verifiers`: a
factory with the arguments of `verifier`.
"""

from inboxd.errors import Malformed, Unauthentic
from inboxd.signatures.contract import Key, SignedRequest, Verifier
from inboxd.signatures.schemes import verifier

__all__ = ["Key", "Malformed", "SignedRequest", "Unauthentic", "Verifier", "verifier"]
