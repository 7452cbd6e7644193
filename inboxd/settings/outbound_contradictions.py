"""Contradictions within the settings of targets.

Owns the rules of `[targets.NAME]`. Promises that a rule is applied only if its target is valid by
itself.
*See:* `inboxd/settings/contradictions.py`, which calls this.
"""

from collections import Counter
from collections.abc import Iterator
from urllib.parse import SplitResult, urlsplit

from inboxd.settings.outbound import Target
from inboxd.settings.sections import Settings


def in_targets(settings: Settings) -> Iterator[str]:
    """Yield every contradiction, with the places of the target's values."""
    for name, target in settings.targets.items():
        if not settings.knows("targets", name):
            continue
        table = f"targets.{name}"
        place = settings.places_of(table, target)
        for found in (*_url(target), *_keys(target), *_headers(target)):
            yield f"{place}: [{table}]: {found}" if place else f"[{table}]: {found}"


def _url(target: Target) -> Iterator[str]:
    parts = _parsed(target.url)
    if parts is None:
        yield 'url is not the address of a service; set url = "https://host/…"'
    elif parts.username is not None or parts.password is not None:
        yield "url must not hold a user or password, since the URL is shown; set authorization_file"
    elif parts.query or parts.fragment:
        yield "url must not have a query or a fragment; put it into the path of each request"


def _parsed(url: str) -> SplitResult | None:
    """The URL's parts; None: it is not the URL of an HTTP service."""
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        return None
    return parts if valid else None


def _keys(target: Target) -> Iterator[str]:
    if target.signature != "none" and not target.keys:
        yield (
            f'signature = "{target.signature}" needs keys, such as '
            'keys = [{ id = "1", secret_file = "/etc/inboxd/…" }]'
        )
    if target.signature == "none" and target.keys:
        yield 'keys sign nothing without signature; set signature = "standard_webhooks"'
    if (target.signature == "hmac") != (target.hmac is not None):
        yield 'signature = "hmac" and hmac = { header = "…" } belong together: set both or neither'
    for id_, count in Counter(key.id for key in target.keys).items():
        if count > 1:
            yield f"{count} keys have the id {id_!r}; give each key an id of its own"
    for key in target.keys:
        if key.secret is None:
            yield f"key {key.id!r} has no secret, which signing needs; set secret_file"


def _headers(target: Target) -> Iterator[str]:
    if "authorization" in target.headers and target.authorization is not None:
        yield "authorization and headers.authorization are both set; leave one out"
