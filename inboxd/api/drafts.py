"""Commands and events that are not written yet, and the JSON that they and results hold.

Owns the drafts and the encoder. Promises: what is encoded can be stored as jsonb and read back as
it was; a NUL, a NaN or an infinity is refused with the path of the field, where a plain encoder
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

    payload is JSON text; queue None means the one that the type declares; delay is in seconds from
    the insert, and excludes run_at. batch is the one that it is a member of, origin the one whose
    end brings it about. needs counts what must end before it (it waits until then); awaited:
    something waits for it.
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

    payload and headers are JSON text; topic None means those that the type is subscribed to;
    occurred_at and run_at None mean the insert's time; delay is in seconds from it, and excludes
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

    payload is JSON text; message_id None is made; endpoint None means all whose types match;
    occurred_at and run_at None mean the insert's time. emitted: it is an event that was emitted, so
    only endpoints that ask for events get it; None: it is not.
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


# What handlers emit: for whoever is subscribed, or whose types match.
EmittedDraft: TypeAlias = EventDraft | WebhookDraft


def encode(value: object) -> str:
    """JSON text of a pydantic model, or of whatever orjson knows; raises PayloadError.

    A result of None is JSON's null.
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
    # Any of these may be harmless ("null" is usually None): look closer, but only then.
    if "\\u0000" in text or "null" in text or "NaN" in text or "Infinity" in text:
        refusal = storable.refusal(value, partial(to_jsonable_python, by_alias=False))
        if refusal is not None:
            raise refusal
    return text


def _reason(error: Exception) -> str:
    """What is wrong, in the encoder's first line: it names types and limits, never values."""
    if isinstance(error, PydanticSerializationError):
        return "a field's value is not what its annotation says, or has no form in JSON"
    return str(error).partition("\n")[0]
