"""Results of `run_event`, `run_chunk` and `run_command`: topics, times, representation."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from pydantic import BaseModel

from inboxd import (
    BlockingCommandContext,
    CommandContext,
    Event,
    EventChunk,
    EventContext,
    Fixed,
    Handlers,
)
from inboxd.errors import UsageError
from inboxd.testing import Succeeded, run_chunk, run_command, run_event

pytestmark = pytest.mark.anyio

handlers = Handlers("shop")
handlers.topic("hours", mode="batch", age="1h")


class Paid(BaseModel):
    order_id: int = 1


class Act(BaseModel):
    how: str = "well"


@handlers.event("order.paid")
async def ship(_event: Event[Paid], ctx: EventContext) -> None:
    ctx.emit("shop.shipped", {"at": ctx.now().isoformat()})


@handlers.event("order.paid", topic="loyalty")
async def points(_event: Event[Paid], ctx: EventContext) -> None:
    ctx.send({}, type="shop.points")


@handlers.event("order.gone", topic="loyalty")
async def gone(_event: Event[Paid], ctx: EventContext) -> None:
    ctx.send({}, type="shop.points")


@handlers.chunk("order.counted", topic="hours")
async def count(_chunk: EventChunk[Paid], ctx: EventContext) -> None:
    ctx.emit("shop.counted", {"at": ctx.now().isoformat()})


@handlers.command("shop.act", retry=Fixed(base="90s", attempts=2))
def act(command: Act, ctx: BlockingCommandContext) -> str:
    if command.how == "fail":
        raise ValueError("no money")
    return ctx.now().isoformat()


@handlers.command("shop.count")
async def count_orders(_command: Act, ctx: CommandContext) -> int:
    return int(await ctx.connection.fetchval("select count(*) from orders"))


async def test_a_type_of_several_topics_is_run_for_one_of_them() -> None:
    """In production each topic has its own row, too."""
    with pytest.raises(UsageError, match=r"goes to 2 topics.*topic='default' or topic='loyalty'"):
        await run_event(handlers, "order.paid", {})
    assert not (await run_event(handlers, "order.paid", {}, topic="default")).commands
    assert not (await run_event(handlers, "order.paid", {}, topic="loyalty")).events


async def test_the_only_topic_of_a_type_need_not_be_named() -> None:
    assert (await run_event(handlers, "order.gone", {})).commands


NOON = datetime(2031, 5, 4, 12, tzinfo=UTC)


async def test_handlers_get_the_time_of_the_test() -> None:
    told = await run_event(handlers, "order.paid", {}, topic="default", now=NOON)
    assert told.events[0].payload == {"at": "2031-05-04T12:00:00+00:00"}
    told = await run_chunk(handlers, "hours", [("order.counted", {})], now=NOON)
    assert told.events[0].payload == {"at": "2031-05-04T12:00:00+00:00"}
    local = NOON.astimezone(timezone(timedelta(hours=2)))
    assert (await run_command(handlers, "shop.act", {}, now=local)).outcome == Succeeded(
        '"2031-05-04T12:00:00+00:00"'
    )
    now = await run_command(handlers, "shop.act", {})
    assert isinstance(now.outcome, Succeeded)
    assert datetime.now(UTC).isoformat()[:10] in (now.outcome.result or "")
    with pytest.raises(UsageError, match="has no time zone"):
        await run_command(handlers, "shop.act", {}, now=NOON.replace(tzinfo=None))


async def test_representation_of_a_result_is_one_line() -> None:
    failed = await run_command(handlers, "shop.act", {"how": "fail"})
    assert repr(failed) == "<Result: Retrying in 90 s after ValueError: no money>"
    dead = await run_command(handlers, "shop.act", {"how": "fail"}, attempts=1)
    assert repr(dead) == "<Result: Dead of ValueError: no money>"
    sent = await run_event(handlers, "order.gone", {})
    assert repr(sent) == "<Result: Succeeded(result=None), sent shop.points>"


async def test_a_fake_has_the_methods_that_its_handler_calls() -> None:
    class Seven:
        async def fetchval(self, _query: str, *_args: Any) -> int:
            return 7

    counted = await run_command(handlers, "shop.count", {}, connection=Seven())
    assert counted.outcome == Succeeded("7")
