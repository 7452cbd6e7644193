"""Kills and restarts of the receiver: each 2xx is stored once, and each match in order."""

import random
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from tests.support import Database
from tests.support.received import verify
from tests.support.receiver import ARRAY, Receiver, StartReceiver

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("items", "kills"),
    [
        (None, 3),
        (10, 3),
        pytest.param(
            None, 50, marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(600)]
        ),
        pytest.param(10, 20, marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
async def test_a_receiver_killed_at_random_under_load_loses_nothing(
    inbox: Database,
    start_receiver: StartReceiver,
    fresh_seed: int,
    items: int | None,
    kills: int,
) -> None:
    chance = random.Random(fresh_seed)
    source: Mapping[str, Any] = {} if items is None else ARRAY
    receiver = await start_receiver(source=source)
    provider = receiver.provider(again=True, items=items)
    async with provider.load(keys=16):
        for _ in range(kills):
            await provider.goes_on(10)
            # Not a wait for a condition: the moment of its death varies.
            await anyio.sleep(chance.uniform(0, 0.05))
            receiver.kill()
            receiver = await start_receiver(source=source, port=receiver.port)
        await provider.goes_on(10)
    receiver.holds()
    await verify(inbox, provider)
    assert provider.accepted == len(provider.ledger)


async def test_a_receiver_stopped_under_load_loses_nothing(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    receiver = await start_receiver()
    provider = receiver.provider(again=True)
    async with provider.load(keys=16):
        for _ in range(2):
            await provider.goes_on()
            assert await receiver.stop() == 0
            _clean(receiver)
            receiver = await start_receiver(port=receiver.port)
        await provider.goes_on()
    await verify(inbox, provider)
    assert provider.ended["lost"] == 0, "each request that a connection accepted was answered"


def _clean(receiver: Receiver) -> None:
    assert "Traceback" not in receiver.output()
