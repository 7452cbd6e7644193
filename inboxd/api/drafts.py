"""Commands and events that are not written yet, and the encoding of JSON.

Owns the drafts and the encoder. Promises: encoded values can be stored as jsonb and read back
unchanged; a NUL, a NaN or an infinity is refused with the path of its field, where a plain encoder
would store null or fail the whole page.
Known limit: integers beyond 64 bits fit only in pydantic models.
*See:* `context`, which gathers them; `store/emitted.py`, which writes events and webhooks.
"""

from __future__ import annotations

from datetime import datetime
from functools import partial
from typing import NamedTuple, TypeAlias
from uuid import UUID

import orjson
from pydantic import BaseModel
from pydantic_core import PydanticSerializationError, to_jsonable_python

from inboxd.errors import PayloadError
from inboxd.model import storable
from inboxd.model.checks import OnConflict


class CommandDraft(NamedTuple):
    """A command to be inserted with the settlement of the row whose handler sent it.

    payload is JSON text. queue None: the queue that the type declares. delay: seconds from the
    insert; it excludes run_at. batch: the batch of which it is a member. origin: the batch whose
    end starts it. needs: how many commands or batches must end before it runs. awaited: another row
    waits for it.
    """

    command_id: UUID
    type: str
    payload: str
    schema_version: int = 1
    queue: str | None = None
    priority: int = 0
    run_at: datetime | None = None
    delay: float | None = None
    deadline: datetime | None = None
    expires_at: datetime | None = None
    max_attempts: int | None = None
    tenant: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    ordering_key: str | None = None
    unique_key: str | None = None
    on_conflict: OnConflict = "keep"
    batch: UUID | None = None
    origin: UUID | None = None
    needs: int = 0
    awaited: bool = False


class EventDraft(NamedTuple):
    """An event to be inserted with the settlement of the row whose handler emitted it.

    payload and headers are JSON text. topic None: the topics that subscribe to the type.
    occurred_at and run_at None: the insert's time. delay: seconds from the insert; it excludes
    run_at.
    """

    event_id: UUID
    type: str
    payload: str
    schema_version: int = 1
    topic: str | None = None
    source: str | None = None
    tenant: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    headers: str | None = None
    occurred_at: datetime | None = None
    run_at: datetime | None = None
    mode: str | None = None
    ordering_key: str | None = None
    dedup_key: str | None = None
    delay: float | None = None


class WebhookDraft(NamedTuple):
    """A webhook whose deliveries are written with the settlement of the row that sent it.

    payload is JSON text. message_id None: it is generated. endpoint None: all endpoints whose types
    match. occurred_at and run_at None: the insert's time. emitted: it is an emitted event, so that
    only endpoints with `events` get it.
    """

    type: str
    payload: str
    message_id: str | None = None
    endpoint: str | None = None
    ordering_key: str | None = None
    tenant: str | None = None
    entity_type: str | None = None
    entity_id: str | None = None
    occurred_at: datetime | None = None
    run_at: datetime | None = None
    emitted: bool | None = None


# Emitted drafts go to subscribed topics, or to endpoints whose types match.
EmittedDraft: TypeAlias = EventDraft | WebhookDraft


def encode(value: object) -> str:
    """JSON text of a pydantic model, or of any value that orjson knows; raises PayloadError.

    None becomes null.
    """
    try:
        if isinstance(value, BaseModel):
            text = value.model_dump_json(warnings="error")
        else:
            text = orjson.dumps(value, default=to_jsonable_python).decode()
    except (TypeError, ValueError, RecursionError, PydanticSerializationError) as error:
        # Not chained: these errors quote the value, and payloads must not reach logs.
        kind = type(value).__name__
        raise PayloadError(f"{kind} cannot be written as JSON ({_reason(error)}).") from None
    # Each of these texts may be harmless ("null" is usually None), so look at the values.
    if "\\u0000" in text or "null" in text or "NaN" in text or "Infinity" in text:
        refusal = storable.refusal(value, partial(to_jsonable_python, by_alias=False))
        if refusal is not None:
            raise refusal
    return text


def _reason(error: Exception) -> str:
    """The first line of the encoder's error, which names types and limits, never values."""
    if isinstance(error, PydanticSerializationError):
        return "a field's value does not have its annotated type, or has no form in JSON"
    return str(error).partition("\n")[0]
