"""Several receivers, with one supervisor or not: requests while one is killed or replaced.

The provider sends each request once, so a refused or aborted one is noticed.
"""

import os
import signal
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

from tests.support import Database, eventually
from tests.support.received import verify
from tests.support.receiver import TOPIC, MakeProvider, Receiver, StartReceiver
from tests.support.sender import Provider
from tests.support.supervising import by_socket, runs
from tests.support.waiting import patient

# Whole processes under load take seconds each, so `make test-long` runs them.
pytestmark = [pytest.mark.anyio, pytest.mark.long]

TWO = ("--processes", "2")
# A pause between the requests of a key: the test is about connections, not about speed.
_PAUSE = 0.02


@pytest.fixture
def inbox(database: Database) -> Database:
    """A database on the server of all tests, which is fast: durability does not matter here."""
    anyio.run(database.execute, TOPIC)
    return database


def children_of(receiver: Receiver) -> list[int]:
    """The running processes of a supervisor."""
    pid = receiver.process.pid
    with suppress(FileNotFoundError):
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
        return [int(each) for each in text.split() if runs(int(each))]
    return []


def in_time(provider: Provider) -> None:
    """Check that each request was answered 2xx at its first attempt."""
    assert provider.ended == {"202": len(provider.ledger)}


async def test_an_upgrade_in_place_costs_no_request(
    inbox: Database, start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    receiver = await start_receiver(arguments=TWO)
    provider = provider_of(receiver)
    before = children_of(receiver)
    assert len(before) == 2
    async with provider.load(keys=4, pause=_PAUSE):
        await provider.goes_on()
        receiver.process.send_signal(signal.SIGUSR2)
        await receiver.logged('"upgraded"')

        async def have_left() -> bool:
            return not any(runs(pid) for pid in before)

        await eventually(have_left)
        await provider.goes_on()
    in_time(provider)
    await verify(inbox, provider)
    rows = await inbox.fetch("select pid, process from inboxd.receivers where state = 'running'")
    assert {row["process"] for row in rows} == {1, 2}
    assert {row["pid"] for row in rows} == set(children_of(receiver))
    receiver.holds()
    assert await receiver.stop() == 0


async def test_answers_of_a_killed_process_are_stored(
    inbox: Database, start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    receiver = await start_receiver(arguments=TWO)
    provider = provider_of(receiver)
    async with provider.load(keys=4, pause=_PAUSE):
        for _ in range(2):
            await provider.goes_on()
            killed, other = children_of(receiver)
            os.kill(killed, signal.SIGKILL)

            async def is_replaced(killed: int = killed, other: int = other) -> bool:
                now = children_of(receiver)
                page = await receiver.get("/readyz")
                return len({*now} - {killed, other}) == 1 and '"ok":false' not in page[1]

            await eventually(is_replaced)
        await provider.goes_on()
    assert provider.ended["refused"] == 0, "the other process accepts them"
    assert set(provider.ended) <= {"202", "lost"}
    await verify(inbox, provider)


async def test_a_restart_with_a_socket_unit_costs_no_request(
    inbox: Database, start_receiver: StartReceiver
) -> None:
    """The socket stays open; new connections wait for the next process."""
    written = await start_receiver()
    settings = written.log.with_suffix(".toml")
    assert await written.stop() == 0
    with socket.create_server(("127.0.0.1", 0), backlog=4096) as listener:
        provider = Provider(listener.getsockname()[1])

        def start() -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", "inboxd", "receive", *TWO, "-c", str(settings)]
            with written.log.open("ab") as log:
                return subprocess.Popen(
                    [*by_socket("inbound", listener), *command],
                    pass_fds=[listener.fileno()],
                    stdout=log,
                    stderr=log,
                )

        unit = start()
        try:
            async with provider.load(keys=4, pause=_PAUSE):
                await provider.goes_on()
                unit.terminate()
                assert await anyio.to_thread.run_sync(unit.wait, patient()) == 0
                unit = start()
                await provider.goes_on()
        finally:
            unit.terminate()
            unit.wait(patient())
    in_time(provider)
    await verify(inbox, provider)


async def test_a_restart_of_one_of_two_receivers_loses_nothing(
    inbox: Database, start_receiver: StartReceiver, provider_of: MakeProvider
) -> None:
    """A proxy that tries the other receiver when one refuses is simulated."""
    first, second = await start_receiver(), await start_receiver()
    provider = Provider(first.port, second.port, again=True)
    async with provider.load(keys=4, pause=_PAUSE):
        await provider.goes_on()
        assert await first.stop() == 0
        await provider.goes_on()
        again = await start_receiver(port=first.port)
        await provider.goes_on()
    assert provider.ended["lost"] == 0, "each request that a receiver accepted was answered"
    assert provider.ended["202"] == len(provider.ledger)
    await verify(inbox, provider)
    again.holds()
    second.holds()
