"""Sends requests at a fixed rate, however slow the answers: `open_loop.py PORT FILE RATE SECONDS`.

Each request is due at a fixed time, and its latency is counted from then, also when it had to wait
for a connection: a frozen server gets no better figures («coordinated omission»). Prints the
figures as JSON.
Known limit: the clock is read every millisecond, which is part of the latencies.
"""

import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import httptools
import uvloop

CONNECTIONS = 256
_LONGEST = 10.0


class Wire(asyncio.Protocol):
    """A connection that sends the next request as soon as it has its answer."""

    def __init__(self, load: "Load") -> None:
        self._load, self._due = load, 0.0
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport for sending."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transport is not a subclass

    def send(self, due: float, request: bytes) -> None:
        """Send the request that was due at this time."""
        self._due = due
        self._transport.write(request)

    def data_received(self, data: bytes) -> None:
        """Parse a part of an answer."""
        self._parser.feed_data(data)

    def connection_lost(self, _error: Exception | None) -> None:
        """Count a lost connection: all must stay until the end."""
        self._load.lost += 1

    def on_message_complete(self) -> None:
        """Record the latency of an answer."""
        self._load.answered(self, self._due, self._parser.get_status_code())


class Load:
    """The schedule of the requests, and their results."""

    def __init__(self, requests: Iterator[bytes], rate: float, seconds: float) -> None:
        self._requests, self._rate, self._count = requests, rate, int(rate * seconds)
        self.idle: list[Wire] = []
        self.latencies: list[float] = []
        self.waiting: deque[float] = deque()
        self.refused = self.lost = 0
        self._ended = asyncio.Event()

    def answered(self, wire: Wire, due: float, status: int) -> None:
        """Record a latency, and give the connection the next waiting request."""
        self.latencies.append(time.perf_counter() - due)
        self.refused += not 200 <= status < 300
        if self.waiting:
            wire.send(self.waiting.popleft(), next(self._requests))
        else:
            self.idle.append(wire)
        if len(self.latencies) == self._count:
            self._ended.set()

    async def run(self, port: int) -> None:
        """Open the connections, then send each request on time."""
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            _, wire = await loop.create_connection(lambda: Wire(self), "127.0.0.1", port)
            self.idle.append(wire)
        begun, start = 0, time.perf_counter()
        while begun < self._count:
            due = min(self._count, int((time.perf_counter() - start) * self._rate))
            for number in range(begun, due):
                at = start + number / self._rate
                if self.idle:
                    self.idle.pop().send(at, next(self._requests))
                else:
                    self.waiting.append(at)
            begun = due
            await asyncio.sleep(0.001)
        with suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST):
                await self._ended.wait()

    def figures(self) -> dict[str, float]:
        """Latencies in milliseconds, and the numbers of answers and failures."""
        found = sorted(self.latencies)
        parts = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
        return {
            **{name: found[int(part * (len(found) - 1))] * 1000 for name, part in parts.items()},
            "answered": len(found),
            "refused": self.refused,
            "lost": self.lost + self._count - len(found),
        }


def read(path: Path) -> Iterator[bytes]:
    """The requests of a file, one by one."""
    with path.open("rb") as file:
        while length := file.readline():
            yield file.read(int(length))


async def main() -> None:
    """Send the requests, and print the figures."""
    port, path, rate, seconds = sys.argv[1:]
    load = Load(read(Path(path)), float(rate), float(seconds))
    await load.run(int(port))
    print(json.dumps(load.figures()))


if __name__ == "__main__":
    uvloop.run(main())
