"""Makes the verifiers of webhook sources from their settings; no error contains a secret."""

from collections.abc import Mapping
from datetime import datetime

from inboxd.errors import SettingsError
from inboxd.settings import WebhookKey, WebhookSource
from inboxd.signatures.contract import Key, Verifier
from inboxd.signatures.schemes import verifier


def verifier_for(name: str, source: WebhookSource) -> Verifier:
    """Return the verifier of a source. Raises SettingsError with the source's name."""
    try:
        return verifier_of(source)
    except SettingsError as error:
        raise SettingsError(f"[inbound.webhooks.{name}]: {error}") from error


def verifier_of(source: WebhookSource) -> Verifier:
    """Raises SettingsError, or PluginError for a plugin's scheme."""
    options = dict(source.options)
    for table in (source.hmac, source.certificate):
        if table is not None:
            options |= table.model_dump()
    keys = [_key(each) for each in source.keys]
    tolerance = source.tolerance.total_seconds()
    return verifier(source.scheme, keys, tolerance=tolerance, options=options)


def secret_header(verifier: Verifier, signed: Mapping[str, str]) -> str | None:
    return min(signed.keys() & verifier.secret_headers, default=None)


def _key(key: WebhookKey) -> Key:
    secret = b"" if key.secret is None else key.secret.get_secret_value().encode()
    return Key(
        key.id,
        secret,
        _seconds(key.not_before),
        _seconds(key.not_after),
        key.public_key or "",
    )


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else moment.timestamp()
