"""The event as a handler sees it.

Owns the read-only view of a row of `events`. Promises: making a view costs well under a
microsecond, since every event of a full page needs one; a field is read from the row when it is
used.
Known limit: `headers` is decoded again at each access.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Generic, Protocol, TypeVar, cast
from uuid import UUID

import orjson

P_co = TypeVar("P_co", covariant=True)


class Row(Protocol):
    """A row by column name: a driver's record, or a dict."""

    def __getitem__(self, key: str, /) -> Any: ...


def moment(at: datetime | float) -> datetime:
    """A time of a row as a datetime; a row that was just claimed has seconds since the epoch."""
    return at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)


def occurred(row: Row) -> datetime:
    """The time of an event; a claim has it only if it differs from the due time."""
    at = row["occurred_at"]
    return moment(row["run_at"]) if at is None else cast("datetime", at)


def row_of(event: Event[Any]) -> Any:
    """The row of an event; for the runtime."""
    return event._row  # noqa: SLF001 - hidden from plugins


class Event(Generic[P_co]):
    """An immutable fact that was received; `payload` has the type of the handler's annotation."""

    __slots__ = ("_row", "payload")

    def __init__(self, row: Row, payload: P_co) -> None:
        """Make a view of `row`, whose payload was decoded to `payload`."""
        self._row = row
        self.payload: Final = payload

    def __repr__(self) -> str:
        # Never the payload: this text ends up in logs.
        return f"<Event {self.type} {self.event_id}>"

    @property
    def id(self) -> int:
        """The row's number: later events have larger ones."""
        return cast("int", self._row["id"])

    @property
    def event_id(self) -> UUID:
        """The producer's id of the event."""
        return cast("UUID", self._row["event_id"])

    @property
    def topic(self) -> str:
        """The topic it was written to."""
        return cast("str", self._row["topic"])

    @property
    def ordering_key(self) -> str | None:
        """The key of its order in a sequential topic; empty: the whole topic is in one order."""
        return cast("str | None", self._row["ordering_key"])

    @property
    def type(self) -> str:
        """The dotted type, such as `user.status_updated`."""
        return cast("str", self._row["type"])

    @property
    def schema_version(self) -> int:
        """The version the producer wrote, before any upcaster."""
        return cast("int", self._row["schema_version"])

    @property
    def source(self) -> str | None:
        """The producer."""
        return cast("str | None", self._row["source"])

    @property
    def tenant(self) -> str | None:
        """The tenant it belongs to."""
        return cast("str | None", self._row["tenant"])

    @property
    def entity_type(self) -> str | None:
        """The kind of the entity it is about."""
        return cast("str | None", self._row["entity_type"])

    @property
    def entity_id(self) -> str | None:
        """The entity it is about."""
        return cast("str | None", self._row["entity_id"])

    @property
    def headers(self) -> Mapping[str, Any]:
        """The fields that the producer sent besides the payload."""
        headers = self._row["headers"]
        if isinstance(headers, str):
            headers = orjson.loads(headers)
        return cast("Mapping[str, Any]", headers or {})

    @property
    def correlation_id(self) -> str | None:
        """The story of the event, if its producer named one."""
        return cast("str | None", self._row["correlation_id"])

    @property
    def causation_id(self) -> UUID | None:
        """The uuid of the event's cause, if its producer gave one."""
        return cast("UUID | None", self._row["causation_id"])

    @property
    def traceparent(self) -> str | None:
        """The W3C trace context of its producer."""
        return cast("str | None", self._row["traceparent"])

    @property
    def occurred_at(self) -> datetime:
        """The time when it happened, by the producer's clock."""
        return occurred(self._row)

    @property
    def created_at(self) -> datetime:
        """The time when it was written, by the database's clock."""
        return moment(self._row["created_at"])

    @property
    def attempt(self) -> int:
        """The number of this execution; the first is 1."""
        return cast("int", self._row["attempts"]) + 1
