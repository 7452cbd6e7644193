"""Compiles the sources of the settings, each with its verifier.

Promises: an error of one source is a SettingsError that names its table and no secret; after such
an error no source is replaced. *See:* `sources.py`; `application.py`, which replaces its sources at
the start and at SIGHUP.
"""

from collections.abc import Mapping

from inboxd.errors import SettingsError, UsageError
from inboxd.inbound.sources import CompiledSource
from inboxd.settings import Inbound, WebhookSource
from inboxd.settings.inbound import REFERENCES
from inboxd.signatures import Verifier
from inboxd.signatures.sources import verifier_of


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


def _check_kept(source: WebhookSource, verifier: Verifier) -> None:
    """Refuse to keep a header that contains a secret. Raises SettingsError."""
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
