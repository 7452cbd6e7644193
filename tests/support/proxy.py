"""A TCP proxy before PostgreSQL that cuts, swallows or delays the connections of one purpose.

    with proxy(database.dsn) as running, running.half_open("listener"):
        worker = Worker(tmp_path, running.dsn)

It identifies a connection by the `application_name` of its start-up message, so that a test can
disturb the listener and leave the others alone. It runs in threads, so that neither the test's
event loop nor the state of the server stops it. Known limit: no TLS; `dsn` has sslmode=disable.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

_BUFFER = 65536


class _Link:
    """One connection through the proxy, carried by two threads."""

    def __init__(self, client: socket.socket, server: socket.socket, greeting: bytes) -> None:
        self.greeting = greeting
        self.swallows = False
        self.delay = 0.0
        self.ended = False
        self._ends = (client, server)
        self._open = 2
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._pump, args=ends, daemon=True)
            for ends in ((client, server), (server, client))
        ]

    def start(self) -> None:
        """Forward the start-up message, then everything that arrives."""
        if not self.swallows:
            with suppress(OSError):  # it has ended already; the threads will notice
                self._ends[1].sendall(self.greeting)
        for thread in self._threads:
            thread.start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_BUFFER):
                time.sleep(self.delay)
                if not self.swallows:
                    target.sendall(data)
        if not self.swallows:
            self.cut()
        with self._lock:
            self._open -= 1
            if self._open:
                return
        for end in self._ends:
            end.close()

    def cut(self) -> None:
        """Shut down both sides at once."""
        self.ended = True
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Shut down both sides and wait for the threads."""
        self.cut()
        for thread in self._threads:
            if thread.is_alive():
                thread.join(5)


class Proxy:
    """Forwards by default; `dsn` goes through the proxy.

    A purpose is the end of an application name; "" matches every connection.
    """

    def __init__(self, dsn: str, listener: socket.socket) -> None:
        """Forward to the server of `dsn`."""
        parts = urlsplit(dsn)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = listener
        netloc = f"{parts.username or 'postgres'}@127.0.0.1:{listener.getsockname()[1]}"
        self.dsn = urlunsplit(parts._replace(netloc=netloc, query="sslmode=disable"))
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._hurt: list[_Link] = []
        self._silenced: list[str] = []
        self._delay = 0.0

    def serve(self) -> None:
        """Accept connections until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._link, args=[client], daemon=True).start()

    def _link(self, client: socket.socket) -> None:
        """Carry one connection, unless the client sends nothing or the server refuses it."""
        try:
            greeting = client.recv(_BUFFER)
            server = socket.create_connection(self._target)
        except OSError:
            client.close()
            return
        link = _Link(client, server, greeting)
        with self._lock:
            link.swallows = any(_is_for(link, purpose) for purpose in self._silenced)
            link.delay = self._delay
            (self._hurt if link.swallows else self._links).append(link)
        link.start()

    def count(self, purpose: str) -> int:
        """The number of undisturbed connections of a purpose."""
        with self._lock:
            return len(self._of(purpose))

    def cut(self, purpose: str) -> int:
        """Close the connections of a purpose; return their number."""
        found = self._take(purpose)
        for link in found:
            link.cut()
        return len(found)

    def swallow(self, purpose: str) -> int:
        """Keep the connections of a purpose open, but forward nothing; return their number."""
        return len(self._swallow(purpose))

    @contextmanager
    def half_open(self, purpose: str) -> Iterator[None]:
        """Swallow these connections during the block, but not new ones; cut them at its end."""
        links = self._swallow(purpose)
        try:
            yield
        finally:
            for link in links:
                link.cut()

    @contextmanager
    def silence(self, purpose: str) -> Iterator[None]:
        """Swallow these connections and all new ones during the block; cut them at its end."""
        with self._lock:
            self._silenced.append(purpose)
        links = self._swallow(purpose)
        try:
            yield
        finally:
            with self._lock:
                self._silenced.remove(purpose)
                links += [link for link in self._hurt if _is_for(link, purpose)]
            for link in links:
                link.cut()

    @contextmanager
    def slow(self, seconds: float) -> Iterator[None]:
        """Delay each piece of data during the block, in both directions."""
        self._delay_all(seconds)
        try:
            yield
        finally:
            self._delay_all(0.0)

    def _delay_all(self, seconds: float) -> None:
        with self._lock:
            self._delay = seconds
            for link in self._links:
                link.delay = seconds

    def close(self) -> None:
        for link in self._links + self._hurt:
            link.close()

    def _swallow(self, purpose: str) -> list[_Link]:
        found = self._take(purpose)
        for link in found:
            link.swallows = True
        return found

    def _take(self, purpose: str) -> list[_Link]:
        with self._lock:
            found = self._of(purpose)
            self._links = [link for link in self._links if link not in found]
            self._hurt += found
            return found

    def _of(self, purpose: str) -> list[_Link]:
        return [link for link in self._links if not link.ended and _is_for(link, purpose)]


def _is_for(link: _Link, purpose: str) -> bool:
    return not purpose or f" {purpose}\0".encode() in link.greeting


@contextmanager
def proxy(dsn: str) -> Iterator[Proxy]:
    """A running proxy before the server of `dsn`."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        running = Proxy(dsn, listener)
        thread = threading.Thread(target=running.serve, daemon=True)
        thread.start()
        try:
            yield running
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(5)
            running.close()
