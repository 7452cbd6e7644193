"""Webhooks for the receiver's benchmark: requests signed beforehand, and the two generators.

The closed loop is Debian's `wrk`, as fast as it can; the open loop, `open_loop.py`, has a fixed
rate.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from pathlib import Path
from uuid import uuid4

HERE = Path(__file__).parent
SECRET = b"a secret of the benchmark: 32 b."
MATCHES = 1_000

_numbers = count(1)


@dataclass(frozen=True, slots=True)
class Closed:
    """wrk's figures: accepted requests, their rate per second, the slowest second, p99 in ms."""

    accepted: int
    rate: float
    slowest_second: float
    p99: float


def result(number: int) -> dict[str, object]:
    """The body of a provider's message about a match."""
    return {
        "matchExternalId": f"match-{number % MATCHES}",
        "homeScore": number % 5,
        "awayScore": number % 3,
        "status": "FINISHED",
        "providerEventId": f"result-{number}",
    }


def requests(items: int | None) -> Iterator[bytes]:
    """Endless requests of Standard Webhooks, signed now; `items`: the results in an array."""
    now = str(int(time.time()))
    while True:
        results = [result(next(_numbers)) for _ in range(items or 1)]
        body = json.dumps(results[0] if items is None else results, separators=(",", ":")).encode()
        name = f"msg_{uuid4().hex}"
        signed = hmac.digest(SECRET, f"{name}.{now}.".encode() + body, hashlib.sha256)
        head = (
            "POST /in/bench HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
            f"content-length: {len(body)}\r\nwebhook-id: {name}\r\nwebhook-timestamp: {now}\r\n"
            f"webhook-signature: v1,{base64.b64encode(signed).decode()}\r\n\r\n"
        )
        yield head.encode() + body


def write(path: Path, how_many: int, items: int | None) -> None:
    """Write `how_many` requests into a file, in the format of both generators."""
    with path.open("wb") as file:
        for request in islice(requests(items), how_many):
            file.write(b"%d\n%b" % (len(request), request))


async def closed_loop(
    port: int, file: Path, seconds: int, connections: int, cores: Sequence[int]
) -> Closed:
    """Let wrk send as fast as it can. Raises SystemExit unless all answers are 2xx."""
    wrk = shutil.which("wrk")
    if wrk is None:
        raise SystemExit("wrk is not installed: apt install wrk")
    said = await _output(
        cores,
        *(wrk, "--threads=1", f"--connections={connections}", f"--duration={seconds}s"),
        "--timeout=10s",
        *(f"--script={HERE / 'wrk.lua'}", f"http://127.0.0.1:{port}", "--", str(file)),
    )
    found = json.loads(said.splitlines()[-1])
    if found["ended"]:
        raise SystemExit("the generator had too few requests: raise the number made beforehand")
    if found["refused"] or found["broken"]:
        raise SystemExit(f"not all requests were accepted: {found}")
    # The first and the last second by the clock are incomplete.
    whole = [number for _, number in sorted(found["seconds"])[1:-1]]
    rate = found["requests"] * 1e6 / found["microseconds"]
    return Closed(found["requests"], rate, min(whole, default=rate), found["p99"])


async def open_loop(
    port: int, file: Path, rate: float, seconds: int, cores: Sequence[int]
) -> dict[str, float]:
    """Latencies in ms at a given rate. Raises SystemExit unless all answers are 2xx."""
    script = HERE / "open_loop.py"
    said = await _output(cores, sys.executable, *map(str, (script, port, file, rate, seconds)))
    found: dict[str, float] = json.loads(said)
    if found["refused"] or found["lost"]:
        raise SystemExit(f"not all requests were accepted: {found}")
    return found


async def _output(cores: Sequence[int], *command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    said, _ = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{command[0]} ended with {process.returncode}: {said.decode()}")
    return said.decode()
