"""A handler that is driven by hand fails as by itself: no frame of ours ends its traceback."""

import asyncio
import traceback
from contextvars import copy_context

from inboxd.engine.execution import _resume


async def _waits_in_vain() -> None:
    """As a driver's query: what it waits for ends with an error."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[None] = loop.create_future()
    loop.call_soon(answer.set_exception, ValueError("refused"))
    await answer


async def _handler() -> None:
    await _waits_in_vain()


async def _driven() -> list[str]:
    """The functions of the traceback, the outermost first."""
    coroutine = _handler()
    yielded = coroutine.send(None)
    try:
        await _resume(coroutine, yielded, copy_context())
    except ValueError as error:
        return [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    return []


def test_below_what_failed_there_is_nothing() -> None:
    names = asyncio.run(_driven())
    assert names == ["_driven", "_resume", "_handler", "_waits_in_vain"]
