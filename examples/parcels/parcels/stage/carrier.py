"""A stand-in for a carrier: it books parcels, and is busy at times.

    python -m parcels.stage.carrier [PORT]      # 8901

Owns its book, in memory. Promises what a target must offer: it books one parcel for each
Idempotency-Key, and answers a repetition with the first answer. It answers every third request with
503, and an address without a number with 422.
"""

import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_PATH = re.compile(r"/parcels/(\d+)")
_BUSY_EVERY = 3


class Carrier:
    """The parcels that are booked, by key, and the number of requests."""

    def __init__(self, busy_every: int = _BUSY_EVERY) -> None:
        """Begin with an empty book; answer every `busy_every`-th request with 503 (0: none)."""
        self.booked: dict[str, dict[str, Any]] = {}
        self.asked = 0
        self._busy_every = busy_every
        self._lock = threading.Lock()

    def answer(self, path: str, key: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Returns the status and the body."""
        found = _PATH.fullmatch(path)
        with self._lock:
            self.asked += 1
            if self._busy_every and self.asked % self._busy_every == 0:
                return 503, {"error": "busy"}
            if found is None or not key:
                return 400, {"error": "PUT /parcels/NUMBER, with an Idempotency-Key"}
            if not re.search(r"\d", body.get("to", "")):
                return 422, {"error": "the address has no number"}
            if key not in self.booked:
                self.booked[key] = {"number": f"CP{1000 + len(self.booked)}", "order": found[1]}
            return 201, self.booked[key]


@contextmanager
def served(carrier: Carrier, port: int = 0) -> Iterator[int]:
    """Serve the carrier in a thread of this process; yields the port."""

    class Door(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            key = self.headers.get("idempotency-key", "")
            status, answer = carrier.answer(self.path, key, json.loads(body or b"{}"))
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library has it
            """Write no line for each request."""

    server = ThreadingHTTPServer(("127.0.0.1", port), Door)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


if __name__ == "__main__":
    wanted = int(sys.argv[1]) if len(sys.argv) > 1 else 8901
    with served(Carrier(), wanted):
        print(f"The carrier listens at 127.0.0.1:{wanted}; Ctrl-C ends it.")
        threading.Event().wait()
