"""One embedded server: its process, port and folder lock. Two may pick the same free port."""

import fcntl
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import Literal, Self
from urllib.parse import quote

from inboxd.embedded.datadir import Account, Place, give, spawn
from inboxd.errors import DatabaseError

StopMode = Literal["fast", "immediate"]

_SIGNALS: Mapping[StopMode, signal.Signals] = MappingProxyType(
    {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}
)
_READY_SECONDS = 60.0  # crash recovery included
_STOP_SECONDS = 30.0  # a fast shutdown writes a checkpoint
_POLL_SECONDS = 0.02

# PostgreSQL does not notice its parent's death, and Linux' "parent death signal" means the *thread*
# that forked. This shell, a process of its own, waits on a pipe that only the owner holds open;
# then it stops the server and removes the socket's folder.
_GUARD = 'read -r _; kill -INT "$1"; rm -rf "$2"'


class Server:
    """A running server, which its context stops. `home` has `cluster/`, `server.log` and `lock`."""

    def __init__(
        self,
        place: Place,
        port: int,
        socket_folder: Path,
        settings: Mapping[str, str],
        resources: ExitStack,
    ) -> None:
        self.home = place.home
        self.port = port
        self.socket_folder = socket_folder
        self._place = place
        self._settings = dict(settings)
        self._resources = resources
        self._processes: tuple[subprocess.Popen[bytes], subprocess.Popen[bytes]] | None = None

    @classmethod
    def start(
        cls,
        data: Path,
        *,
        port: int | None = None,
        settings: Mapping[str, str] = MappingProxyType({}),
        durable: bool = True,
        binaries: Path | None = None,
    ) -> Self:
        """Start a server on the folder `data`, which is made at its first use; return when ready.

        `port` None picks a free one. `durable=False` is safe against a crash of the server, not of
        the machine. `binaries`: the folder of another PostgreSQL's `postgres` and `initdb`. Root
        runs the server as an unprivileged account (see `datadir`). Raises DatabaseError, with the
        end of the log.
        """
        with ExitStack() as undo:
            place = Place.prepare(data, binaries)
            undo.enter_context(_locked(place.home))
            _stop_leftover(place.cluster)
            _initialise(place)
            sockets = undo.enter_context(_socket_folder(place.account))
            speed = {} if durable else {"fsync": "off", "full_page_writes": "off"}
            server = cls(place, port or free_port(), sockets, {**speed, **settings}, undo)
            server._launch()
            server._resources = undo.pop_all()
        return server

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The process id of the postmaster. Raises DatabaseError when the server is stopped."""
        if self._processes is None:
            raise DatabaseError(f"The embedded PostgreSQL in {self.home} is stopped: start it.")
        return self._processes[0].pid

    def dsn(self, database: str = "postgres") -> str:
        """The URL of a database, over TCP, as the superuser `postgres`."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{quote(database, safe='')}"

    def stop(self, mode: StopMode = "fast") -> None:
        """Stop the server and free its folder; `immediate` leaves it as after a crash."""
        self._halt(mode)
        self._resources.close()

    def restart(self, mode: StopMode = "fast") -> None:
        with self.outage(mode):
            pass

    @contextmanager
    def outage(self, mode: StopMode = "fast") -> Iterator[None]:
        self._halt(mode)
        try:
            yield
        finally:
            self._launch()

    def log_tail(self, lines: int = 20) -> str:
        return _tail(self._place.log, lines)

    def _launch(self) -> None:
        command = [str(self._place.binaries / "postgres"), "-D", str(self._place.cluster)]
        fixed = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": str(self.socket_folder),
        }
        for name, value in (self._settings | fixed).items():
            command += ["-c", f"{name}={value}"]
        with self._place.log.open("ab") as log:
            server = spawn(command, self._place.account, log=log)
        guard = spawn(
            ["/bin/sh", "-c", _GUARD, "guard", str(server.pid), str(self.socket_folder)],
            self._place.account,
            stdin=subprocess.PIPE,
        )
        self._processes = server, guard
        try:
            self._wait_until_ready(server)
        except BaseException:
            self._halt("immediate")
            raise

    def _wait_until_ready(self, server: subprocess.Popen[bytes]) -> None:
        question = [str(self._place.binaries / "pg_isready"), "-q", "-t", "1"]
        question += ["-h", str(self.socket_folder), "-p", str(self.port)]
        deadline = time.monotonic() + _READY_SECONDS
        while time.monotonic() < deadline:
            if server.poll() is not None:
                raise self._failure(f"ended with exit code {server.returncode} at its start")
            if subprocess.run(question, check=False).returncode == 0:
                return
            time.sleep(_POLL_SECONDS)
        raise self._failure(f"was not ready within {_READY_SECONDS:.0f} seconds")

    def _failure(self, what: str) -> DatabaseError:
        return DatabaseError(
            f"The embedded PostgreSQL in {self.home} {what}; the end of its log:\n{self.log_tail()}"
        )

    def _halt(self, mode: StopMode) -> None:
        if self._processes is None:
            return
        server, guard = self._processes
        for number in (_SIGNALS[mode], signal.SIGQUIT, signal.SIGKILL):
            server.send_signal(number)
            with suppress(subprocess.TimeoutExpired):
                server.wait(_STOP_SECONDS)
                break
        # Only now: until here the guard protects against the death of this process.
        guard.kill()
        guard.communicate()
        self._processes = None


@contextmanager
def _locked(home: Path) -> Iterator[None]:
    """Lock the folder; the kernel releases the lock when the process ends."""
    with (home / "lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DatabaseError(
                f"Another process runs the embedded PostgreSQL in {home}: stop that process, or "
                "use a folder of your own."
            ) from error
        yield


@contextmanager
def _socket_folder(account: Account) -> Iterator[Path]:
    """A short path: the system allows 107 bytes, and TMPDIR may be long, or private to root."""
    with tempfile.TemporaryDirectory(prefix="inboxd-", dir="/tmp") as folder:
        give(Path(folder), account)
        yield Path(folder)


def free_port() -> int:
    """Outside the range of outgoing connections, where a retrying client may connect to itself."""
    for _ in range(100):
        port = random.randrange(20_000, 32_000)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise DatabaseError("No free port between 20000 and 32000 was found: give a port yourself.")


def _initialise(place: Place) -> None:
    """Make the cluster, completely or not at all."""
    if place.cluster.exists():
        return
    scratch = place.home / "cluster.new"
    shutil.rmtree(scratch, ignore_errors=True)  # from an attempt that was killed
    scratch.mkdir(mode=0o700)
    give(scratch, place.account)
    command = [str(place.binaries / "initdb"), "-D", str(scratch), "-U", "postgres"]
    command += ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-instructions"]
    if _has_builtin_locales(place.binaries):
        command += ["--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    with place.log.open("ab") as log:
        code = spawn(command, place.account, log=log).wait()
    if code != 0:
        raise DatabaseError(
            f"initdb failed in {place.home}; the end of its output:\n{_tail(place.log)}"
        )
    scratch.rename(place.cluster)


def _has_builtin_locales(binaries: Path) -> bool:
    """Whether this is PostgreSQL 17 or newer; older ones sort by bytes without this option."""
    options = subprocess.run(
        [str(binaries / "initdb"), "--help"], capture_output=True, text=True, check=True
    )
    return "--builtin-locale" in options.stdout


def _stop_leftover(cluster: Path) -> None:
    for number, bound in ((signal.SIGINT, _STOP_SECONDS), (signal.SIGQUIT, _STOP_SECONDS)):
        pid = _postmaster(cluster)
        if pid is None:
            return
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        deadline = time.monotonic() + bound
        while _postmaster(cluster) is not None and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)
    if (pid := _postmaster(cluster)) is not None:
        raise DatabaseError(
            f"A PostgreSQL server (process {pid}) still runs on {cluster} and does not stop: "
            "end it, then start again."
        )


def _postmaster(cluster: Path) -> int | None:
    """The process that serves the cluster; the pid file alone may name another process."""
    try:
        pid = int((cluster / "postmaster.pid").read_text().split("\n", 1)[0])
        works_in = Path(f"/proc/{pid}/cwd").readlink()
    except (OSError, ValueError):
        return None
    return pid if works_in == cluster.resolve() else None


def _tail(log: Path, lines: int = 20) -> str:
    text = log.read_text(errors="replace") if log.exists() else ""
    return "\n".join(text.splitlines()[-lines:])
