"""Compiles the sources of the settings, each with its verifier; after an error none is replaced."""

from collections.abc import Mapping

from inboxd.errors import SettingsError, UsageError
from inboxd.inbound.sources import CompiledSource
from inboxd.settings import Inbound, WebhookSource
from inboxd.settings.inbound import REFERENCES
from inboxd.signatures import Verifier
from inboxd.signatures.sources import verifier_of


def compile_sources(settings: Inbound) -> Mapping[str, CompiledSource]:
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
