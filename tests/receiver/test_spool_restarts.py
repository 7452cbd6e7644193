"""The receiver dies while it spools and while it drains: each 2xx is stored once, in order."""

import random
from pathlib import Path

import anyio
import pytest

from inboxd.embedded import Server
from inboxd.inbound.spool.folder import folders, is_owned
from inboxd.inbound.spool.frames import HEADER
from tests.receiver.spooled import apart, drained, marks, spooled
from tests.support import Database
from tests.support.received import verify
from tests.support.receiver import Receiver, StartReceiver
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


@pytest.fixture
def spool(tmp_path: Path) -> Path:
    return tmp_path / "spool"


@pytest.mark.parametrize(
    "kills",
    [3, pytest.param(50, marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(600)])],
)
async def test_a_receiver_killed_while_it_spools_or_drains_loses_nothing(
    durable_server: Server,
    inbox: Database,
    start_receiver: StartReceiver,
    fresh_seed: int,
    spool: Path,
    kills: int,
) -> None:
    chance = random.Random(fresh_seed)
    receiver = await start_receiver(spool={"segment_size": "64KiB"})
    provider = receiver.provider(again=True)

    async def kill() -> None:
        nonlocal receiver
        # Not a wait for a condition: the moment of its death varies.
        await anyio.sleep(chance.uniform(0, 0.05))
        receiver.kill()
        receiver = await start_receiver(
            spool={"segment_size": "64KiB"}, port=receiver.port, ready=False
        )
        await provider.goes_on(10)

    async with provider.load(keys=16):
        for number in range(0, kills, 3):
            with durable_server.outage():
                await spooled(spool)
                await provider.goes_on(10)
                for _ in range(min(2, kills - number)):
                    await kill()
            if number + 2 < kills:
                await kill()  # during the drain
        await provider.goes_on(10)
    await drained(spool)
    receiver.holds()
    await verify(inbox, provider, again=True)
    assert provider.accepted == len(provider.ledger)
    assert apart(spool) == 0
    assert len(folders(spool)) == 1, "each process has taken over its predecessor's folder"


def _segments(spool: Path) -> list[Path]:
    return list(spool.glob("spools/*/*.segment"))


async def _outage_spooled(receiver: Receiver, requests: int) -> list[str]:
    """Spool this many requests; returns their keys."""
    provider = receiver.provider()
    keys = [f"match-{number % 3}" for number in range(requests)]
    for key in keys:
        assert (await provider.offer(key)).accepted
    provider.close()
    return keys


async def test_a_torn_tail_and_flipped_bits_cost_only_their_frames(
    durable_server: Server,
    inbox: Database,
    start_receiver: StartReceiver,
    fresh_seed: int,
    spool: Path,
) -> None:
    chance = random.Random(fresh_seed)
    with durable_server.outage():
        receiver = await start_receiver(spool={})
        await _outage_spooled(receiver, 30)
        receiver.kill()
        [segment] = _segments(spool)
        data = bytearray(segment.read_bytes())
        length = int.from_bytes(data[4:8], "little") + HEADER
        for _ in range(3):
            data[chance.randrange(4 * length, 5 * length)] ^= 1 << chance.randrange(8)
        segment.write_bytes(data + data[: chance.randrange(1, length)])
        receiver = await start_receiver(spool={}, port=receiver.port)
        await _outage_spooled(receiver, 1)
    await drained(spool)
    with safety():
        assert await inbox.fetchval("select count(*) from inboxd.receipts") == 30
    assert apart(spool) in (1, 2)
    shown = await receiver.metric("inboxd_webhook_spool_set_apart")
    assert shown in (0, 1, 2)
    receiver.holds()


async def test_a_receiver_adopts_the_folder_of_a_dead_one_only(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    with durable_server.outage():
        first = await start_receiver(spool={})
        provider = first.provider()
        for key in "abab":
            assert (await provider.offer(key)).accepted
        [folder] = folders(spool)
        first.pause()
        second = await start_receiver(spool={})
        assert len(folders(spool)) == 2, "the stopped process still has its folder"
        other = second.provider()
        assert (await other.offer("c")).accepted
        second.kill()
        third = await start_receiver(spool={})
        assert len(folders(spool)) == 2, "the dead process's folder was taken over"
        assert is_owned(folder)
        for receiver in (first,):
            receiver.resume()
        first.kill()
    # The folder of a dead process is drained, even without a new owner.
    await drained(spool)
    third.holds()
    with safety():
        assert await inbox.fetchval("select count(*) from inboxd.receipts") == 5
    provider.close()
    other.close()


async def test_a_frozen_drainer_does_not_block_the_spooling(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, spool: Path
) -> None:
    with durable_server.outage():
        first = await start_receiver(spool={})
        second = await start_receiver(spool={})
        provider = second.provider()
        first.pause()
        for key in "aaa":
            assert (await provider.offer(key)).accepted
    for key in "aaa":
        assert (await provider.offer(key)).accepted
    first.resume()
    await drained(spool)
    provider.close()
    await verify(inbox, provider)
    assert not marks(spool)
