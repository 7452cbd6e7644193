"""The provider: sends each result once, signed, and records the answer.

Owns its ledger. Promises: each result is sent once, whatever the answer; each connection carries
one request at a time.
"""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from queue import Empty, Queue
from threading import Thread

from inboxd.signatures import Key, verifier

_TIMEOUT = 15.0


@dataclass(slots=True)
class Result:
    """The final score of a match."""

    match: str
    home: int
    away: int


@dataclass(slots=True)
class Sent:
    """One request, and its answer."""

    match: str
    seconds: float
    status: int | None
    trouble: str = ""

    @property
    def accepted(self) -> bool:
        """Whether the answer was a 2xx status."""
        return self.status is not None and 200 <= self.status < 300


@dataclass(slots=True)
class Provider:
    """Sends to one port, over a few connections that stay open."""

    port: int
    secret: str
    ledger: list[Sent] = field(default_factory=list)

    def send(self, results: Sequence[Result], seconds: float, connections: int = 4) -> None:
        """Send the results, spread evenly over `seconds`."""
        due: Queue[tuple[float, Result]] = Queue()
        begun = time.monotonic()
        for number, result in enumerate(results):
            due.put((begun + seconds * number / len(results), result))
        threads = [Thread(target=self._send_due, args=(due,)) for _ in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _send_due(self, due: "Queue[tuple[float, Result]]") -> None:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=_TIMEOUT)
        while True:
            try:
                at, result = due.get_nowait()
            except Empty:
                connection.close()
                return
            time.sleep(max(0.0, at - time.monotonic()))
            self.ledger.append(self._sent(connection, result))

    def _sent(self, connection: HTTPConnection, result: Result) -> Sent:
        body = json.dumps(
            {
                "matchExternalId": result.match,
                "homeScore": result.home,
                "awayScore": result.away,
                "status": "FINISHED",
                "providerEventId": f"result-{result.match}",
            }
        ).encode()
        keys = [Key("2026", self.secret.encode())]
        scheme = verifier("standard_webhooks", keys, tolerance=300.0)
        headers = scheme.sign(body, f"message-{result.match}", time.time())
        begun = time.monotonic()
        try:
            connection.request("POST", "/in/results", body, dict(headers))
            answer = connection.getresponse()
            answer.read()
        except (OSError, HTTPException) as error:
            connection.close()
            return Sent(result.match, time.monotonic() - begun, None, repr(error))
        return Sent(result.match, time.monotonic() - begun, answer.status)


def slowest(ledger: Iterable[Sent]) -> float:
    """The time of the slowest answer, in seconds."""
    return max((sent.seconds for sent in ledger), default=0.0)
