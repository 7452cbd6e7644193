"""Drafts of a handler, and refusals once it has ended."""

from datetime import UTC, datetime
from typing import Any, ClassVar, cast
from uuid import UUID

import pytest
import structlog
from pydantic import BaseModel

from inboxd.api.connection import Connection
from inboxd.api.context import CommandContext, EventContext
from inboxd.api.drafts import EventDraft, WebhookDraft
from inboxd.api.routes import Route
from inboxd.errors import PayloadError, UsageError
from inboxd.model.lineage import Origin, OriginKind
from tests.support.routes import Routed

CONNECTION = cast("Connection", object())
LATER = datetime(2030, 1, 1, tzinfo=UTC)
ROW: dict[str, Any] = {
    "id": 7,
    "command_id": UUID(int=1),
    "tenant": "acme",
    "correlation_id": "story",
    "attempts": 2,
    "deadline": LATER,
    "origin_kind": "event",
    "origin_id": 3,
}


class SendEmail(BaseModel):
    to: str


class Paid(BaseModel):
    """An event whose class names its type."""

    inboxd_event: ClassVar[str] = "order.paid"
    inboxd_version: ClassVar[int] = 2

    order_id: int = 1


def resolve(what: type[object] | str) -> Route:
    if what is SendEmail:
        return Route("school.send_email", "email", 3, 5)
    if isinstance(what, str):
        return Route(what)
    raise UsageError(f"No command handler takes {what.__name__}.")


@pytest.fixture
def ctx() -> EventContext:
    return EventContext(ROW, lambda: CONNECTION, Routed(resolve), structlog.get_logger())


def test_payload_class_decides_the_destination(ctx: EventContext) -> None:
    sent = ctx.send(SendEmail(to="ada"))
    (draft,) = ctx.drafts
    assert (draft.command_id, draft.type, draft.queue) == (sent, "school.send_email", "email")
    assert (draft.schema_version, draft.priority) == (3, 5)
    assert (draft.payload, draft.tenant) == ('{"to":"ada"}', "acme")
    assert sent.version == 7


def test_options_of_the_sender_win(ctx: EventContext) -> None:
    ctx.send(
        SendEmail(to="ada"),
        queue="slow",
        priority=0,
        delay="1m",
        deadline=LATER,
        max_attempts=2,
        tenant="other",
        entity_type="student",
        entity_id="3",
    )
    (draft,) = ctx.drafts
    assert (draft.queue, draft.priority, draft.delay, draft.run_at) == ("slow", 0, 60, None)
    assert (draft.deadline, draft.max_attempts, draft.tenant) == (LATER, 2, "other")
    assert (draft.entity_type, draft.entity_id) == ("student", "3")


def test_a_type_may_be_named(ctx: EventContext) -> None:
    ctx.send({"a": 1}, type="elsewhere.do", run_at=LATER)
    (draft,) = ctx.drafts
    assert (draft.type, draft.queue, draft.run_at) == ("elsewhere.do", None, LATER)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delay": "1s", "run_at": LATER}, "not both"),
        ({"run_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 - the mistake
        ({"deadline": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001 - the mistake
        ({"delay": "5"}, "is not a duration"),
        ({"priority": 40_000}, "priority must lie between -32768 and 32767"),
        ({"max_attempts": 0}, "max_attempts must be 1 or more"),
        ({"tenant": "a\0b"}, "tenant has a NUL"),
        ({"entity_id": "é" * 128}, "entity_id has 256 bytes; at most 255 fit: shorten it, or put"),
    ],
)
def test_command_with_wrong_options_is_not_sent(
    ctx: EventContext, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ctx.send(SendEmail(to="ada"), **options)
    assert not ctx.drafts


def test_an_unknown_class_or_a_bad_payload_is_not_sent(ctx: EventContext) -> None:
    with pytest.raises(UsageError, match="takes dict"):
        ctx.send({"a": 1})
    with pytest.raises(PayloadError, match="NUL"):
        ctx.send(SendEmail(to="\0"))
    assert not ctx.drafts


def test_context_shows_its_row() -> None:
    ctx = CommandContext(ROW, lambda: CONNECTION, Routed(resolve), structlog.get_logger())
    assert (ctx.id, ctx.command_id, ctx.idempotency_key) == (7, UUID(int=1), str(UUID(int=1)))
    assert (ctx.tenant, ctx.correlation_id, ctx.attempt) == ("acme", "story", 3)
    assert (ctx.deadline, ctx.origin) == (LATER, Origin(OriginKind.EVENT, 3))
    assert ctx.connection is CONNECTION


def test_first_row_of_a_story_names_the_story() -> None:
    first = CommandContext(
        ROW | {"correlation_id": None}, lambda: CONNECTION, Routed(resolve), structlog.get_logger()
    )
    assert first.correlation_id == str(UUID(int=1))


def test_nothing_outlives_the_handler(ctx: EventContext) -> None:
    ctx.send(SendEmail(to="ada"))
    ctx.close()
    with pytest.raises(UsageError, match="The handler has ended"):
        ctx.send(SendEmail(to="ada"))
    with pytest.raises(UsageError, match="The handler has ended"):
        assert ctx.connection is CONNECTION
    with pytest.raises(UsageError, match="The handler has ended"):
        ctx.emit(Paid())
    assert len(ctx.drafts) == 1
    assert not ctx.events


def test_payload_class_decides_the_event_type(ctx: EventContext) -> None:
    emitted = ctx.emit(Paid(order_id=3))
    (draft,) = _events(ctx)
    assert (draft.event_id, draft.type, draft.schema_version) == (emitted, "order.paid", 2)
    assert (draft.payload, draft.tenant, draft.topic) == ('{"order_id":3}', "acme", None)


def test_an_event_may_be_named(ctx: EventContext) -> None:
    ctx.emit("day.ended")
    ctx.emit("order.paid", Paid(), schema_version=3, tenant="other", run_at=LATER)
    ctx.emit("order.paid", None, headers={"a": 1}, topic="t", ordering_key="k", dedup_key="d")
    ended, paid, full = _events(ctx)
    assert (ended.type, ended.payload, ended.schema_version) == ("day.ended", "{}", 1)
    assert (paid.payload, paid.schema_version, paid.tenant) == ('{"order_id":1}', 3, "other")
    assert paid.run_at == LATER
    assert (full.headers, full.topic, full.ordering_key) == ('{"a":1}', "t", "k")
    assert full.dedup_key == "d"
    ctx.emit("day.ended", delay="1m")
    assert (_events(ctx)[-1].delay, _events(ctx)[-1].run_at) == (60, None)


def _events(ctx: EventContext) -> list[EventDraft]:
    return cast("list[EventDraft]", ctx.events)


def test_webhook_is_drafted_with_its_options(ctx: EventContext) -> None:
    ctx.webhook("user.created", {"n": 1})
    ctx.webhook("user.gone", tenant="other", ordering_key="k", message_id="m1", endpoint="crm")
    assert ctx.events == [
        WebhookDraft("user.created", '{"n":1}', tenant="acme"),
        WebhookDraft("user.gone", "{}", "m1", "crm", "k", "other"),
    ]
    ctx.close()
    with pytest.raises(UsageError, match="The handler has ended"):
        ctx.webhook("user.created")


@pytest.mark.parametrize(
    ("type_", "options", "message"),
    [
        ("", {}, "'' is not a valid type of webhooks: it has 0 bytes"),
        (Paid(), {}, "is not a valid type of webhooks: it must be a str"),
        ("a.b", {"message_id": "a.1"}, r"a\.b: message_id must be printable ASCII without"),
        ("a.b", {"ordering_key": ""}, r"a\.b: ordering_key has 0 bytes"),
        ("a.b", {"run_at": datetime(2030, 1, 1)}, r"a\.b: run_at has no time zone"),  # noqa: DTZ001
    ],
)
def test_wrong_webhook_is_not_sent(
    ctx: EventContext, type_: Any, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ctx.webhook(type_, **options)
    with pytest.raises(TypeError, match="unexpected keyword argument 'delay'"):
        ctx.webhook("a.b", delay="1s")  # type: ignore[call-arg]
    assert not ctx.events


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dedup_key": ""}, "order.paid: dedup_key has 0 bytes"),
        ({"ordering_key": "a\0"}, "order.paid: ordering_key has a NUL"),
        ({"entity_id": "é" * 128}, "order.paid: entity_id has 256 bytes; at most 255 fit: shorten"),
        ({"schema_version": 0}, "order.paid: schema_version must be 1 or more"),
        ({"mode": "both"}, "order.paid: mode must be 'single'"),
        ({"run_at": datetime(2030, 1, 1)}, "order.paid: run_at has no time zone"),  # noqa: DTZ001
        ({"headers": {"x": "é" * 8190}}, "order.paid: headers have 16389 bytes as JSON; at most"),
        ({"headers": [1]}, "order.paid: headers must be a mapping"),
        ({"delay": 5}, "5 is not a duration"),
        ({"delay": "5s", "run_at": LATER}, "order.paid: give delay= or run_at=, not both"),
    ],
)
def test_event_with_wrong_options_is_not_emitted(
    ctx: EventContext, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        ctx.emit(Paid(), **options)
    assert not ctx.events


def test_event_without_a_type_or_with_a_bad_payload_is_not_emitted(ctx: EventContext) -> None:
    with pytest.raises(
        UsageError, match=r"No event type is known for dict: name it first, ctx\.emit"
    ):
        ctx.emit({"a": 1})
    with pytest.raises(UsageError, match=r"order\.paid: give the payload alone"):
        ctx.emit(Paid(), {"a": 1})  # type: ignore[call-overload]
    with pytest.raises(PayloadError, match="NUL"):
        ctx.emit("a.b", {"text": "\0"})
    with pytest.raises(PayloadError, match=r"headers of a\.b"):
        ctx.emit("a.b", headers={"text": "\0"})
    with pytest.raises(TypeError, match="keyword argument 'topics'"):
        ctx.emit(Paid(), topics="a")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="keyword argument 'queues'"):
        ctx.send({}, type="a.b", queues="a")  # type: ignore[call-arg]
    with pytest.raises(UsageError, match="is not a valid event type: it has 0 bytes"):
        ctx.emit("")
    assert not ctx.events
