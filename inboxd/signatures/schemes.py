"""Makes a verifier by the name of its scheme: inboxd's own, or a plugin's."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from inboxd.errors import SettingsError
from inboxd.model.spelling import did_you_mean
from inboxd.signatures.bearer import BearerVerifier
from inboxd.signatures.client_certificate import ClientCertificateVerifier
from inboxd.signatures.contract import Key, Verifier
from inboxd.signatures.generic_hmac import GithubVerifier, HmacVerifier
from inboxd.signatures.plugins import installed, of_plugin
from inboxd.signatures.standard_webhooks import StandardWebhooksVerifier, SvixVerifier
from inboxd.signatures.stripe import StripeVerifier

_Factory = Callable[[Sequence[Key], float, Mapping[str, Any]], Verifier]

_OWN: dict[str, _Factory] = {
    "bearer": BearerVerifier,
    "client_certificate": ClientCertificateVerifier,
    "github": GithubVerifier,
    "hmac": HmacVerifier,
    "standard_webhooks": StandardWebhooksVerifier,
    "stripe": StripeVerifier,
    "svix": SvixVerifier,
}


def verifier(
    scheme: str, keys: Sequence[Key], *, tolerance: float, options: Mapping[str, Any] | None = None
) -> Verifier:
    """tolerance: seconds early or late. Raises as `sources.verifier_of`."""
    given = {name: value for name, value in (options or {}).items() if value is not None}
    if factory := _OWN.get(scheme):
        return factory(keys, tolerance, given)
    if (found := of_plugin(scheme, keys, tolerance, given)) is not None:
        return found
    there = [*_OWN, *installed()]
    hint = did_you_mean(scheme, there) or f"; known: {', '.join(sorted(there))}."
    raise SettingsError(f"scheme {scheme!r} is not known{hint}")
