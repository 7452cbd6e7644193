"""Tasks that only look take a bounded share of the time."""

from collections.abc import Awaitable, Callable

import pytest

from inboxd.maintenance import periodic
from inboxd.maintenance.periodic import sparingly

pytestmark = pytest.mark.anyio


class Clock:
    """The time as a task sees it; only the test moves it. A look takes `took` seconds."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.took = 0.0
        self.looks: list[float] = []

    async def look(self) -> None:
        self.looks.append(self.now)
        self.now += self.took

    async def turns(self, run: Callable[[], Awaitable[None]], count: int) -> int:
        """Give the task a turn each second; returns how many turns it took."""
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


async def test_slow_looks_skip_turns(clock: Clock) -> None:
    turn = sparingly(clock.look)
    clock.took = 2.0
    assert await clock.turns(turn, 42) == 3
    assert clock.looks[2] - clock.looks[1] == 2.0 + 20 * 2.0, "looks take a twentieth of the time"
    clock.took = 0.0
    clock.now += 40
    assert await clock.turns(turn, 5) == 5, "a look that takes no time takes every turn"


async def test_one_slow_look_skips_no_turn(clock: Clock) -> None:
    """A worker that was stopped for a while does not rest twenty times as long."""
    turn = sparingly(clock.look)
    await clock.turns(turn, 3)
    for took, turns in ((30.0, 1), (0.0, 5), (2.0, 1), (2.0, 1)):
        clock.took = took
        assert await clock.turns(turn, turns) == turns
    assert await clock.turns(turn, 39) == 0, "two long looks in a row are followed by a rest"


async def test_the_rest_after_a_slow_look_is_bounded(clock: Clock) -> None:
    turn = sparingly(clock.look)
    clock.took = 3_600.0
    await turn()
    await turn()
    clock.now += 299
    assert await clock.turns(turn, 2) == 1


async def test_a_rest_follows_failed_looks_as_well(clock: Clock) -> None:
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
