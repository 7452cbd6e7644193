"""What only looks takes no more than a share of the time."""

from time import monotonic

import anyio
import pytest

from inboxd.upkeep.duty import sparingly

pytestmark = pytest.mark.anyio


async def test_a_look_that_took_long_leaves_turns_out() -> None:
    looks: list[float] = []
    took = 0.05

    async def look() -> None:
        looks.append(monotonic())
        await anyio.sleep(took)

    duty = sparingly(look)
    while len(looks) < 2:
        await duty()
        await anyio.sleep(0.01)
    assert looks[1] - looks[0] >= 20 * took
    took = 0.0
    await anyio.sleep(1.5)
    for _ in range(2):
        await duty()
    assert len(looks) >= 3, "what takes no time takes every turn"


async def test_a_look_that_fails_rests_as_well() -> None:
    looks = 0

    async def look() -> None:
        nonlocal looks
        looks += 1
        await anyio.sleep(0.05)
        raise OSError("away")

    duty = sparingly(look)
    with pytest.raises(OSError, match="away"):
        await duty()
    await duty()
    assert looks == 1
