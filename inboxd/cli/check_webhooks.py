"""What `inboxd check` says of webhook sources: those that cannot start, those in doubt, losses.

*See:* `inboxd/operations/doctor/sources.py`, which the doctor asks, too.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from inboxd.errors import PluginError, SettingsError
from inboxd.inbound.spool.judgement import judge_spool
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.sources import judge_sources

if TYPE_CHECKING:
    from inboxd.settings import Settings, WebhookSource


def judge(settings: "Settings") -> Iterator[Finding]:
    """All that is to be said of the sources that are right as settings."""
    for name, source in settings.inbound.webhooks.items():
        if settings.knows("inbound", "webhooks", name):
            yield from _verifier(name, source)
    yield from judge_sources(settings, datetime.now(UTC))
    yield from judge_spool(settings)


def _verifier(name: str, source: "WebhookSource") -> Iterator[Finding]:
    """Whether the receiver could start with it, and what its scheme doubts."""
    from inboxd.inbound.compiling import compile_source

    subject = f"webhooks: {name}"
    try:
        compiled = compile_source(name, source)
    except (SettingsError, PluginError) as error:
        remedy = "correct it: no receiver starts with it"
        yield Finding(subject, Verdict.CRITICAL, str(error), remedy)
        return
    for doubt in compiled.verifier.doubts:
        yield Finding(subject, Verdict.WARNING, doubt, "see docs/webhook-schemes.md, and ask them")
