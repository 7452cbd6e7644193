"""Makes the message of an event: a CloudEvent, with its lineage.

An event of which no message can be made becomes a dead letter (R4.14). *See:* `page`, before it;
`inboxd/brokers/cloud_events.py`, which writes attributes in the form of each broker.
"""

from datetime import UTC, datetime
from typing import Any

import orjson

from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.destination import compile_destination
from inboxd.errors import MessageRefused
from inboxd.settings import Relay
from inboxd.store.rows import ClaimedEvent

_VERSION = "1.0"


class RelayMessages:
    def __init__(self, relay: Relay) -> None:
        self._destination = compile_destination(relay.to)
        self._exchange = relay.exchange
        self._source = relay.source

    def of(self, row: ClaimedEvent, payload: str) -> OutgoingMessage:
        """The message of an event whose payload is this JSON text. Raises MessageRefused."""
        id_ = str(row["event_id"])
        key = row["ordering_key"]
        if not key or key == id_:  # the event is alone in its line, so there is no order to keep
            key = None
        return OutgoingMessage(
            to=self._destination.of(row),
            exchange=self._exchange,
            key=key,
            id=id_,
            body=payload.encode(),
            attributes=self._attributes(row, id_, key),
            headers=_headers(row),
        )

    def _attributes(self, row: ClaimedEvent, id_: str, key: str | None) -> dict[str, str]:
        """Attributes of CloudEvents, and extensions for columns that only inboxd has."""
        found = {
            "specversion": _VERSION,
            "id": id_,
            "source": row["source"] or self._source,
            "type": row["type"],
            "time": _time(row),
            "schemaversion": str(row["schema_version"]),
            "correlationid": row["correlation_id"] or id_,
        }
        if key is not None:
            found["partitionkey"] = key
        if row["causation_id"] is not None:
            found["causationid"] = str(row["causation_id"])
        if row["entity_id"] is not None:
            found["subject"] = row["entity_id"]
            found["entityid"] = row["entity_id"]
        if row["entity_type"] is not None:
            found["entitytype"] = row["entity_type"]
        if row["tenant"] is not None:
            found["tenant"] = row["tenant"]
        return found


def _time(row: ClaimedEvent) -> str:
    at = row["occurred_at"]
    # Without a time of occurrence, use the time at which the event was due.
    at = datetime.fromtimestamp(row["run_at"], UTC) if at is None else at.astimezone(UTC)
    return orjson.dumps(at, option=orjson.OPT_UTC_Z)[1:-1].decode()


def _headers(row: ClaimedEvent) -> dict[str, str]:
    """Its own headers, and traceparent; values that are not strings become JSON."""
    found: dict[str, str] = {}
    if row["headers"] is not None:
        own: Any = orjson.loads(row["headers"])
        if not isinstance(own, dict):
            raise MessageRefused("its headers are not a JSON object: correct them.", for_good=True)
        found = {name: _text(value) for name, value in own.items() if value is not None}
    if row["traceparent"] is not None:
        found["traceparent"] = row["traceparent"]
    return found


def _text(value: object) -> str:
    return value if isinstance(value, str) else orjson.dumps(value).decode()
