"""Notifications to the service manager: ready, reloading, stopping, status, and the watchdog.

Promises that the watchdog is fed only while the process is healthy. Known limit: Unix datagram
sockets only, path or abstract; no vsock.
"""

import os
import socket
import time
from collections.abc import Callable, Mapping

import anyio


class Notifier:
    """Sends states to `$NOTIFY_SOCKET`; without one, every call does nothing."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # "@name" is an abstract socket, whose real name begins with a zero byte.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog_interval = _watchdog_interval(environ)

    def ready(self) -> None:
        """Report that start-up, or a reload, is done."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Report that the settings are being read again; `ready` ends it."""
        self._send(f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")

    def stopping(self) -> None:
        self._send("STOPPING=1")

    def status(self, text: str) -> None:
        """Set the line that `systemctl status` shows."""
        self._send(f"STATUS={' '.join(text.split())}")

    def alive(self) -> None:
        self._send("WATCHDOG=1")

    async def feed_watchdog(self, healthy: Callable[[], bool]) -> None:
        """Feed the watchdog while `healthy()` is true; return if the watchdog is not active."""
        if self.watchdog_interval is None:
            return
        while True:
            if healthy():
                self.alive()
            await anyio.sleep(self.watchdog_interval)

    def _send(self, state: str) -> None:
        if not self._address.startswith(("/", "\0")):
            return
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.settimeout(0)
            try:
                sender.sendto(state.encode(), self._address)
            except OSError:
                # A manager that does not listen must not stop the daemon.
                return


def _watchdog_interval(environ: Mapping[str, str]) -> float | None:
    """Half of systemd's limit, in seconds; None if it does not watch this process."""
    allowed = environ.get("WATCHDOG_USEC", "")
    if environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(allowed) / 2_000_000 if allowed.isdecimal() and int(allowed) else None
