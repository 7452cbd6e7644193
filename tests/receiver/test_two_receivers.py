"""Two receivers on one database: a request that reaches both at once is one event."""

import asyncio

import pytest

from tests.support import Database
from tests.support.received import verify
from tests.support.receiver import ARRAY, StartReceiver
from tests.support.sender import Provider

# Whole processes under load take seconds each, so `make test-long` runs them.
pytestmark = [pytest.mark.anyio, pytest.mark.long]


async def test_a_duplicate_at_both_receivers_is_one_event(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    ports = [(await start_receiver()).port for _ in range(2)]
    provider = Provider(*ports)
    entries = [provider.entry(f"match-{number % 8}") for number in range(40)]
    for entry in entries:
        answers = await asyncio.gather(*(provider.send(entry, port) for port in ports))
        events = [answer.json["events"] for answer in answers if answer is not None]
        assert events[0] == events[1]
    # All of them once more, simultaneously.
    await asyncio.gather(*(provider.send(entry, port) for entry in entries for port in ports))
    provider.close()
    assert provider.ended == {"202": 160}
    await verify(inbox, provider)


@pytest.mark.parametrize("items", [None, 5])
async def test_two_receivers_share_one_load(
    inbox: Database, start_receiver: StartReceiver, items: int | None
) -> None:
    source = {} if items is None else ARRAY
    ports = [(await start_receiver(source=source)).port for _ in range(2)]
    provider = Provider(*ports, items=items)
    async with provider.load(keys=16):
        await provider.goes_on(300)
    assert set(provider.ended) == {"202"}
    await verify(inbox, provider)
