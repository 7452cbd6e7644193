"""Can the sources of the settings receive, and what would they lose?

Owns what is said of `[inbound]` by `inboxd doctor` and `inboxd check`. Known limits: it judges
the settings and files that the command reads, which need not be those of the receiver; what a
sender does is not known, so each refusal that the settings choose is called a loss.
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

_LOST = "and lost where the sender does not send again"


async def sources(look: Look) -> AsyncIterator[Finding]:
    """The sources of the settings."""
    for finding in judge_sources(look.settings, datetime.now(UTC)):
        yield finding


def judge_sources(settings: Settings, now: datetime) -> Iterator[Finding]:
    """Each trouble of each source, and one line for all of them."""
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
        found = f"there is no spool: while the database is away all is answered 503, {_LOST}"
        remedy = "set inbound.spool.path, a folder on a disk that outlives the process"
        yield Finding("webhooks", Verdict.NOTICE, found, remedy)
    found = f"{plural(len(known), 'source')}: {', '.join(known)}" if known else "none"
    yield Finding("webhooks", Verdict.OK, found, figure=len(known))


def _keys(subject: str, table: str, source: WebhookSource, now: datetime) -> Iterator[Finding]:
    if not source.keys:
        return  # its scheme needs none, or it is refused
    counting = [each for each in source.keys if _counts(each, now)]
    if not counting:
        found = f"none of its {plural(len(source.keys), 'key')} counts now: all is answered 401"
        remedy = f"add a current key to {table}.keys, and send HUP"
        yield Finding(subject, Verdict.CRITICAL, found, remedy)
        return
    soon = now + timedelta(days=thresholds.EXPIRES_DAYS)
    later = [each for each in source.keys if each.not_after is None or each.not_after > soon]
    if not later:
        last = max(each.not_after for each in counting if each.not_after is not None)
        found = f"its last key ends in {span((last - now).total_seconds())}"
        remedy = f"add the sender's next key to {table}.keys; until then all is answered 401"
        yield Finding(subject, Verdict.WARNING, found, remedy)


def _counts(key: WebhookKey, now: datetime) -> bool:
    begun = key.not_before is None or key.not_before <= now
    return begun and (key.not_after is None or now <= key.not_after)


def _losses(subject: str, table: str, source: WebhookSource, _: datetime) -> Iterator[Finding]:
    if source.paused == "refuse":
        yield Finding(
            subject,
            Verdict.WARNING,
            f"it is paused, and what comes is refused with 503, {_LOST}",
            f'set {table}.paused to "hold", which stores what comes, or to "no"',
        )
    if source.rate is not None:
        found = f"its rate is limited: what comes faster is answered 429, {_LOST}"
        remedy = f"nothing, if the sender sends again; else take {table}.rate away"
        yield Finding(subject, Verdict.NOTICE, found, remedy)


def _small_bodies(
    subject: str, table: str, source: WebhookSource, _: datetime
) -> Iterator[Finding]:
    if source.max_body < thresholds.WEBHOOK_BODY_BYTES:
        found = f"bodies of more than {source.max_body} bytes are answered 413, {_LOST}"
        remedy = f"raise {table}.max_body: senders keep below 20 kB at best, and few promise it"
        yield Finding(subject, Verdict.NOTICE, found, remedy)


def _listener(http: InboundHttp, now: datetime) -> Iterator[Finding]:
    if http.rate_per_address is not None:
        found = f"addresses have a rate: what comes faster is answered 429, {_LOST}"
        remedy = "nothing, if all senders send again; else take inbound.http.rate_per_address away"
        yield Finding("webhooks", Verdict.NOTICE, found, remedy)
    if http.certificate is None or http.private_key is None:
        return
    subject, files = "webhooks: TLS", f"{http.certificate} and {http.private_key}"
    try:
        ends = expires_at(http.certificate, http.private_key)
    except (OSError, ssl.SSLError) as error:
        why = getattr(error, "verify_message", "") or getattr(error, "reason", "")
        told = f"{files} cannot be used: {why or error.strerror or error}"
        remedy = "correct inbound.http.certificate and private_key, or renew the certificate"
        yield Finding(subject, Verdict.CRITICAL, told, remedy)
        return
    left = (ends - now).total_seconds()
    soon = left < thresholds.EXPIRES_DAYS * 86_400
    verdict = Verdict.CRITICAL if left <= 0 else Verdict.WARNING if soon else Verdict.OK
    found = f"the certificate ends in {span(left)}" if left > 0 else "the certificate ended"
    remedy = "renew it, and send the receiver a HUP"
    yield Finding(subject, verdict, found, remedy, left, "seconds")
