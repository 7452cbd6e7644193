"""A TCP proxy before PostgreSQL that cuts or swallows the connections of one purpose.

Knows a connection by the `application_name` of its start-up message, so that a test can hurt the
listener and leave the others alone. Runs in threads, so that it goes on whatever the test's loop
does. Known limit: no TLS; `dsn` says sslmode=disable.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from urllib.parse import urlsplit, urlunsplit

_BUFFER = 65536


class _Link:
    """One connection through the proxy; two threads carry it."""

    def __init__(self, client: socket.socket, server: socket.socket) -> None:
        self.greeting = client.recv(_BUFFER)
        self.swallows = False
        self._ends = (client, server)
        server.sendall(self.greeting)
        self._threads = [
            threading.Thread(target=self._pump, args=ends, daemon=True)
            for ends in ((client, server), (server, client))
        ]
        for thread in self._threads:
            thread.start()

    def _pump(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(_BUFFER):
                if not self.swallows:
                    target.sendall(data)
        if not self.swallows:
            self.cut()

    def cut(self) -> None:
        """End both sides."""
        for end in self._ends:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """End both sides and wait for the threads."""
        self.cut()
        for thread in self._threads:
            thread.join(5)
        for end in self._ends:
            end.close()


class Proxy:
    """Forwards until told otherwise; `dsn` is the way through it."""

    def __init__(self, dsn: str, listener: socket.socket) -> None:
        """Stand before the server of `dsn`."""
        parts = urlsplit(dsn)
        self._target = (parts.hostname or "127.0.0.1", parts.port or 5432)
        self._listener = listener
        netloc = f"{parts.username or 'postgres'}@127.0.0.1:{listener.getsockname()[1]}"
        self.dsn = urlunsplit(parts._replace(netloc=netloc, query="sslmode=disable"))
        self._links: list[_Link] = []
        self._hurt: list[_Link] = []

    def serve(self) -> None:
        """Take connections until the listener is closed."""
        while True:
            try:
                client, _ = self._listener.accept()
                self._links.append(_Link(client, socket.create_connection(self._target)))
            except OSError:
                return

    def count(self, purpose: str) -> int:
        """How many unhurt connections have an application name that ends so."""
        return len(self._of(purpose))

    def cut(self, purpose: str) -> int:
        """Close the connections whose application name ends so; how many there were."""
        found = self._take(purpose)
        for link in found:
            link.cut()
        return len(found)

    def swallow(self, purpose: str) -> int:
        """Let these connections stay open and pass nothing on; how many there were."""
        found = self._take(purpose)
        for link in found:
            link.swallows = True
        return len(found)

    def close(self) -> None:
        """End everything."""
        for link in self._links + self._hurt:
            link.close()

    def _take(self, purpose: str) -> list[_Link]:
        found = self._of(purpose)
        self._links = [link for link in self._links if link not in found]
        self._hurt += found
        return found

    def _of(self, purpose: str) -> list[_Link]:
        name = f" {purpose}\0".encode()
        return [link for link in self._links if name in link.greeting]


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
