"""Middleware wraps handlers, the first declared outermost, and costs nothing when absent."""

from typing import Any, cast

import pytest

from inboxd.api.middleware import AnyContext, Call, Middleware, Proceed, compose

pytestmark = pytest.mark.anyio

CONTEXT = cast("AnyContext", object())


async def handler(payload: Any, context: Any) -> object:
    assert context is CONTEXT
    return payload


def named(name: str, log: list[str]) -> Middleware:
    async def middleware(call: Call, proceed: Proceed) -> object:
        log.append(f"{name} before {call.type} {call.handler}")
        result = await proceed()
        log.append(f"{name} after")
        return f"{name}({result})"

    return middleware


def test_without_middleware_the_handler_stays_as_it_is() -> None:
    assert compose("a.b", "m.handler", (), handler) is handler


async def test_first_middleware_is_outermost() -> None:
    log: list[str] = []
    run = compose("a.b", "m.handler", [named("one", log), named("two", log)], handler)
    assert await run("payload", CONTEXT) == "one(two(payload))"
    assert log == ["one before a.b m.handler", "two before a.b m.handler", "two after", "one after"]


async def test_middleware_sees_the_call_and_may_answer_itself() -> None:
    async def refuse(call: Call, proceed: Proceed) -> object:
        return (call.payload, call.context)

    run = compose("a.b", "m.handler", [refuse], handler)
    assert await run("payload", CONTEXT) == ("payload", CONTEXT)
