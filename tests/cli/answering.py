"""A server that answers webhooks as a test sets it, and keeps the requests.

with answering() as target:
    target.status = 503
    cli("webhooks", "send", "bets", "--to", target.url)
    assert target.came[0].body == b"{}"
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(frozen=True, slots=True)
class Came:
    """A received request; names of headers in lower case."""

    path: str
    headers: Mapping[str, str]
    body: bytes


@dataclass(slots=True)
class Answering:
    """The server: its answer, which a test may change, and the received requests.

    closes: it closes the connection without an answer.
    """

    url: str = ""
    status: int = 202
    body: bytes = b'{"receipt": "r", "events": ["e"]}'
    headers: dict[str, str] = field(default_factory=dict)
    closes: bool = False
    came: list[Came] = field(default_factory=list)


@contextmanager
def answering() -> Iterator[Answering]:
    """Start the server on a free port."""
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
            """Discard the line that the server would print."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        given.url = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield given
        finally:
            server.shutdown()
            thread.join()
