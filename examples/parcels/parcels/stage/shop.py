"""A stand-in for a shop: it verifies incoming webhooks, and prints them.

    python -m parcels.stage.shop SECRET [PORT]      # 8902

It implements Standard Webhooks in a few lines; a real service uses one of its libraries.
"""

import base64
import hashlib
import hmac
import sys
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, HTTPServer

_TOLERANCE = 300.0


def is_genuine(secret: str, headers: Mapping[str, str], body: bytes, now: float) -> bool:
    """Whether the message is recent and has a signature with this secret."""
    message_id, at = headers["webhook-id"], headers["webhook-timestamp"]
    if abs(now - int(at)) > _TOLERANCE:
        return False
    key = base64.b64decode(secret.removeprefix("whsec_"))
    signed = f"{message_id}.{at}.".encode() + body
    made = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    given = headers["webhook-signature"].split(" ")
    return any(hmac.compare_digest(f"v1,{made}", each) for each in given)


def main(secret: str, port: int) -> None:
    """Print incoming messages, each once."""
    seen: set[str] = set()

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            """Verify the message; print it unless it came before."""
            body = self.rfile.read(int(self.headers.get("content-length", "0")))
            headers = {name.lower(): value for name, value in self.headers.items()}
            genuine = is_genuine(secret, headers, body, time.time())
            self.send_response(204 if genuine else 401)
            self.end_headers()
            if genuine and headers["webhook-id"] not in seen:
                seen.add(headers["webhook-id"])
                print(body.decode(), flush=True)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as the library has it
            """Write no line for each request."""

    print(f"The shop listens at 127.0.0.1:{port}; Ctrl-C ends it.")
    HTTPServer(("127.0.0.1", port), Door).serve_forever()


if __name__ == "__main__":
    match sys.argv[1:]:
        case [secret]:
            main(secret, 8902)
        case [secret, port]:
            main(secret, int(port))
        case _:
            raise SystemExit("usage: python -m parcels.stage.shop SECRET [PORT]")
