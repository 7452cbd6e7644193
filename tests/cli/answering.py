"""A server that answers webhooks as a test wants it, and keeps what came."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Came:
    """A request."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Answering:
    """The server; what it answers may be changed."""

    url: str = ""
    status: int = 202
    body: bytes = b'{"receipt": "r", "events": ["e"]}'
    headers: dict[str, str] = field(default_factory=dict)
    closes: bool = False
    came: list[Came] = field(default_factory=list)


@contextmanager
def answering() -> Iterator[Answering]:
    """Start it on a port of its own."""
    given = Answering()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            sent = {name.lower(): value for name, value in self.headers.items()}
            given.came.append(Came(self.path, sent, body))
            if given.closes:
                self.close_connection = True
                return
            self.send_response(given.status)
            for name, value in given.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(given.body)))
            self.end_headers()
            self.wfile.write(given.body)

        def log_message(self, *_: object) -> None:
            """It is quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        given.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield given
        finally:
            server.shutdown()
            thread.join()
