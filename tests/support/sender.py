"""A provider of webhooks that keeps a ledger: the requests it sent, and the answers.

    provider = Provider(port)
    async with provider.load():
        await provider.goes_on()

Promises: a request is in the ledger before its first byte is sent. Per key, a request is sent when
the one before it is answered or given up. Connections are kept alive; one that the answer closes is
not used again.
"""

import asyncio
import base64
import hashlib
import hmac
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from uuid import uuid4

import anyio
import orjson

from tests.support.http_wire import Answer, NoAnswer, Refused, Wire, request
from tests.support.verdicts import Late
from tests.support.waiting import WITHIN, eventually, patient

Sign = Callable[[bytes, str], Mapping[str, str]]

SECRET = "whsec_" + base64.b64encode(b"a secret of the tests, 32 bytes.").decode()
# Seconds before a provider of these tests sends again; real ones wait for minutes.
_PAUSE = 0.02


def standard_webhooks(secret: str = SECRET, *, now: Callable[[], float] = time.time) -> Sign:
    """Make headers of Standard Webhooks by its specification, without inboxd's code."""
    key = base64.b64decode(secret.removeprefix("whsec_"))

    def sign(body: bytes, message_id: str) -> Mapping[str, str]:
        at = str(int(now()))
        signed = f"{message_id}.{at}.".encode() + body
        signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
        return {
            "webhook-id": message_id,
            "webhook-timestamp": at,
            "webhook-signature": f"v1,{signature}",
        }

    return sign


@dataclass(slots=True)
class Entry:
    """One request of the ledger. after: the last number of its key that was accepted before."""

    key: str
    number: int
    message_id: str
    events: Sequence[Mapping[str, Any]]
    body: bytes
    after: int
    answers: list[Answer] = field(default_factory=list)
    lost: int = 0

    @property
    def accepted(self) -> bool:
        """Whether it was answered with 2xx."""
        return any(answer.accepted for answer in self.answers)


class Provider:
    """One sender: its source, its signature, its ledger.

    again: it repeats a request until that is accepted; otherwise it sends once, as providers of
    bets do. items: the number of events in a request, as an array; None: one event, as an object.
    """

    def __init__(
        self,
        *ports: int,
        source: str = "bets",
        sign: Sign | None = None,
        again: bool = False,
        items: int | None = None,
    ) -> None:
        self.source, self.ports = source, ports
        self.again, self.items = again, items
        self.ledger: list[Entry] = []
        # The number of tries by their end: a status, "lost" or "refused".
        self.ended: Counter[str] = Counter()
        self._sign = sign or standard_webhooks()
        self._numbers: dict[str, Any] = {}
        self._accepted: dict[str, int] = {}
        self._wires: list[Wire] = []
        self._idle: dict[int, list[Wire]] = {}
        self._rounds = count()

    @property
    def accepted(self) -> int:
        """The number of requests that were answered with 2xx."""
        return sum(entry.accepted for entry in self.ledger)

    @property
    def refusals(self) -> list[Answer]:
        """All answers that are not 2xx."""
        return [answer for entry in self.ledger for answer in entry.answers if not answer.accepted]

    def entry(self, key: str) -> Entry:
        """Add the next request of a key to the ledger; it is not sent yet."""
        number = next(self._numbers.setdefault(key, count(1)))
        events = [{"match": key, "number": number, "item": item} for item in range(self.items or 1)]
        body = orjson.dumps(events[0] if self.items is None else events)
        after = self._accepted.get(key, 0)
        entry = Entry(key, number, f"msg_{uuid4().hex}", events, body, after)
        self.ledger.append(entry)
        return entry

    async def send(self, entry: Entry, port: int | None = None) -> Answer | None:
        """Send a request once; return the answer, or None if none came."""
        if port is None:
            port = self.ports[next(self._rounds) % len(self.ports)]
        headers = {"content-type": "application/json", **self._sign(entry.body, entry.message_id)}
        raw = request(f"/in/{self.source}", entry.body, headers)
        try:
            wire = await self._wire(port)
            answer = await wire.ask(raw)
        except Refused:
            self.ended["refused"] += 1
            return None
        except NoAnswer:
            self.ended["lost"] += 1
            entry.lost += 1
            return None
        if wire.open:
            self._idle.setdefault(port, []).append(wire)
        self.ended[str(answer.status)] += 1
        entry.answers.append(answer)
        if answer.accepted:
            self.note_accepted(entry)
        return answer

    def note_accepted(self, entry: Entry) -> None:
        """Later requests of this key must come after this one."""
        self._accepted[entry.key] = max(self._accepted.get(entry.key, 0), entry.number)

    async def offer(self, key: str, within: float = WITHIN) -> Entry:
        """Make a request of a key, and send it once, or until it is accepted."""
        entry = self.entry(key)
        with anyio.move_on_after(patient(within)):
            while True:
                answer = await self.send(entry)
                if (answer is not None and answer.accepted) or not self.again:
                    return entry
                await anyio.sleep(_PAUSE)
        raise Late(f"Not accepted within {patient(within):g} seconds: {dict(self.ended)}")

    @asynccontextmanager
    async def load(self, keys: int = 8, *, pause: float = 0.0) -> AsyncIterator[None]:
        """Send requests of this many keys in parallel during the block, and finish them."""
        over = asyncio.Event()

        async def line(key: str) -> None:
            while not over.is_set():
                entry = await self.offer(key)
                if not entry.accepted or pause:
                    await anyio.sleep(pause or _PAUSE)

        try:
            async with anyio.create_task_group() as group:
                for number in range(keys):
                    group.start_soon(line, f"match-{number}")
                try:
                    yield
                finally:
                    over.set()
        finally:
            self.close()

    async def goes_on(self, more: int = 20, within: float = WITHIN) -> None:
        """Wait until this many more requests were accepted."""
        enough = self.accepted + more

        async def are_accepted() -> bool:
            return self.accepted >= enough

        try:
            await eventually(are_accepted, within)
        except AssertionError as error:
            raise Late(f"{error} Tries ended so: {dict(self.ended)}") from error

    def close(self) -> None:
        for wire in self._wires:
            wire.close()
        self._wires.clear()
        self._idle.clear()

    async def _wire(self, port: int) -> Wire:
        idle = self._idle.get(port, [])
        while idle:
            wire = idle.pop()
            if wire.open:
                return wire
        wire = await Wire.connect(port)
        self._wires.append(wire)
        return wire
