"""Decoding of payloads: from JSON text to the type of a handler's annotation.

Owns decoding, upcasting, and events that travel inside commands. Promises: every problem of a
payload is a PayloadError with the field's path, never the value, because its text reaches logs and
screens (promise 10); a payload of another version is never guessed at.
Known limits: a path names keys, so a mapping keyed by something private shows that key. A number
with a fraction is read as a float, even into a Decimal: exact amounts travel as text, which is how
pydantic writes a Decimal.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from math import isinf
from typing import Any, Generic, TypeVar, get_args
from uuid import UUID

import orjson
from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_core.core_schema import ErrorType

from inboxd.api.drafts import CommandDraft, encode
from inboxd.api.messages import Event, Row, moment, occurred
from inboxd.api.records import CommandHandler, Handler
from inboxd.errors import PayloadError, TooNew
from inboxd.model.lineage import uuid7
from inboxd.model.misfit import in_other_words, misfit

P = TypeVar("P")

PROBLEMS_SHOWN = 5
PATH_LENGTH = 200

# Error types whose messages quote the payload, or might, since a plugin wrote them.
_QUOTING = {
    "assertion_error",
    "custom_error",
    "get_attribute_error",
    "iteration_error",
    "mapping_type",
    "union_tag_invalid",
    "uuid_parsing",
    "value_error",
}
_PLAIN = frozenset(get_args(ErrorType)) - _QUOTING

# jsonb holds numbers that no float can hold, and writes them without an exponent.
_LONGEST_NUMBER = 308
_OVERLONG = re.compile(rf"[0-9]{{{_LONGEST_NUMBER + 1}}}")
_DIGITS = frozenset("0123456789")
_DIGITS_BUT_ZERO = _DIGITS - {"0"}


@dataclass(frozen=True)
class CarriedEvent:
    """The row of an event, as it travels inside a command; named as in the table."""

    id: int
    event_id: UUID
    topic: str
    type: str
    schema_version: int
    source: str | None
    tenant: str | None
    entity_type: str | None
    entity_id: str | None
    headers: Any
    correlation_id: str | None
    causation_id: UUID | None
    traceparent: str | None
    occurred_at: datetime
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Envelope(Generic[P]):
    """The payload of a command that carries an event."""

    event: CarriedEvent
    payload: P


_FIELDS = tuple(CarriedEvent.__dataclass_fields__)


def decode(handler: Handler, raw: str, version: int) -> Any:
    """Decode jsonb's text into the payload of `handler`; `version`: the schema version of the text.

    Raises TooNew for a version that is too new, and PayloadError for a version without an upcaster
    or a payload that does not fit the handler's annotation.
    """
    if version != handler.schema_version:
        raw = _upcast(handler, raw, version)
    # A run of 309 digits covers one of each 309 characters: check those before reading all.
    if not _DIGITS.isdisjoint(raw[_LONGEST_NUMBER :: _LONGEST_NUMBER + 1]) and _has_long_run(raw):
        _refuse_overlong(raw)
    try:
        return handler.adapter.validate_json(raw)
    except ValidationError as error:
        refusal = _refusal(error, wrapped=_carries_event(handler))
    except Exception as error:  # noqa: BLE001 - a payload's class may raise anything
        refusal = PayloadError(
            f"its class raised {type(error).__name__} when the payload was made."
        )
    # Outside the except block: pydantic's error quotes the payload, so it must not be chained.
    raise refusal


def decode_event_command(
    handler: CommandHandler, raw: str, version: int, attempts: int
) -> Event[Any]:
    """The event inside the command's payload; its `attempt` is the command's."""
    envelope: Envelope[Any] = decode(handler, raw, version)
    return Event({**vars(envelope.event), "attempts": attempts}, envelope.payload)


def wrap_event(handler: CommandHandler, row: Row, raw: str) -> CommandDraft:
    """The command that carries the event `row`, whose payload is the JSON text `raw`."""
    fields = {name: row[name] for name in _FIELDS}
    fields["created_at"] = moment(fields["created_at"])
    fields["occurred_at"] = occurred(row)
    if isinstance(fields["headers"], str):
        fields["headers"] = orjson.Fragment(fields["headers"])
    # The driver has its own UUID class, which orjson passes to `default`.
    document = {"event": fields, "payload": orjson.Fragment(raw)}
    payload = orjson.dumps(document, default=str).decode()
    return CommandDraft(
        command_id=uuid7(),
        type=handler.type,
        payload=payload,
        schema_version=fields["schema_version"],
        queue=handler.queue,
        priority=handler.priority,
        tenant=fields["tenant"],
        entity_type=fields["entity_type"],
        entity_id=fields["entity_id"],
        ordering_key=row["ordering_key"],
    )


def _upcast(handler: Handler, raw: str, version: int) -> str:
    """Convert a payload to the version of the handler."""
    newest = handler.schema_version
    if version > newest:
        raise TooNew(
            f"{_written_as(handler)} version {version} is too new: this worker reads up to "
            f"{newest}; deploy a newer {handler.plugin}, then replay."
        )
    document = _load(raw)
    wrapped = _carries_event(handler)
    payload = document["payload"] if wrapped else document
    for step in range(version, newest):
        payload = _upcast_once(handler, payload, step)
    return encode({**document, "payload": payload} if wrapped else payload)


def _upcast_once(handler: Handler, payload: object, version: int) -> object:
    upcaster = handler.upcasters.get(version)
    if upcaster is None:
        written = _written_as(handler)
        raise PayloadError(
            f"{written} version {version} has no upcaster in {handler.plugin}: declare "
            f"upcaster({written!r}, from_version={version}), then replay."
        )
    try:
        return upcaster(payload)
    except Exception as error:  # noqa: BLE001 - the plugin's code; its message may quote the payload
        problem = f"the upcaster from version {version} raised {type(error).__name__}."
    raise PayloadError(problem)


def _load(raw: str) -> Any:
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        pass
    raise PayloadError("it cannot be read: it is not JSON, or nested too deeply.")


def _has_long_run(raw: str) -> bool:
    """Whether at least half a run of 309 digits begins or ends at each 309th character.

    This avoids the regular expression, which tries each character: 50 µs for 8 KB of hexadecimal
    text.
    """
    half = _LONGEST_NUMBER // 2 + 1
    return any(
        raw[place : place + half].isdigit() or raw[place - half + 1 : place + 1].isdigit()
        for place in range(_LONGEST_NUMBER, len(raw), _LONGEST_NUMBER + 1)
    )


def _refuse_overlong(raw: str) -> None:
    """Raise if a number, not a text, fits no float: it would be read as infinite or zero."""
    if not _OVERLONG.search(raw):
        return
    numbers: list[str] = []
    try:
        json.loads(raw, parse_int=numbers.append, parse_float=numbers.append)
    except (ValueError, RecursionError):
        return  # the validator names the mistake better
    if not all(map(_is_held, numbers)):
        raise PayloadError("a number in it is out of range.")


def _is_held(number: str) -> bool:
    """Whether a float can hold that number: the float is neither infinite nor wrongly zero."""
    value = float(number)
    return not isinf(value) and (value != 0 or _DIGITS_BUT_ZERO.isdisjoint(number))


def _written_as(handler: Handler) -> str:
    """The type as the producer wrote it."""
    carried = handler.event_type if isinstance(handler, CommandHandler) else None
    return carried or handler.type


def _carries_event(handler: Handler) -> bool:
    return isinstance(handler, CommandHandler) and handler.event_type is not None


def _refusal(error: ValidationError, *, wrapped: bool) -> PayloadError:
    details = error.errors(include_url=False, include_input=False)
    first, *others = [
        (_path(each, wrapped=wrapped), _problem(each)) for each in details[:PROBLEMS_SHOWN]
    ]
    path, problem = first
    texts = [problem if path else f"it {problem}"]
    texts += [f"{path}: {problem}" for path, problem in others]
    if len(details) > PROBLEMS_SHOWN:
        texts.append(f"and {len(details) - PROBLEMS_SHOWN} more problems")
    return PayloadError("; ".join(texts) + ".", path or None)


def _path(detail: ErrorDetails, *, wrapped: bool) -> str:
    """The path of the field; for a carried event, without the envelope."""
    steps = detail["loc"][1:] if wrapped else detail["loc"]
    return ".".join(map(str, steps))[:PATH_LENGTH].replace("\0", "")


def _problem(detail: ErrorDetails) -> str:
    kind = detail["type"]
    if (ours := misfit(kind, detail.get("ctx"))) is not None:
        return ours
    return (
        in_other_words(detail["msg"]) if kind in _PLAIN else f"is refused by a validator ({kind})"
    )
