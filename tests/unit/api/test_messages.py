"""The event that a handler sees."""

import pickle
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from inboxd.api.messages import Event

NOW = datetime(2030, 1, 1, tzinfo=UTC)
ROW: dict[str, Any] = {
    "id": 7,
    "event_id": UUID(int=1),
    "topic": "default",
    "type": "a.b",
    "schema_version": 2,
    "source": "school",
    "tenant": "t",
    "entity_type": "student",
    "entity_id": "3",
    "headers": '{"a": 1}',
    "correlation_id": "c",
    "causation_id": UUID(int=2),
    "traceparent": "00-1-2-01",
    "occurred_at": NOW,
    "created_at": NOW,
}


def test_event_without_a_time_happened_when_it_was_due() -> None:
    """A claim returns `occurred_at` only if it differs from the due time, to save decoding."""
    row = {**ROW, "occurred_at": None, "run_at": NOW.timestamp(), "created_at": 0.0}
    assert Event(row, None).occurred_at == NOW


def test_event_shows_its_row() -> None:
    event = Event({**ROW, "attempts": 2}, "payload")
    shown = {name: getattr(event, name) for name in ROW}
    assert shown == {**ROW, "headers": {"a": 1}}
    assert (event.payload, event.attempt) == ("payload", 3)


def test_headers_may_be_missing_or_decoded() -> None:
    assert Event({"headers": None}, None).headers == {}
    assert Event({"headers": {"a": 1}}, None).headers == {"a": 1}


def test_repr_holds_no_payload() -> None:
    assert repr(Event(ROW, "secret")) == f"<Event a.b {UUID(int=1)}>"


def test_event_can_be_pickled() -> None:
    copy = pickle.loads(pickle.dumps(Event(ROW, ["payload"])))  # noqa: S301 - our own bytes
    assert (copy.id, copy.payload) == (7, ["payload"])
