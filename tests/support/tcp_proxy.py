"""A TCP proxy before a broker that cuts, holds, swallows, delays or refuses connections.

    with tcp_proxy(server.host, server.port) as proxy, proxy.hold("to_client"):
        ...

It does not parse the data, so it fits every protocol, also with TLS. It runs in threads, so that
neither the test's event loop nor the state of the server stops it. If the server is away, a
connection ends at once.

See: tests/support/proxy.py, which selects PostgreSQL's connections by their purpose.
"""

import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

from tests.support.ports import held_port
from tests.support.waiting import patient

Way = Literal["to_server", "to_client"]
BOTH: tuple[Way, ...] = ("to_server", "to_client")

_BUFFER = 65536
_CONNECT_SECONDS = 5.0


class _Pipe:
    """One direction of one connection, carried by a thread."""

    def __init__(
        self, source: socket.socket, target: socket.socket, ended: Callable[[], None]
    ) -> None:
        self.flows = threading.Event()
        self.flows.set()
        self.swallows = False
        self.delay = 0.0
        self._source, self._target, self._ended = source, target, ended
        self.thread = threading.Thread(target=self._carry, daemon=True)

    def _carry(self) -> None:
        with suppress(OSError):
            while data := self._source.recv(_BUFFER):
                self.flows.wait()
                time.sleep(self.delay)
                if not self.swallows:
                    self._target.sendall(data)
        if not self.swallows:
            self._ended()


class _Link:
    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self._ends = (client, server)
        self.ended = False
        self.pipes: dict[Way, _Pipe] = {
            "to_server": _Pipe(client, server, self.cut),
            "to_client": _Pipe(server, client, self.cut),
        }

    def start(self) -> None:
        for pipe in self.pipes.values():
            pipe.thread.start()

    def cut(self) -> None:
        """Shut down both sides; held data is lost."""
        self.ended = True
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for pipe in self.pipes.values():
            pipe.flows.set()

    def close(self) -> None:
        self.cut()
        for pipe in self.pipes.values():
            pipe.thread.join(5)
        for end in self._ends:
            end.close()


class TcpProxy:
    """Forwards by default; faults also hold for later connections."""

    host = "127.0.0.1"

    def __init__(self, target: tuple[str, int], held: socket.socket) -> None:
        """Forward to the server at `target`, from the port that `held` holds."""
        self.port: int = held.getsockname()[1]
        self._target = target
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._held: set[Way] = set()
        self._swallowed: set[Way] = set()
        self._delay = 0.0
        self._listen()

    @property
    def address(self) -> str:
        """The proxy's address, for settings of a broker."""
        return f"{self.host}:{self.port}"

    def count(self) -> int:
        """The number of open connections."""
        with self._lock:
            return sum(not link.ended for link in self._links)

    def cut(self) -> int:
        """Cut all open connections; return their number."""
        with self._lock:
            found = [link for link in self._links if not link.ended]
        for link in found:
            link.cut()
        return len(found)

    @contextmanager
    def hold(self, *ways: Way) -> Iterator[None]:
        """Stop reading during the block, as a stopped server; then forward everything."""
        with self._marked(self._held, ways or BOTH):
            yield

    @contextmanager
    def swallow(self, *ways: Way) -> Iterator[None]:
        """Read and forward nothing during the block; cut these connections at its end."""
        with self._marked(self._swallowed, ways or BOTH):
            try:
                yield
            finally:
                self.cut()

    @contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        """Delay each piece of data during the block, in both directions."""
        self._delay_all(seconds)
        try:
            yield
        finally:
            self._delay_all(0.0)

    @contextmanager
    def refuse(self) -> Iterator[None]:
        """Cut all connections, and refuse new ones during the block."""
        self._deafen()
        self.cut()
        try:
            yield
        finally:
            self._listen()

    def close(self) -> None:
        self._deafen()
        for link in self._links:
            link.close()

    def _listen(self) -> None:
        self._listener = socket.create_server((self.host, self.port))
        self._thread = threading.Thread(target=self._serve, args=[self._listener], daemon=True)
        self._thread.start()

    def _deafen(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(5)
        self._listener.close()

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                client, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=self._link, args=[client], daemon=True).start()

    def _link(self, client: socket.socket) -> None:
        try:
            server = socket.create_connection(self._target, patient(_CONNECT_SECONDS))
        except OSError:
            client.close()
            return
        server.settimeout(None)
        link = _Link(client, server)
        with self._lock:
            self._links.append(link)
            self._tell(link)
        link.start()

    @contextmanager
    def _marked(self, those: set[Way], ways: tuple[Way, ...]) -> Iterator[None]:
        with self._lock:
            those.update(ways)
            self._tell(*self._links)
        try:
            yield
        finally:
            with self._lock:
                those.difference_update(ways)
                self._tell(*self._links)

    def _delay_all(self, seconds: float) -> None:
        with self._lock:
            self._delay = seconds
            self._tell(*self._links)

    def _tell(self, *links: _Link) -> None:
        for link in links:
            for way, pipe in link.pipes.items():
                pipe.delay = self._delay
                pipe.swallows = way in self._swallowed
                if way in self._held and not link.ended:
                    pipe.flows.clear()
                else:
                    pipe.flows.set()


@contextmanager
def tcp_proxy(host: str, port: int) -> Iterator[TcpProxy]:
    """A running proxy before a server."""
    with held_port() as held:
        running = TcpProxy((host, port), held)
        try:
            yield running
        finally:
            running.close()
