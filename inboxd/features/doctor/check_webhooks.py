"""`inboxd check`, webhook sources: whether a receiver can start, doubtful schemes, spool losses."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from inboxd.errors import PluginError, SettingsError
from inboxd.inbound.spool.checks import judge_spool
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.sources import judge_sources

if TYPE_CHECKING:
    from inboxd.settings import Settings, WebhookSource


def judge(settings: "Settings") -> Iterator[Finding]:
    for name, source in settings.inbound.webhooks.items():
        if settings.knows("inbound", "webhooks", name):
            yield from _verifier(name, source)
    yield from judge_sources(settings, datetime.now(UTC))
    yield from judge_spool(settings)


def _verifier(name: str, source: "WebhookSource") -> Iterator[Finding]:
    from inboxd.inbound.compiling import compile_source

    subject = f"webhooks: {name}"
    try:
        compiled = compile_source(name, source)
    except (SettingsError, PluginError) as error:
        remedy = "correct it: receivers do not start until then"
        yield Finding(subject, Verdict.CRITICAL, str(error), remedy)
        return
    for doubt in compiled.verifier.doubts:
        remedy = "see docs/webhook-schemes.md, and ask the sender"
        yield Finding(subject, Verdict.WARNING, doubt, remedy)
