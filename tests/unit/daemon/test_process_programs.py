"""A process hosts programs: it calls them in order, is ready with all, and ends them in order."""

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
    """A program that acts as its test says, and records its calls."""

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


def test_the_first_program_drains_first() -> None:
    told: list[str] = []
    first = Programmed("first", told)
    second = Programmed("second", told, lambda _: os.kill(os.getpid(), signal.SIGTERM))
    assert _process().host(first, second) == 0
    assert told[:2] == ["first drains", "second drains"]
    assert sorted(told[2:]) == ["first ended", "second ended"]


def test_if_one_program_fails_the_other_drains_before_the_process_ends() -> None:
    told: list[str] = []
    with pytest.raises(DatabaseError, match="it is away"):
        _process().host(Programmed("well", told), Programmed("failing", told, _fail))
    assert told == ["well drains", "well ended"]


def test_new_settings_are_applied_by_all_programs_or_none() -> None:
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


def test_ready_is_reported_when_all_programs_are_ready(
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
