"""What only looks takes no more than a share of the time."""

from collections.abc import Awaitable, Callable

import pytest

from inboxd.maintenance import periodic
from inboxd.maintenance.periodic import sparingly

pytestmark = pytest.mark.anyio


class Clock:
    """The time as a task sees it, which only the test moves; a look takes `took` of it."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.took = 0.0
        self.looks: list[float] = []

    async def look(self) -> None:
        self.looks.append(self.now)
        self.now += self.took

    async def turns(self, run: Callable[[], Awaitable[None]], count: int) -> int:
        """Give it a turn each second; how many of them it took."""
        before = len(self.looks)
        for _ in range(count):
            await run()
            self.now += 1
        return len(self.looks) - before


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(periodic, "monotonic", lambda: clock.now)
    return clock


async def test_a_look_that_took_long_leaves_turns_out(clock: Clock) -> None:
    turn = sparingly(clock.look)
    clock.took = 2.0
    assert await clock.turns(turn, 42) == 3
    assert clock.looks[2] - clock.looks[1] == 2.0 + 20 * 2.0, "a twentieth of the time"
    clock.took = 0.0
    clock.now += 40
    assert await clock.turns(turn, 5) == 5, "what takes no time takes every turn"


async def test_one_look_that_took_long_is_chance(clock: Clock) -> None:
    """A worker that was stopped for a while goes on, and does not rest twenty times as long."""
    turn = sparingly(clock.look)
    await clock.turns(turn, 3)
    for took, turns in ((30.0, 1), (0.0, 5), (2.0, 1), (2.0, 1)):
        clock.took = took
        assert await clock.turns(turn, turns) == turns
    assert await clock.turns(turn, 39) == 0, "twice is none"


async def test_a_look_rests_no_longer_than_its_bound(clock: Clock) -> None:
    turn = sparingly(clock.look)
    clock.took = 3_600.0
    await turn()
    await turn()
    clock.now += 299
    assert await clock.turns(turn, 2) == 1


async def test_a_look_that_fails_rests_as_well(clock: Clock) -> None:
    async def look() -> None:
        await clock.look()
        raise OSError("away")

    turn = sparingly(look)
    clock.took = 0.05
    for _ in range(2):
        with pytest.raises(OSError, match="away"):
            await turn()
    clock.now += 0.99
    await turn()
    assert len(clock.looks) == 2
    clock.now += 0.02
    with pytest.raises(OSError, match="away"):
        await turn()
