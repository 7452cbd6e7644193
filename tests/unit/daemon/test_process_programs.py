"""The process and what it hosts: told in order, ready together, ended in order when one fails."""

import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from inboxd.admin.server import HealthPart
from inboxd.daemon.process import Process
from inboxd.errors import DatabaseError, SettingsError
from inboxd.settings import Settings
from inboxd.telemetry.metrics import Metrics

SETTINGS = Settings()


@dataclass(eq=False)
class Programmed:
    """A program that does as a test says, and writes down what it is told."""

    name: str
    told: list[str]
    on_start: Callable[[Callable[[], None]], None] = lambda on_ready: on_ready()
    refuses: bool = False
    has_drained: anyio.Event = field(default_factory=anyio.Event)

    async def run(self, on_ready: Callable[[], None]) -> None:
        self.on_start(on_ready)
        await self.has_drained.wait()
        self.told.append(f"{self.name} ended")

    def drain(self) -> Mapping[str, object]:
        self.told.append(f"{self.name} drains")
        self.has_drained.set()
        return {self.name: 1}

    def prepare(self, new: Settings) -> Callable[[Settings], None]:
        if self.refuses:
            raise SettingsError("no such key")
        return lambda _: self.told.append(f"{self.name} {new.log.level}")

    def ready(self) -> Sequence[HealthPart]:
        return [HealthPart(self.name, ok=True)]


def _process(reread: Callable[[], Settings] = lambda: SETTINGS) -> Process:
    return Process(SETTINGS, Metrics("1.2.3"), reread, {})


def _fail(_: Callable[[], None]) -> None:
    raise DatabaseError("it is away")


def test_at_a_stop_the_first_is_told_first() -> None:
    told: list[str] = []
    first = Programmed("first", told)
    second = Programmed("second", told, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert _process().host(first, second) == 0
    assert told[:2] == ["first drains", "second drains"]
    assert sorted(told[2:]) == ["first ended", "second ended"]


def test_when_one_fails_the_other_ends_in_order_before_the_process_does() -> None:
    told: list[str] = []
    with pytest.raises(DatabaseError, match="it is away"):
        _process().host(Programmed("well", told), Programmed("failing", told, _fail))
    assert told == ["well drains", "well ended"]


def test_settings_that_one_refuses_are_taken_over_by_nobody() -> None:
    told: list[str] = []
    new = Settings.model_validate({"log": {"level": "error"}})
    pending = [signal.SIGHUP, signal.SIGHUP, signal.SIGTERM]

    def reread() -> Settings:
        refusing.refuses = len(pending) == 2
        os.kill(os.getpid(), pending.pop(0))
        return new

    first = Programmed("first", told)
    refusing = Programmed("second", told, lambda _: os.kill(os.getpid(), pending.pop(0)))
    _process(reread).host(first, refusing)
    assert told[:3] == ["first error", "second error", "first drains"]


def test_the_service_manager_hears_of_it_when_all_are_ready(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "notify")
    monkeypatch.setenv("NOTIFY_SOCKET", path)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(path)
        manager.setblocking(False)
        unready: list[Callable[[], None]] = []

        def heard() -> list[bytes]:
            found = []
            while True:
                try:
                    found.append(manager.recv(4096))
                except BlockingIOError:
                    return found

        def be_ready(on_ready: Callable[[], None]) -> None:
            on_ready()
            assert heard() == []
            unready[0]()
            assert heard()[0] == b"READY=1"
            os.kill(os.getpid(), signal.SIGTERM)

        _process().host(Programmed("late", [], unready.append), Programmed("early", [], be_ready))
        assert heard() == [b"STOPPING=1"]
