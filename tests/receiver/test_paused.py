"""A paused source under load: all requests are stored, and processed in order when it resumes."""

import subprocess
import sys

import anyio.to_thread
import pytest

from tests.support import Database, eventually
from tests.support.received import verify
from tests.support.receiver import ARRAY, Receiver, StartReceiver

pytestmark = pytest.mark.anyio


async def _inboxd(receiver: Receiver, *arguments: str) -> str:
    """Run a command with the receiver's settings; returns its output."""
    command = [sys.executable, "-m", "inboxd", *arguments]
    command += ["-c", str(receiver.log.with_suffix(".toml"))]
    ran = await anyio.to_thread.run_sync(
        lambda: subprocess.run(command, capture_output=True, text=True, check=False)
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("items", [None, pytest.param(3, marks=pytest.mark.long)])
async def test_held_receipts_are_processed_before_later_ones(
    inbox: Database, start_receiver: StartReceiver, items: int | None
) -> None:
    receiver = await start_receiver(source={} if items is None else ARRAY)
    provider = receiver.provider(items=items)

    async def is_held() -> bool:
        found: bool = await inbox.fetchval("select exists (select from inboxd.held_receipts)")
        return found

    async def is_released() -> bool:
        return not await is_held()

    async with provider.load(keys=8):
        await provider.goes_on(50)
        await _inboxd(receiver, "webhooks", "pause", "bets")
        await eventually(is_held)
        events = await inbox.fetchval("select count(*) from inboxd.events")
        await provider.goes_on(200)
        assert await inbox.fetchval("select count(*) from inboxd.events") == events
        await _inboxd(receiver, "webhooks", "resume", "bets")
        await eventually(is_released)
        await provider.goes_on(50)
    await eventually(is_released)
    receiver.holds()
    assert set(provider.ended) == {"202"}
    await verify(inbox, provider)
