"""A supervisor as its operator runs it, with children that start at once.

    supervising = supervise(processes=2, slow="")  # a fixture
    await supervising.manager.hears("READY=1")

Promises: every wait has a bound; neither the supervisor nor a child outlives its test.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Protocol

import anyio.to_thread

from inboxd.daemon.plan import SUPERVISOR, SupervisorPlan, write
from tests.support import eventually
from tests.support.waiting import patient

# Seconds for which a child may be silent; a machine may pause for some of them.
PATIENCE = patient(15)
STAND_IN = Path(__file__).with_name("stand_in.py")


@dataclass
class Caller:
    """A client that connects, requests and closes, again and again."""

    answers: list[int] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)


@contextmanager
def calling(url: str) -> Iterator[Caller]:
    """Call the URL during the block, in two threads."""
    caller, over = Caller(), threading.Event()

    def call() -> None:
        while not over.is_set():
            try:
                with urllib.request.urlopen(url, timeout=patient(20)) as answer:
                    answer.read()
                    caller.answers.append(answer.status)
            except OSError as error:
                caller.failures.append(repr(error))

    threads = [threading.Thread(target=call) for _ in range(2)]
    for each in threads:
        each.start()
    try:
        yield caller
    finally:
        over.set()
        for each in threads:
            each.join()


class Supervise(Protocol):
    """The type of the fixture `supervise`."""

    def __call__(
        self, *, processes: int = 2, patience: float = PATIENCE, **told: object
    ) -> "Supervising":
        """Start a supervisor. patience: see `Supervising`. told: how its children behave."""


class Manager:
    """A service manager's notification socket, and the states received."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "manager"
        self.told: list[str] = []
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        self._socket.bind(str(self.path))

    async def hears(self, state: str) -> None:
        """Wait for a state that arrives after the last one that was waited for."""

        async def is_told() -> bool:
            with suppress(BlockingIOError):
                while message := self._socket.recv(4096):
                    self.told += message.decode().splitlines()
            return state in self.told

        await eventually(is_told)
        del self.told[: self.told.index(state) + 1]

    def close(self) -> None:
        self._socket.close()


class Supervising:
    """One supervisor, by default with two children."""

    def __init__(
        self,
        folder: Path,
        listener: socket.socket,
        *,
        processes: int = 2,
        patience: float = PATIENCE,
    ) -> None:
        """Start the supervisor. patience: seconds of silence after which it kills a child."""
        self.folder = folder
        self.manager = Manager(folder)
        self.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._listener = listener
        self._log = folder / "log"
        python = [sys.executable, "-I", "-S"]
        self.plan = SupervisorPlan(
            supervisor=[sys.executable, "-m", "inboxd.daemon.supervisor"],
            # This program answers with the plan that the test has put there.
            program=[*python, "-c", _PLANNER, str(folder)],
            command=[*python, str(STAND_IN), str(folder)],
            processes=processes,
            addresses={"http": ("http", *listener.getsockname())},  # type: ignore[dict-item]
            patience=patience,
            worker="worker-a",
            log_level="info",
            log_format="json",
        )
        # For the supervisor's private folder, removed with it. Short, since a socket's path must
        # be.
        self._temporary = tempfile.mkdtemp(prefix="supervising-")
        self.change_plan()
        self.process = self._start()

    def _start(self) -> subprocess.Popen[bytes]:
        environ = {
            **{k: v for k, v in os.environ.items() if not k.startswith("INBOXD_")},
            SUPERVISOR: write(self.plan),
            "NOTIFY_SOCKET": str(self.manager.path),
            "TMPDIR": self._temporary,
        }
        with self._log.open("wb") as log:
            return subprocess.Popen(
                [*by_socket("http", self._listener), *self.plan.supervisor],
                pass_fds=[self._listener.fileno()],
                env=environ,
                stdout=log,
                stderr=log,
            )

    def change_plan(self, **changes: object) -> None:
        """Change the plan that the program will report from now on."""
        (self.folder / "next").write_text(write(SupervisorPlan(**{**asdict(self.plan), **changes})))

    def tell(self, what: str, value: object = "") -> None:
        """Make children behave in some way (tests/support/stand_in.py)."""
        (self.folder / what).write_text(str(value))

    def take_back(self, what: str) -> None:
        (self.folder / what).unlink()

    def events(self) -> list[tuple[int, int, str]]:
        """The events that children have noted: number, pid, event."""
        path = self.folder / "events"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(n), int(pid), event) for n, pid, event in (line.split() for line in lines)]

    def pids(self, event: str = "start", number: int | None = None) -> list[int]:
        """The processes that have noted an event, in that order."""
        return [pid for n, pid, what in self.events() if what == event and number in (None, n)]

    def log(self) -> list[dict[str, object]]:
        """The lines that the supervisor has logged."""
        return [json.loads(line) for line in self._log.read_text().splitlines() if line[:1] == "{"]

    def output(self) -> str:
        return self._log.read_text()

    async def logged(self, message: str, count: int = 1) -> list[dict[str, object]]:
        """Wait until the log has `count` lines with this message; return them."""

        async def are_there() -> list[dict[str, object]]:
            found = [line for line in self.log() if line["message"] == message]
            return found if len(found) >= count else []

        return await eventually(are_there)

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page."""
        return await anyio.to_thread.run_sync(_get, self.url + path)

    async def is_ready(self) -> None:
        """Wait until the supervisor has reported READY=1."""
        await self.manager.hears("READY=1")

    async def wait(self) -> int:
        """Wait for the end; return the exit code."""
        return await anyio.to_thread.run_sync(self.process.wait, patient())

    async def are_gone(self, *pids: int) -> None:
        """Wait until none of these processes runs."""

        async def is_so() -> bool:
            return not any(runs(pid) for pid in pids)

        await eventually(is_so)

    def end(self) -> None:
        """Kill the supervisor and all children."""
        self.process.kill()
        self.process.wait(patient())
        for pid in self.pids():
            if runs(pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.manager.close()
        shutil.rmtree(self._temporary, ignore_errors=True)


def by_socket(name: str, listener: socket.socket) -> list[str]:
    """The command prefix that passes a socket to a program, as a service manager does."""
    return [sys.executable, "-c", _HANDED_OVER, str(listener.fileno()), name]


def runs(pid: int) -> bool:
    """Whether the process runs: neither gone nor a zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def files_of(pid: int) -> list[str]:
    """The targets of its open files, without those that it closes meanwhile."""
    found = []
    for each in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):
            found.append(str(each.readlink()))
    return found


def _get(url: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(url, timeout=patient(10)) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


_PLANNER = """
import os, shutil, sys
folder = sys.argv[1]
if os.path.exists(folder + "/broken"):
    sys.exit("the new program is broken")
shutil.copy(folder + "/next", os.environ["INBOXD_SUPERVISOR_PLAN"])
"""
# Runs between fork and exec.
_HANDED_OVER = """
import os, sys
given, name, *program = sys.argv[1:]
os.dup2(int(given), 3)
os.set_inheritable(int(given), int(given) == 3)
variables = {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "LISTEN_FDNAMES": name}
os.execve(program[0], program, {**os.environ, **variables})
"""
