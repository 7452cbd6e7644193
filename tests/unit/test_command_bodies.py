"""Payloads stored apart: the room for them is given in turn."""

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from inboxd.runtime.command_bodies import CommandBodies
from inboxd.runtime.parts import Parts

pytestmark = pytest.mark.anyio


class _Bodies(CommandBodies):
    """Room for 100 bytes; reads at once, and says in which order."""

    def __init__(self) -> None:
        settings = SimpleNamespace(commands=SimpleNamespace(in_flight_bytes=100))
        super().__init__(cast("Parts", SimpleNamespace(settings=settings)))
        self.read: list[int] = []

    async def _read(self, portion: list[Any]) -> None:
        for row in portion:
            self.read.append(row["id"])
            self._places[row["id"]].set_result("{}")


def _row(number: int, weight: int) -> Any:
    return {"id": number, "body_id": number, "body_bytes": weight}


async def _step() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_small_ones_do_not_keep_a_large_one_from_its_room() -> None:
    bodies = _Bodies()
    small = [_row(n, 40) for n in range(5)]
    large = _row(9, 500)
    await bodies.take(small[0])
    await bodies.take(small[1])
    waiting = asyncio.create_task(bodies.take(large))
    await _step()
    behind = [asyncio.create_task(bodies.take(row)) for row in small[2:]]
    bodies.done(small[0])
    await _step()
    assert bodies.read == [0, 1]
    bodies.done(small[1])
    await waiting
    await _step()
    assert bodies.read == [0, 1, 9]
    bodies.done(large)
    await _step()
    assert bodies.read == [0, 1, 9, 2, 3]
    bodies.done(small[2])
    await asyncio.gather(*behind)


async def test_a_large_one_alone_passes_and_the_next_are_read_with_a_small_one() -> None:
    bodies = _Bodies()
    large, others = _row(1, 500), [_row(2, 30), _row(3, 30), _row(4, 90), _row(5, 1)]
    bodies.upcoming = lambda: others
    await bodies.take(large)
    assert bodies.read == [1]
    bodies.done(large)
    bodies.upcoming = lambda: others[1:]
    await bodies.take(others[0])
    assert bodies.read == [1, 2, 3]
    assert bodies.is_read(others[1])
    assert not bodies.is_read(others[2])
