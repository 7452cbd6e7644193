"""Checks whether the sources of the settings can receive, and which webhooks they would lose.

Known limits: it checks its own settings and files, not the receiver's; it does not know which
senders retry, so it warns of lost webhooks for each setting that makes the receiver refuse some.
"""

import ssl
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta

from inboxd.model.wording import plural, span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.certificate import expires_at
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.settings import InboundHttp, Settings, WebhookKey, WebhookSource

_LOST = "and lost if the sender does not retry"


async def sources(look: Look) -> AsyncIterator[Finding]:
    for finding in judge_sources(look.settings, datetime.now(UTC)):
        yield finding


def judge_sources(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Yield each problem of each source, and one finding for all sources."""
    inbound = settings.inbound
    known = {
        name: source
        for name, source in inbound.webhooks.items()
        if settings.knows("inbound", "webhooks", name)
    }
    for name, source in known.items():
        for rule in (_keys, _losses, _small_bodies):
            yield from rule(f"webhooks: {name}", f"inbound.webhooks.{name}", source, now)
    if settings.knows("inbound", "http"):
        yield from _listener(inbound.http, now)
    if known and settings.knows("inbound", "spool") and inbound.spool.path is None:
        found = f"no spool: while the database is down each webhook is answered 503, {_LOST}"
        remedy = "set inbound.spool.path to a folder on a disk that outlives the process"
        yield Finding("webhooks", Verdict.NOTICE, found, remedy)
    found = f"{plural(len(known), 'source')}: {', '.join(known)}" if known else "none"
    yield Finding("webhooks", Verdict.OK, found, figure=len(known))


def _keys(subject: str, table: str, source: WebhookSource, now: datetime) -> Iterator[Finding]:
    if not source.keys:
        return  # its scheme needs none, or the settings refuse it
    valid = [each for each in source.keys if _is_valid(each, now)]
    if not valid:
        found = f"none of its {plural(len(source.keys), 'key')} is valid: it answers 401 to all"
        remedy = f"add a current key to {table}.keys, and send HUP"
        yield Finding(subject, Verdict.CRITICAL, found, remedy)
        return
    soon = now + timedelta(days=thresholds.EXPIRES_DAYS)
    later = [each for each in source.keys if each.not_after is None or each.not_after > soon]
    if not later:
        last = max(each.not_after for each in valid if each.not_after is not None)
        found = f"its last key ends in {span((last - now).total_seconds())}"
        remedy = (
            f"add the sender's next key to {table}.keys; without a valid key it answers 401 to all "
            "requests"
        )
        yield Finding(subject, Verdict.WARNING, found, remedy)


def _is_valid(key: WebhookKey, now: datetime) -> bool:
    begun = key.not_before is None or key.not_before <= now
    return begun and (key.not_after is None or now <= key.not_after)


def _losses(subject: str, table: str, source: WebhookSource, _: datetime) -> Iterator[Finding]:
    if source.paused == "refuse":
        yield Finding(
            subject,
            Verdict.WARNING,
            f"it is paused: each webhook is answered 503, {_LOST}",
            f'set {table}.paused to "hold", which stores webhooks, or to "no"',
        )
    if source.rate is not None:
        found = f"its rate is limited: webhooks above it are answered 429, {_LOST}"
        remedy = f"do nothing if the sender retries; otherwise remove {table}.rate"
        yield Finding(subject, Verdict.NOTICE, found, remedy)


def _small_bodies(
    subject: str, table: str, source: WebhookSource, _: datetime
) -> Iterator[Finding]:
    if source.max_body < thresholds.WEBHOOK_BODY_BYTES:
        found = f"bodies of more than {source.max_body} bytes are answered 413, {_LOST}"
        remedy = f"raise {table}.max_body: few senders promise to stay below 20 kB"
        yield Finding(subject, Verdict.NOTICE, found, remedy)


def _listener(http: InboundHttp, now: datetime) -> Iterator[Finding]:
    if http.rate_per_address is not None:
        found = f"the rate per address is limited: webhooks above it are answered 429, {_LOST}"
        remedy = "do nothing if all senders retry; otherwise remove inbound.http.rate_per_address"
        yield Finding("webhooks", Verdict.NOTICE, found, remedy)
    if http.certificate is None or http.private_key is None:
        return
    subject, files = "webhooks: TLS", f"{http.certificate} and {http.private_key}"
    try:
        ends = expires_at(http.certificate, http.private_key)
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "verify_message", "") or getattr(error, "reason", "")
        found = f"{files} cannot be used: {why or error.strerror or error}"
        remedy = "correct inbound.http.certificate and private_key, or renew the certificate"
        yield Finding(subject, Verdict.CRITICAL, found, remedy)
        return
    left = (ends - now).total_seconds()
    soon = left < thresholds.EXPIRES_DAYS * 86_400
    verdict = Verdict.CRITICAL if left <= 0 else Verdict.WARNING if soon else Verdict.OK
    found = f"the certificate ends in {span(left)}" if left > 0 else "the certificate ended"
    remedy = "renew it, and send HUP to the receiver"
    yield Finding(subject, verdict, found, remedy, left, "seconds")
