"""The loop monitor and the notifications to the service manager."""

import asyncio
import os
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from inboxd.telemetry import monitor as monitor_module
from inboxd.telemetry.monitor import BEAT, Blockage, LoopMonitor, LoopState, Running
from inboxd.telemetry.systemd import Notifier
from tests.support.waiting import bounded, patient

# --- judgement ------------------------------------------------------------------------------


def looks(blockage: Blockage, beats: list[int], elapsed: float = BEAT) -> list[LoopState]:
    return [v for n in beats if (v := blockage.look(n, elapsed)) is not LoopState.FINE]


def test_each_limit_is_reported_once_for_each_blockage() -> None:
    blockage = Blockage(warn_after=1.0, stall_after=2.0)
    assert looks(blockage, [1] * 30) == [LoopState.BLOCKED, LoopState.STALLED]
    assert looks(blockage, [2] * 15) == [LoopState.BLOCKED]
    assert looks(blockage, list(range(3, 60))) == []


def test_a_stopped_process_has_not_stalled() -> None:
    blockage = Blockage(warn_after=1.0, stall_after=60.0)
    blockage.look(1, BEAT)
    assert blockage.look(1, 3600.0) is LoopState.FINE
    assert blockage.seconds < 1


# --- the real loop --------------------------------------------------------------------------


@pytest.mark.anyio
async def test_blocking_handler_is_named_before_the_stall(monkeypatch: pytest.MonkeyPatch) -> None:
    stalled = threading.Event()
    told: list[str] = []
    warned: list[dict[str, object]] = []

    class Log:
        def warning(self, _message: str, **fields: object) -> None:
            warned.append(fields)

    def on_stall(description: str) -> None:
        told.append(description)
        if "no handler" not in description:  # a slow machine stalls without a handler
            stalled.set()

    monkeypatch.setattr(monitor_module, "_log", Log())
    monitor = LoopMonitor(
        stall_timeout=0.4, on_stall=on_stall, on_lag=lambda _: None, warn_after=0.2
    )

    async def handler() -> None:
        monitor.running[asyncio.current_task()] = Running("command", "school.send", 42)
        await anyio.lowlevel.checkpoint()  # another handler may run in between
        assert stalled.wait(patient())  # blocks the loop intentionally

    async def innocent() -> None:
        monitor.running[asyncio.current_task()] = Running("command", "school.other", 43)
        await anyio.lowlevel.checkpoint()
        await anyio.lowlevel.checkpoint()

    with monitor.watch():
        async with anyio.create_task_group() as group:
            group.start_soon(handler)
            group.start_soon(innocent)
    blamed = [fields for fields in warned if fields["by"] != "no handler"]
    assert [fields["by"] for fields in blamed] == ["handler of command school.send (id 42)"]
    assert any("handler" in str(line) for line in blamed[0]["frames"])  # type: ignore[attr-defined]
    assert told[-1].startswith("handler of command school.send (id 42) blocks the event loop at ")


@pytest.mark.anyio
async def test_lag_is_measured_while_the_loop_runs_and_no_longer() -> None:
    lags: list[float] = []
    enough = anyio.Event()

    def on_lag(lag: float) -> None:
        lags.append(lag)
        if len(lags) == 3:
            enough.set()

    monitor = LoopMonitor(stall_timeout=60, on_stall=pytest.fail, on_lag=on_lag)
    with monitor.watch(), bounded():
        await enough.wait()
    assert all(lag >= 0 for lag in lags)
    assert not [t for t in threading.enumerate() if t.name == "inboxd-loop-monitor"]


# --- the service manager --------------------------------------------------------------------


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[socket.socket, str]]:
    """A socket that stands for systemd's, and its address as in the environment."""
    if request.param == "path":
        address = str(tmp_path / "notify")
        bound = address
    else:
        address = f"@inboxd-test-{os.getpid()}"
        bound = f"\0{address[1:]}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening:
        listening.settimeout(10)
        listening.bind(bound)
        yield listening, address


def test_states_as_the_protocol_wants_them(manager: tuple[socket.socket, str]) -> None:
    listening, address = manager
    notifier = Notifier({"NOTIFY_SOCKET": address})
    notifier.ready()
    notifier.status("12 rows\nREADY=0")
    notifier.reloading()
    notifier.stopping()
    got = [listening.recv(1000).decode() for _ in range(4)]
    assert got[:2] == ["READY=1", "STATUS=12 rows READY=0"]
    assert got[2].startswith("RELOADING=1\nMONOTONIC_USEC=")
    assert got[3] == "STOPPING=1"


@pytest.mark.parametrize("address", [None, "", "vsock:2:1", "/nonexistent/notify"])
def test_without_a_manager_nothing_happens(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a reachable manager the calls do not fail, send nothing, and leave no socket open."""
    opened: list[socket.socket] = []
    sent: list[int] = []

    class Sender(socket.socket):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            opened.append(self)

        def sendto(self, *arguments: Any) -> int:
            sent.append(super().sendto(*arguments))
            return sent[-1]

    monkeypatch.setattr(socket, "socket", Sender)
    notifier = Notifier({} if address is None else {"NOTIFY_SOCKET": address})
    states = (notifier.ready, notifier.reloading, notifier.stopping, notifier.alive)
    for state in states:
        state()
    notifier.status("12 rows")
    reachable = address is not None and address.startswith("/")
    assert len(opened) == (len(states) + 1 if reachable else 0), (
        "a socket only for a reachable path"
    )
    assert sent == []
    assert [each.fileno() for each in opened] == [-1] * len(opened)


@pytest.mark.parametrize(
    ("environ", "interval"),
    [
        ({}, None),
        ({"WATCHDOG_USEC": "30000000"}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}, 15.0),
        ({"WATCHDOG_USEC": "30000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
    ],
)
def test_watchdog_interval(environ: dict[str, str], interval: float | None) -> None:
    assert Notifier(environ).watchdog_interval == interval


@pytest.mark.anyio
async def test_watchdog_is_fed_only_while_healthy(manager: tuple[socket.socket, str]) -> None:
    listening, address = manager
    notifier = Notifier({"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "2000"})
    answers = iter([True, False, True])

    def healthy() -> bool:
        try:
            return next(answers)
        except StopIteration:
            scope.cancel()
            return False

    with bounded(), anyio.CancelScope() as scope:
        await notifier.feed_watchdog(healthy)
    listening.setblocking(False)
    assert [listening.recv(100), listening.recv(100)] == [b"WATCHDOG=1"] * 2
    with pytest.raises(BlockingIOError):
        listening.recv(100)


@pytest.mark.anyio
async def test_feeding_without_a_watchdog_returns_at_once() -> None:
    with bounded():
        await Notifier({}).feed_watchdog(lambda: True)
