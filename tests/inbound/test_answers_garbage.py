"""An answered request leaves no reference cycles behind."""

import gc
from collections.abc import Awaitable, Callable, Sequence

import pytest

from inboxd.errors import NotDurable
from inboxd.model.receipt import Receipt
from inboxd.store.receipts import Stored
from tests.inbound import calls
from tests.inbound.calls import receiving

pytestmark = pytest.mark.anyio


async def _refuse(_: Sequence[Receipt]) -> list[Stored]:
    raise NotDurable("the test refuses it")


async def _left_behind(do: Callable[[], Awaitable[object]], times: int) -> int:
    """The number of objects in reference cycles after some calls."""
    await do()
    gc.collect()
    gc.disable()
    try:
        for _ in range(times):
            await do()
        return gc.collect()
    finally:
        gc.enable()


@pytest.mark.parametrize("at_once", [False, True], ids=["in messages", "at once"])
@pytest.mark.parametrize(
    "write", [None, pytest.param(_refuse, marks=pytest.mark.long)], ids=["stored", "refused"]
)
async def test_a_request_leaves_no_reference_cycle(
    monkeypatch: pytest.MonkeyPatch, at_once: bool, write: object
) -> None:
    monkeypatch.setattr(calls, "at_once", at_once)
    async with receiving(write=write) as received:  # type: ignore[arg-type]
        few = await _left_behind(received.post, 5)
        many = await _left_behind(received.post, 50)
    assert many - few < 45, "the event loop itself leaves some, once"
