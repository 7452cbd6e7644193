"""A test gives resources by their types: fakes replace them, and no lifespan is opened."""

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import pytest

from inboxd import (
    BlockingCommandContext,
    Call,
    CommandContext,
    Event,
    EventChunk,
    EventContext,
    Handlers,
    Proceed,
)
from inboxd.errors import UsageError
from inboxd.testing import Succeeded, run_chunk, run_command, run_event

pytestmark = pytest.mark.anyio


class Client:
    def name(self) -> str:
        return "real"


class Fake:
    """Unrelated to `Client` by inheritance."""

    def name(self) -> str:
        return "fake"


Bank = Annotated[Client, "bank"]
handlers = Handlers("shop")


@handlers.lifespan
async def client() -> AsyncIterator[Client]:
    raise AssertionError
    yield Client()


@handlers.lifespan
async def bank() -> AsyncIterator[Bank]:
    raise AssertionError
    yield Client()


@handlers.event("a.single")
async def single(event: Event[Any], ctx: EventContext, http: Client) -> None:
    ctx.send({"by": http.name()}, type="shop.said")


@handlers.event("a.later", as_command=True)
async def later(event: Event[Any], ctx: CommandContext, http: Client) -> None:
    ctx.send({"by": http.name()}, type="shop.said")


handlers.topic("boxes", mode="batch", count=2)


@handlers.chunk("a.boxed", topic="boxes")
async def boxed(events: EventChunk[Any], ctx: EventContext, http: Client) -> None:
    ctx.send({"by": http.name()}, type="shop.said")


@handlers.command("shop.pay")
async def pay(command: Any, ctx: CommandContext, *, bank: Bank, http: Client) -> str:
    return f"{bank.name()} {http.name()}"


@handlers.command("shop.thread")
def thread(command: Any, ctx: BlockingCommandContext, http: Client) -> str:
    return http.name()


@pytest.mark.parametrize(
    "run",
    [
        lambda given: run_event(handlers, "a.single", {}, resources=given),
        lambda given: run_event(handlers, "a.later", {}, resources=given),
        lambda given: run_chunk(handlers, "boxes", [("a.boxed", {})], resources=given),
    ],
    ids=["event", "as command", "chunk"],
)
async def test_handlers_get_the_resources_of_the_test(run: Callable[..., Any]) -> None:
    result = await run({Client: Fake()})
    assert result.outcome == Succeeded()
    assert [sent.payload for sent in result.commands] == [{"by": "fake"}]
    with pytest.raises(UsageError, match=r"takes 'http': give the test's own, resources="):
        await run(None)


async def test_each_type_has_its_own_resource() -> None:
    given = {Client: Client(), Bank: Fake()}
    result = await run_command(handlers, "shop.pay", {}, resources=given)
    assert result.outcome == Succeeded('"fake real"')
    result = await run_command(handlers, "shop.thread", {}, resources=given)
    assert result.outcome == Succeeded('"real"')
    with pytest.raises(UsageError, match=r"pay takes 'bank': give the test's own, .*'bank'\]: …"):
        await run_command(handlers, "shop.pay", {}, resources={Client: Client()})


async def test_a_type_that_no_lifespan_yields_is_a_mistake() -> None:
    with pytest.raises(UsageError, match=r"has .*Fake, which no lifespan of the plugin yields; t"):
        await run_command(handlers, "shop.thread", {}, resources={Fake: Fake()})


async def test_middleware_gets_resources() -> None:
    wrapped = Handlers("wrapped")
    wrapped.lifespan(client)

    @wrapped.middleware
    async def around(call: Call, proceed: Proceed, http: Client) -> object:
        return f"{http.name()} {await proceed()}"

    @wrapped.command("wrapped.pay")
    async def inner(command: Any, ctx: CommandContext) -> str:
        return "paid"

    result = await run_command(wrapped, "wrapped.pay", {}, resources={Client: Fake()})
    assert result.outcome == Succeeded('"fake paid"')
    with pytest.raises(UsageError, match=r"around takes 'http'"):
        await run_command(wrapped, "wrapped.pay", {})
