"""A handler driven by hand fails as if it ran by itself: our frames do not end its traceback."""

import asyncio
import traceback
from contextvars import copy_context

from inboxd.engine.execution import _resume


async def _query_that_fails() -> None:
    """Like a driver's query: the awaited future ends with an error."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[None] = loop.create_future()
    loop.call_soon(answer.set_exception, ValueError("refused"))
    await answer


async def _handler() -> None:
    await _query_that_fails()


async def _driven() -> list[str]:
    """The functions of the traceback, the outermost first."""
    coroutine = _handler()
    yielded = coroutine.send(None)
    try:
        await _resume(coroutine, yielded, copy_context())
    except ValueError as error:
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return []


def test_the_failed_function_is_the_last_in_the_traceback() -> None:
    names = asyncio.run(_driven())
    assert names == ["_driven", "_resume", "_handler", "_query_that_fails"]
