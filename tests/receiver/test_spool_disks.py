"""The spool's disk: full disks, failing disks, and the sync before each answer."""

import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import anyio.to_thread
import pytest

from inboxd.embedded import Server
from tests.receiver.spooled import apart, drained, spooled
from tests.support import Database, eventually
from tests.support.disk import fill_up, small_disk
from tests.support.received import verify
from tests.support.receiver import Receiver, StartReceiver
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


@contextmanager
def strace(receiver: Receiver, out: Path, *arguments: str) -> Iterator[None]:
    """Record a receiver's system calls for the block."""
    program = shutil.which("strace")
    if program is None:
        pytest.skip("strace is missing: apt install strace")
    command = [program, "-f", "-qq", "-ttt", "-s", "64", "-o", str(out), *arguments]
    pid = str(receiver.process.pid)
    with subprocess.Popen([*command, "-p", pid], stderr=subprocess.PIPE) as tracer:
        status = Path(f"/proc/{pid}/status")
        while f"TracerPid:\t{tracer.pid}" not in status.read_text():
            assert tracer.poll() is None, tracer.stderr.read() if tracer.stderr else ""
        try:
            yield
        finally:
            tracer.terminate()


async def test_a_full_spool_disk_is_used_again_when_there_is_room(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver
) -> None:
    with small_disk() as disk:
        spool = disk / "spool"
        receiver = await start_receiver(spool={"path": str(spool), "segment_size": "64KiB"})
        provider = receiver.provider()
        async with provider.load(keys=8, pause=0.002):
            with durable_server.outage():
                await spooled(spool)
                await provider.goes_on()
                ballast = disk / "ballast"
                await anyio.to_thread.run_sync(fill_up, ballast)

                async def is_full() -> bool:
                    return provider.ended["503"] > 20

                await eventually(is_full)
            # The disk is still full: the drain frees room, and the cursor is written there.
            await drained(spool)
            await provider.goes_on()
            ballast.unlink()
            with durable_server.outage():
                await spooled(spool)
                await provider.goes_on()
        await drained(spool)
        receiver.holds()
        await verify(inbox, provider)
        assert apart(spool) == 0
        assert {answer.status for answer in provider.refusals} == {503}
        receiver.kill()


async def test_a_long_running_receiver_reuses_a_small_quota(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, tmp_path: Path
) -> None:
    receiver = await start_receiver(spool={"quota": "16KiB", "segment_size": "8KiB"})
    provider = receiver.provider()
    for _ in range(2):
        with durable_server.outage():
            while (await provider.offer("a")).accepted:
                pass
        await drained(tmp_path / "spool")

        async def has_room() -> bool:
            return await receiver.metric("inboxd_webhook_spool_bytes") == 0

        await eventually(has_room)
    provider.close()
    assert provider.accepted > 10
    await verify(inbox, provider)


async def test_receipts_are_synced_before_their_answer(
    durable_server: Server, start_receiver: StartReceiver, tmp_path: Path
) -> None:
    with durable_server.outage():
        receiver = await start_receiver(spool={})
        provider = receiver.provider()
        assert (await provider.offer("a")).accepted
        out = tmp_path / "calls"
        calls = "trace=fdatasync,fsync,write,writev,sendto,sendmsg"
        with strace(receiver, out, "-e", calls, "-y"):
            for _ in range(10):
                assert (await provider.offer("a")).accepted
        provider.close()
    steps = list(_steps(out.read_text()))
    assert steps.count("answer") >= 10
    for place, step in enumerate(steps):
        if step == "answer":
            with safety():
                assert steps[place - 2 : place] == ["write", "sync"], steps[
                    max(0, place - 6) : place + 1
                ]


def _steps(calls: str) -> Iterator[str]:
    """Steps on segments and sockets, in order; an interrupted call counts at its end."""
    begun: dict[str, str] = {}
    for line in calls.splitlines():
        pid, _, call = line.split(maxsplit=2)
        if call.endswith("<unfinished ...>"):
            begun[pid] = call
            continue
        if call.startswith("<..."):
            call = begun.pop(pid, "") + call
        if ".segment" in call:
            yield "write" if call.startswith("write") else "sync"
        elif re.match(r"(sendto|write|sendmsg|writev)\(.*HTTP/1.1 202", call):
            yield "answer"


async def test_a_failed_sync_ends_acceptance_and_syncs(
    durable_server: Server, inbox: Database, start_receiver: StartReceiver, tmp_path: Path
) -> None:
    out = tmp_path / "calls"
    with durable_server.outage():
        receiver = await start_receiver(spool={})
        provider = receiver.provider()
        assert (await provider.offer("a")).accepted
        with strace(
            receiver, out, "-e", "inject=fdatasync:error=EIO:when=1", "-e", "trace=fdatasync"
        ):
            for _ in range(5):
                entry = await provider.offer("a")
                assert [answer.status for answer in entry.answers] == [503]
        assert out.read_text().count("fdatasync(") == 1

        async def says_why() -> bool:
            status, page = await receiver.get("/readyz")
            return status == 503 and "Input/output error" in page

        await eventually(says_why)
        assert await receiver.metric("inboxd_webhook_spool_broken") == 1
        receiver.kill()
        receiver = await start_receiver(spool={}, port=receiver.port)
        assert (await provider.offer("a")).accepted
    await drained(tmp_path / "spool")
    provider.close()
    await verify(inbox, provider)
