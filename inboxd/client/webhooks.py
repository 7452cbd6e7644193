"""Webhooks from a producer: the calls of `send_webhooks`, page by page.

Owns `NewWebhook` and the receipt of a delivery. Promises: mistakes that can be known are refused
before anything is sent, with the webhook's place, counted from 0; memory holds one page. Known
limit: the pages before an invalid webhook have been sent when it is found; a transaction undoes
them.
"""

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import KW_ONLY, dataclass
from datetime import datetime
from typing import Any, NamedTuple, TypedDict
from uuid import UUID

from inboxd.client.pages import PAGE_CHARACTERS, PAGE_ROWS, Query
from inboxd.client.payload import encode
from inboxd.errors import PayloadError, UsageError
from inboxd.model import checks


class WebhookFields(TypedDict, total=False):
    """The keyword arguments of `Inbox.send_webhook`: the fields of `NewWebhook`."""

    ordering_key: str | None
    message_id: str | None
    tenant: str | None
    endpoint: str | None
    occurred_at: datetime | None
    run_at: datetime | None
    entity_type: str | None
    entity_id: str | None
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None


@dataclass(slots=True)
class NewWebhook:
    """A webhook to be sent: `NewWebhook("user.created", {"user_id": 3})`.

    Each enabled endpoint whose types match gets one delivery per `message_id`, even if that is sent
    again; None: it is generated. An `ordering_key` counts for endpoints that are ordered.
    `endpoint` names the only endpoint that may get it. `occurred_at` is the timestamp that
    endpoints read; None is now.
    """

    type: str
    payload: object = None
    _: KW_ONLY
    ordering_key: str | None = None
    message_id: str | None = None
    tenant: str | None = None
    endpoint: str | None = None
    occurred_at: datetime | None = None
    run_at: datetime | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    correlation_id: str | None = None
    causation_id: UUID | None = None
    traceparent: str | None = None


class Delivery(NamedTuple):
    """The receipt of a webhook for one endpoint.

    `duplicate`: the endpoint has this message id already, and nothing was written; `id` belongs to
    that delivery (None once it is settled).
    """

    endpoint: str
    message_id: str
    id: int | None
    command_id: UUID
    duplicate: bool


_CHECKS: dict[str, Callable[[Any], str | None]] = {
    "type": checks.name,
    "ordering_key": checks.key,
    "message_id": checks.message_id,
    "tenant": checks.short,
    "endpoint": checks.name,
    "occurred_at": checks.time,
    "run_at": checks.time,
    "entity_type": checks.short,
    "entity_id": checks.short,
    "correlation_id": checks.short,
    "causation_id": checks.uuid,
    "traceparent": checks.short,
}


def send(schema: str, webhooks: Iterable[NewWebhook]) -> Iterator[Query[Delivery]]:
    """Yield a call for each page; the receipts are its deliveries."""
    page, size = [], 0
    for position, webhook in enumerate(webhooks):
        page.append(_encoded(position, webhook))
        size += len(page[-1])
        if len(page) == PAGE_ROWS or size >= PAGE_CHARACTERS:
            yield _query(schema, f"[{','.join(page)}]")
            page, size = [], 0
    if page:
        yield _query(schema, f"[{','.join(page)}]")


def _encoded(position: int, webhook: object) -> str:
    """Encode a webhook as the JSON object that the function takes."""
    if not isinstance(webhook, NewWebhook):
        given = type(webhook).__name__
        raise UsageError(f"webhook {position} is a {given}: make it a NewWebhook(...).")
    fields = {name: value for name in _CHECKS if (value := getattr(webhook, name)) is not None}
    checks.refuse(f"webhook {position}: type", checks.name(webhook.type))
    for name, value in fields.items():
        checks.refuse(f"webhook {position}: {name}", _CHECKS[name](value))
    try:
        payload = encode(webhook.payload)
    except PayloadError as error:
        message = f"{error.message} (webhook {position}, type {webhook.type!r})"
        raise PayloadError(message, error.path) from None
    return f'{json.dumps(fields, default=_text)[:-1]},"payload":{payload}}}'


def _text(value: object) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def _query(schema: str, page: str) -> Query[Delivery]:
    def text(placeholder: Callable[[int], str]) -> str:
        # The call of a public function (docs/producers.md); `schema` was checked by Inbox.
        call = f"{schema}.send_webhooks({placeholder(1)}::text::jsonb)"
        columns = "endpoint, message_id, id, command_id, duplicate"
        return f"SELECT {columns} FROM {call} ORDER BY ordinal, endpoint"  # noqa: S608

    def receipts(rows: Iterable[Any]) -> list[Delivery]:
        return [Delivery(row[0], row[1], row[2], UUID(str(row[3])), row[4]) for row in rows]

    return Query(text, [page], receipts)
