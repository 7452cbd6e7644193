"""A child for the supervisor that starts at once: it notifies as a daemon does, and does no work.

    python -IS stand_in.py FOLDER

It appends a line to FOLDER/events for each thing that happens, and behaves as files there say:
`exit` (it ends with the code in the file), `stubborn` (it does not drain), `silent` (it answers no
request), `slow` (it becomes ready when the file is removed), `late` (it installs its signal
handlers then). The name of a file for one process ends in its number: `exit1`. It uses the standard
library only.
"""

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

FOLDER = Path(sys.argv[1])
NUMBER = os.environ["INBOXD_PROCESS"]
METRICS = """\
# HELP inboxd_things_total Things.
# TYPE inboxd_things_total counter
inboxd_things_total{{kind="a"}} {number}.0
# HELP inboxd_level A level.
# TYPE inboxd_level gauge
inboxd_level {number}.5
"""


def read_file(what: str) -> str | None:
    """The content of a file, if it exists."""
    for name in (what, what + NUMBER):
        if (FOLDER / name).exists():
            return (FOLDER / name).read_text()
    return None


def note(event: str) -> None:
    file = os.open(FOLDER / "events", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{NUMBER} {os.getpid()} {event}\n".encode())
    os.close(file)


def notify(state: str) -> None:
    """Send a state to the supervisor."""
    # The supervisor may have ended.
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender, suppress(OSError):
        sender.sendto(state.encode(), os.environ["NOTIFY_SOCKET"])


def drain(*_: Any) -> None:
    """End, unless the file `stubborn` exists."""
    note("TERM")
    notify("STOPPING=1")
    if read_file("stubborn") is None:
        sys.exit(0)


def reload(*_: Any) -> None:
    """Report that the settings are read."""
    note("HUP")
    notify("RELOADING=1")
    notify("READY=1")


def metrics(query: str) -> str:
    """All metrics, or the lines of the one that is asked for."""
    page = METRICS.format(number=NUMBER)
    name = query.removeprefix("name%5B%5D=")
    return "".join(line for line in page.splitlines(keepends=True) if name in line)


def answer(connection: socket.socket) -> None:
    """Answer a request of the supervisor."""
    with connection:
        if read_file("silent") is not None:
            while True:
                signal.pause()  # it reacts only to signals
        path, _, query = connection.recv(4096).decode().split()[1].partition("?")
        body = metrics(query) if path == "/metrics" else '{"ok":true,"parts":[]}'
        connection.sendall(f"HTTP/1.1 200 OK\r\n\r\n{body}".encode())


def main() -> NoReturn:
    while read_file("late") is not None:
        time.sleep(0.01)
    handlers: dict[signal.Signals, Callable[..., None]]
    handlers = {signal.SIGTERM: drain, signal.SIGHUP: reload}
    for number, handler in handlers.items():
        signal.signal(number, handler)
    note("start")
    if (code := read_file("exit")) is not None:
        sys.exit(int(code))
    listeners = [
        socket.socket(fileno=file)
        for file, name in enumerate(os.environ.get("LISTEN_FDNAMES", "").split(":"), 3)
        if name == "http"
    ]
    is_ready = False
    while True:
        notify("WATCHDOG=1")
        if not is_ready and read_file("slow") is None:
            is_ready = True
            notify("READY=1")
        for each in select.select(listeners, [], [], 0.05)[0]:
            answer(each.accept()[0])


main()
