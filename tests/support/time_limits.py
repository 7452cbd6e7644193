"""Ends a coroutine of a test at the test's time limit, even if it waits for ever.

`tests/conftest.py` imports the hook. pytest-timeout alone ends such a test only on asyncio's own
loop: uvloop logs the exception of the signal handler, and goes on. A blocked loop is left to
pytest-timeout.

Known limit: a fixture that never ends is ended only by the time limit of the gate's stage.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Generator
from functools import wraps
from typing import Any

import pytest

from tests.support.verdicts import Late


def seconds_of(item: pytest.Item) -> float:
    """The time limit of a test in seconds, from its mark or the settings; 0: there is no limit."""
    mark = item.get_closest_marker("timeout")
    return float(item.config.getini("timeout") or 0) if mark is None else float(mark.args[0])


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Generator[None, object, object]:
    """Cancel the test's coroutine at its time limit, and raise Late."""
    test = pyfuncitem.obj
    within = seconds_of(pyfuncitem)
    if inspect.iscoroutinefunction(test) and within > 0:
        pyfuncitem.obj = _limited(test, within)
    try:
        return (yield)
    finally:
        pyfuncitem.obj = test


def _limited(test: Callable[..., Awaitable[None]], within: float) -> Callable[..., Awaitable[None]]:
    @wraps(test)
    async def limited(**fixtures: Any) -> None:
        limit = asyncio.timeout(within)
        try:
            async with limit:
                await test(**fixtures)
        except TimeoutError as error:
            if limit.expired():
                raise Late(f"The test has not ended within {within:g} seconds.") from error
            raise

    return limited
