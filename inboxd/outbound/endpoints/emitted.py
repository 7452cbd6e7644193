"""The handler of `webhook.emitted`: sends an emitted event as a webhook.

Promises: deliveries are written with the command's settlement, once per endpoint that wants the
event, whose id is the message id. Known limits: the endpoints are chosen when this runs, moments
after the commit of the event; a number with a fraction is sent as a float. *See:*
`migrations/functions/events_emitted.sql`, before it; `migrations/functions/write_webhooks.sql`.
"""

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from inboxd.api.context import CommandContext
from inboxd.api.drafts import WebhookDraft
from inboxd.api.handlers import Handlers
from inboxd.model.endpoints import EMITTED, EMITTED_QUEUE


@dataclass(frozen=True, slots=True)
class FactToTell:
    """The payload of `webhook.emitted`, written by `write_emitted`. id: the event's id."""

    id: str
    type: str
    timestamp: str
    data: Any
    ordering_key: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None

    def draft(self, tenant: str | None) -> WebhookDraft:
        return WebhookDraft(
            self.type,
            # Not encoded like a handler's payload, since it came from the database, which accepts
            # it.
            json.dumps(self.data, ensure_ascii=False, separators=(",", ":")),
            message_id=self.id,
            ordering_key=self.ordering_key,
            tenant=tenant,
            entity_type=self.entity_type,
            entity_id=self.entity_id,
            occurred_at=datetime.fromisoformat(self.timestamp),
            emitted=True,
        )


def declare(handlers: Handlers) -> None:
    @handlers.command(EMITTED, queue=EMITTED_QUEUE)
    async def tell_endpoints(fact: FactToTell, ctx: CommandContext) -> None:
        """Send an emitted event to each endpoint that wants events of its type."""
        ctx.events.append(fact.draft(ctx.tenant))
