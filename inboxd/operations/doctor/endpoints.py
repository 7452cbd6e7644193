"""Checks whether endpoints accept webhooks, and whether their URLs are safe.

Known limit: host names are not resolved: it finds only private addresses in URLs themselves.
"""

import ipaddress
from collections.abc import AsyncIterator
from datetime import datetime
from urllib.parse import urlsplit

from inboxd.model.wording import span
from inboxd.operations.doctor import thresholds
from inboxd.operations.doctor.finding import Finding, Verdict
from inboxd.operations.doctor.look import Look
from inboxd.store import endpoints as store
from inboxd.store.endpoints import EndpointRow

_NAME = "endpoints"


async def endpoints(look: Look) -> AsyncIterator[Finding]:
    rows = await store.listed(look.session)
    now = await look.now()
    found = [finding for row in rows for finding in (_state(row, now), _address(row)) if finding]
    if rows and not found:
        yield Finding(_NAME, Verdict.OK, "all accept their webhooks", figure=0)
    for finding in found:
        yield finding


def _state(row: EndpointRow, now: datetime) -> Finding | None:
    name = row["name"]
    if row["disabled_at"] is not None:
        since = max(0.0, (now - row["disabled_at"]).total_seconds())
        found = f"{name} has been disabled for {span(since)}: {row['disabled_reason']}"
        remedy = f"run `inboxd endpoints enable {name}` when it works again"
        by_hand = row["disabled_by"] in ("operator", "settings")
        verdict = Verdict.NOTICE if by_hand else Verdict.WARNING
        return Finding(_NAME, verdict, found, remedy, since, "seconds")
    if row["failing_since"] is None:
        return None
    since = max(0.0, (now - row["failing_since"]).total_seconds())
    found = f"{name} has been failing for {span(since)}: {row['last_failure']}"
    remedy = f"`inboxd endpoints deliveries {name}` shows its answers; inform its owner"
    verdict = thresholds.ENDPOINT_FAILING_SECONDS.judge(since)
    return Finding(_NAME, verdict, found, remedy, since, "seconds")


def _address(row: EndpointRow) -> Finding | None:
    parts = urlsplit(row["url"])
    if _is_private(parts.hostname or ""):
        found = f"{row['name']} has a private address: {parts.hostname}"
        remedy = "change its URL, or allow its network in outbound.webhooks.allow of the workers"
    elif parts.scheme == "http":
        found = f"{row['name']} has an http URL: its webhooks can be read on the network"
        remedy = f"run `inboxd endpoints change {row['name']} --url https://…`"
    else:
        return None
    return Finding(_NAME, Verdict.NOTICE, found, remedy)


def _is_private(host: str) -> bool:
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return host == "localhost" or host.endswith((".localhost", ".local", ".internal"))
