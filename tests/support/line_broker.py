"""A broker of a test's own: it takes lines of JSON, and answers each as the test says.

    async with line_broker() as broker:
        broker.judge = lambda message: Refusal("no room")

Its publisher is in a plugin, `inboxd_testplugin.publishing`. Promises: it keeps all confirmed
messages in order of arrival, over all connections.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from tests.support.waiting import WITHIN, bounded

Message = dict[str, Any]


@dataclass(frozen=True)
class Refusal:
    """The reason why the broker does not take a message."""

    reason: str = "no room"
    for_good: bool = False
    unroutable: bool = False


@dataclass
class LineBroker:
    """The broker; by default it confirms each message.

    judge: None confirms, a Refusal refuses. "silent": the message is taken and not answered. "cut":
    it is taken, and the connection ends before the answer. "lost": as "cut", but it is not taken.
    "slow": it is confirmed 20 ms later.
    """

    judge: Callable[[Message], Refusal | str | None] = lambda _: None
    taken: list[Message] = field(default_factory=list)
    connections: int = 0
    port: int = 0
    _server: asyncio.Server | None = None
    _open: set[asyncio.StreamWriter] = field(default_factory=set)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _unanswered: list[tuple[asyncio.StreamWriter, int]] = field(default_factory=list)

    @property
    def server(self) -> str:
        """The address, for `servers` of `[brokers]`."""
        return f"127.0.0.1:{self.port}"

    def keys(self) -> dict[str | None, list[Any]]:
        """The bodies of the taken messages, by key, in order of arrival."""
        found: dict[str | None, list[Any]] = {}
        for each in self.taken:
            found.setdefault(each["key"], []).append(each["body"])
        return found

    async def until(self, met: Callable[[], bool], within: float = WITHIN) -> None:
        """Wait until a condition on the taken messages holds."""
        with bounded(within):
            while not met():
                self._changed.clear()
                await self._changed.wait()

    async def start(self) -> None:
        """Listen; after `stop`, on the same port again."""
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Cut all connections, and stop listening."""
        if self._server is not None:
            self._server.close()
        self.cut()

    def confirm(self) -> None:
        """Confirm the messages taken silently, if their connections are still open."""
        for writer, place in self._unanswered:
            self._answer(writer, {"place": place})
        self._unanswered.clear()

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.add(writer)
        self.connections += 1
        self._changed.set()
        try:
            with suppress(OSError):
                while line := await reader.readline():
                    if not self._take(json.loads(line), writer):
                        return
        finally:
            self._open.discard(writer)
            writer.transport.abort()

    def _take(self, message: Message, writer: asyncio.StreamWriter) -> bool:
        """Judge a message; return whether the connection goes on."""
        verdict = self.judge(message)
        answer: dict[str, object] = {"place": message["place"]}
        if isinstance(verdict, Refusal):
            answer["refused"] = verdict.reason
            answer |= {"for_good": verdict.for_good, "unroutable": verdict.unroutable}
        elif verdict != "lost":
            self.taken.append(message)
        self._changed.set()
        if verdict in ("cut", "lost"):
            return False
        if verdict == "slow":
            asyncio.get_running_loop().call_later(0.02, self._answer, writer, answer)
        elif verdict == "silent":
            self._unanswered.append((writer, message["place"]))
        else:
            self._answer(writer, answer)
        return True

    def _answer(self, writer: asyncio.StreamWriter, answer: dict[str, object]) -> None:
        """Answer, if the connection is still open."""
        if writer in self._open and not writer.transport.is_closing():
            writer.write(json.dumps(answer).encode() + b"\n")


@asynccontextmanager
async def line_broker() -> AsyncIterator[LineBroker]:
    broker = LineBroker()
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()
