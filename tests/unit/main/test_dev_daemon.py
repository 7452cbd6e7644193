"""The daemon of `inboxd dev`: its port, and a stop signal during its start."""

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from inboxd.embedded import Server
from inboxd.main import dev
from inboxd.main.dev_daemon import port_of_its_own
from inboxd.main.plugin_files import Installed
from inboxd.settings import load

HOST = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[list[int]]:
    """Open two ports; returns their numbers."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(2)]
        yield [each.getsockname()[1] for each in sockets]


def test_configured_port_is_used_unless_it_is_taken(taken: list[int]) -> None:
    mine = port_of_its_own(HOST, 0, 0)
    assert port_of_its_own(HOST, mine, 0) == mine
    instead = port_of_its_own(HOST, taken[0], 0)
    assert instead not in {0, *taken}
    assert port_of_its_own(HOST, taken[0], instead) == instead, "the URL stays"
    assert port_of_its_own(HOST, 0, instead) == instead
    assert port_of_its_own(HOST, instead, mine) == instead, "the configured port is free"
    assert port_of_its_own(HOST, taken[0], taken[1]) not in {0, *taken}


def test_port_of_an_impossible_address_is_left_to_the_daemon() -> None:
    assert port_of_its_own("192.0.2.1", 8797, 0) == 8797


@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stop_signal_during_the_start_stops_the_daemon(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The signal arrives after the daemon's start, before dev can stop it."""
    done = []

    class Daemon:
        def __init__(self, *_: object) -> None:
            done.append("started")
            signal.raise_signal(number)
            done.append("guarded")

        def stop(self, _drain: float) -> None:
            done.append("stopped")

    monkeypatch.setattr("inboxd.main.dev_daemon.Daemon", Daemon)
    monkeypatch.setattr("inboxd.main.plugin_files.look_up", lambda _: Installed((), ()))
    settings = load(None, {"INBOXD_HTTP__PORT": "0"})
    server = cast("Server", SimpleNamespace(dsn=lambda: "postgresql://h/d", home=Path("home")))
    before = {each: signal.getsignal(each) for each in dev._STOP_SIGNALS}
    try:
        dev._handle_signals()
        with pytest.raises(KeyboardInterrupt):
            dev._Dev(server, None, settings).serve()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert done == ["started", "guarded", "stopped"]
