"""What `inboxd dev` runs: its port, the wanted one where it can be had; and an end in its start."""

import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from inboxd.cli import dev
from inboxd.cli.dev_daemon import port_of_its_own
from inboxd.cli.plugin_files import Installed
from inboxd.embedded import Server
from inboxd.settings import load

HOST = "127.0.0.1"


@pytest.fixture
def taken() -> Iterator[list[int]]:
    """Two ports at which somebody listens."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.create_server((HOST, 0))) for _ in range(2)]
        yield [each.getsockname()[1] for each in sockets]


def test_the_wanted_port_is_taken_unless_another_process_has_it(taken: list[int]) -> None:
    mine = port_of_its_own(HOST, 0, 0)
    assert port_of_its_own(HOST, mine, 0) == mine
    instead = port_of_its_own(HOST, taken[0], 0)
    assert instead not in {0, *taken}
    assert port_of_its_own(HOST, taken[0], instead) == instead, "its URL stays"
    assert port_of_its_own(HOST, 0, instead) == instead
    assert port_of_its_own(HOST, instead, mine) == instead, "the wanted one, once it is free"
    assert port_of_its_own(HOST, taken[0], taken[1]) not in {0, *taken}


def test_what_cannot_be_listened_at_at_all_is_for_the_daemon_to_say() -> None:
    assert port_of_its_own("192.0.2.1", 8797, 0) == 8797


@pytest.mark.usefixtures("hang_ups")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_order_to_end_waits_until_there_is_a_daemon_to_end(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """It comes while the daemon has been started, and the guard that would end it has not."""
    done = []

    class Daemon:
        def __init__(self, *_: object) -> None:
            done.append("started")
            signal.raise_signal(number)
            done.append("guarded")

        def stop(self, _drain: float) -> None:
            done.append("stopped")

    monkeypatch.setattr("inboxd.cli.dev_daemon.Daemon", Daemon)
    monkeypatch.setattr("inboxd.cli.plugin_files.look_up", lambda _: Installed((), ()))
    settings = load(None, {"INBOXD_HTTP__PORT": "0"})
    server = cast("Server", SimpleNamespace(dsn=lambda: "postgresql://h/d", home=Path("home")))
    before = {each: signal.getsignal(each) for each in dev._ORDERS}
    try:
        dev._hear_signals()
        with pytest.raises(KeyboardInterrupt):
            dev._Dev(server, None, settings).serve()
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    assert done == ["started", "guarded", "stopped"]
