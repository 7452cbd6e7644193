"""An ASGI endpoint that only reads the body and answers: `raw_asgi.py PORT PROCESSES`.

It shows the cost of uvicorn itself, with the settings of inboxd's own listener.
"""

import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import uvicorn

Message = MutableMapping[str, Any]

ANSWER = b'{"receipt":"00000000-0000-0000-0000-000000000000","events":[]}'
HEADERS = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(ANSWER))]


async def application(
    _scope: Message,
    receive: Callable[[], Awaitable[Message]],
    send: Callable[[Message], Awaitable[None]],
) -> None:
    """Read the body, answer with 202."""
    more = True
    while more:
        more = (await receive()).get("more_body", False)
    await send({"type": "http.response.start", "status": 202, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


def serve(port: int, processes: int) -> None:
    """Serve on one socket, with this many processes."""
    listener = socket.create_server(("127.0.0.1", port), backlog=2048)
    # uvicorn raises the signal again at its end.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    children: list[int] = []
    for _ in range(processes - 1):
        if (child := os.fork()) == 0:
            children = []
            break
        children.append(child)
    config = uvicorn.Config(
        application,
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
    )
    try:
        uvicorn.Server(config).run(sockets=[listener])
    finally:
        for child in children:
            os.kill(child, signal.SIGTERM)


if __name__ == "__main__":
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    serve(int(sys.argv[1]), int(sys.argv[2]))
