"""Contradictions within the settings of webhook sources.

Owns the rules of `[inbound.webhooks.NAME]`. Promises that a rule is applied only if its source is
valid by itself.
*See:* `inboxd/settings/contradictions.py`, which calls this.
"""

from collections import Counter
from collections.abc import Callable, Iterator

from inboxd.settings.brokers import MessageSource
from inboxd.settings.inbound import (
    NEEDS_KEYS,
    PUBLIC_KEYS,
    REFERENCES,
    SCHEMES,
    WebhookKey,
    WebhookSource,
)
from inboxd.settings.sections import Settings


def in_webhooks(settings: Settings) -> Iterator[str]:
    """Yield every contradiction, with the places of the source's values."""
    for name, source in settings.inbound.webhooks.items():
        table = f"inbound.webhooks.{name}"
        if not settings.knows("inbound", "webhooks", name):
            continue
        place = settings.places_of(table, source)
        for found in (*_of_source(source), *_beside_the_listener(settings, source)):
            yield f"{place}: [{table}]: {found}" if place else f"[{table}]: {found}"


def points_into_text(source: WebhookSource | MessageSource) -> Iterator[str]:
    """Yield pointers into a text body, which has no parts."""
    for setting in REFERENCES if source.body == "text" else ():
        if (getattr(source, setting) or "").startswith("pointer:"):
            yield f'{setting} is a pointer, but body = "text" is not JSON; use a header or text'


def _of_source(source: WebhookSource) -> Iterator[str]:
    for rule in _RULES:
        yield from rule(source)


def _type_is_said_once(source: WebhookSource) -> Iterator[str]:
    if (source.type is None) == (source.type_from is None):
        if source.type is None:
            yield 'its events have no type; set type = "…", or type_from = "pointer:/…"'
        else:
            yield "type and type_from are both set; leave one out"
    if source.type_prefix and source.type_from is None:
        yield "type_prefix needs type_from: without it, write the prefix into type"


def _scheme_has_its_table(source: WebhookSource) -> Iterator[str]:
    tables = {"hmac": source.hmac, "client_certificate": source.certificate}
    for scheme, table in tables.items():
        setting = "certificate" if scheme == "client_certificate" else scheme
        if source.scheme == scheme and table is None:
            yield f'scheme = "{scheme}" needs {setting} = {{ header = "…", … }}'
        if source.scheme != scheme and table is not None:
            yield f'{setting} is for scheme = "{scheme}", not for {source.scheme!r}; leave one out'
    if source.options and source.scheme in tables:
        yield f"options is for schemes without a table of their own; {source.scheme!r} has one"


def _certificate_has_subjects(source: WebhookSource) -> Iterator[str]:
    if source.certificate is not None and not (source.certificate.subjects or source.keys):
        yield "certificate.subjects is empty, so no request is accepted; name the sender's subject"


def _scheme_has_keys(source: WebhookSource) -> Iterator[str]:
    if source.scheme in NEEDS_KEYS and not source.keys:
        yield (
            f'scheme = "{source.scheme}" needs keys, such as '
            'keys = [{ id = "1", secret_file = "/etc/inboxd/…" }]'
        )


def _keys_are_whole(source: WebhookSource) -> Iterator[str]:
    for id_, count in Counter(key.id for key in source.keys).items():
        if count > 1:
            yield f"{count} keys have the id {id_!r}; give each key an id of its own"
    for key in source.keys:
        yield from (f"key {key.id!r} {found}" for found in _of_key(key, source.scheme))


def _of_key(key: WebhookKey, scheme: str) -> Iterator[str]:
    secret = key.secret is not None or key.secret_file is not None
    if not secret and key.public_key is None:
        yield (
            "has no secret; set secret_file, or give the file webhook_NAME_ID "
            "(docs/configuration.md, secret files)"
        )
    if secret and key.public_key is not None:
        yield "has a secret and a public_key; leave one out"
    if key.public_key is not None and scheme in SCHEMES and scheme not in PUBLIC_KEYS:
        yield f"has a public_key, which scheme {scheme!r} cannot use; set secret_file"
    if key.not_before and key.not_after and key.not_after <= key.not_before:
        yield "is never valid: its not_after is not later than its not_before"


def _body_has_what_is_referred_to(source: WebhookSource) -> Iterator[str]:
    if source.items is not None and source.body != "json":
        yield f'items needs body = "json": there is no array in {_BODIES[source.body]}'
    yield from points_into_text(source)


def _burst_has_a_rate(source: WebhookSource) -> Iterator[str]:
    if source.burst is not None and source.rate is None:
        yield "burst needs rate: without it nothing is limited"


def _beside_the_listener(settings: Settings, source: WebhookSource) -> Iterator[str]:
    http = settings.inbound.http
    known = settings.knows
    if known("inbound", "http", "max_bytes") and source.max_body > http.max_bytes:
        yield (
            "max_body is more than inbound.http.max_bytes, so the largest bodies are always "
            "refused; lower max_body, or raise max_bytes"
        )
    proxies_known = known("inbound", "http", "trusted_proxies")
    if source.scheme == "client_certificate" and proxies_known and not http.trusted_proxies:
        yield (
            'scheme = "client_certificate" needs inbound.http.trusted_proxies, or anybody could '
            "send the proxy's header; name the addresses of the proxy"
        )


_BODIES = {"form": "a form", "text": "text"}
_RULES: tuple[Callable[[WebhookSource], Iterator[str]], ...] = (
    _type_is_said_once,
    _scheme_has_its_table,
    _certificate_has_subjects,
    _scheme_has_keys,
    _keys_are_whole,
    _body_has_what_is_referred_to,
    _burst_has_a_rate,
)
