"""Compiles the sources of the settings, each with its verifier.

Promises: an error of one source is a SettingsError that names its table and no secret; then none of
the sources is replaced. *See:* `sources.py`; `application.py`, which replaces its sources at the
start and at SIGHUP.
"""

from collections.abc import Mapping
from datetime import datetime

from inboxd.errors import SettingsError, UsageError
from inboxd.inbound.sources import CompiledSource
from inboxd.settings import Inbound, WebhookKey, WebhookSource
from inboxd.settings.inbound import REFERENCES
from inboxd.signatures import Key, Verifier, verifier


def compile_sources(settings: Inbound) -> Mapping[str, CompiledSource]:
    """All sources, by name. Raises SettingsError."""
    return {name: compile_source(name, source) for name, source in settings.webhooks.items()}


def compile_source(name: str, source: WebhookSource) -> CompiledSource:
    """Compiles one source. Raises SettingsError or PluginError."""
    try:
        verifier = verifier_of(source)
        _check_kept(source, verifier)
        return CompiledSource(name, source, verifier)
    except (SettingsError, UsageError) as error:
        raise SettingsError(f"[inbound.webhooks.{name}]: {error}") from error


def verifier_of(source: WebhookSource) -> Verifier:
    """The object that authenticates a source's requests, and signs as its sender does.

    Raises SettingsError or PluginError.
    """
    options = dict(source.options)
    for table in (source.hmac, source.certificate):
        if table is not None:
            options |= table.model_dump()
    keys = [_key(each) for each in source.keys]
    tolerance = source.tolerance.total_seconds()
    return verifier(source.scheme, keys, tolerance=tolerance, options=options)


def _check_kept(source: WebhookSource, verifier: Verifier) -> None:
    """Refuse to keep a header that holds a secret. Raises SettingsError."""
    kept = [("headers", name) for name in source.headers]
    for setting in REFERENCES:
        kind, _, name = (getattr(source, setting) or "").partition(":")
        kept += [(setting, name)] if kind == "header" else []
    for setting, name in kept:
        if name in verifier.secret_headers:
            raise SettingsError(
                f"{setting} has {name}, which holds the secret of scheme {source.scheme!r}; leave "
                "it out: each reader of the stored header could send"
            )


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
