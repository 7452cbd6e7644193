"""A mail server on loopback that counts e-mails, and sometimes asks for a later attempt.

Owns the mail server. Promises: an accepted message that arrives again, recognized by its
Message-ID, counts as a repetition and is not delivered again; the server defers the same messages
in every run.
Known limit: it keeps no message after its end.
"""

import asyncio
import zlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email.parser import BytesHeaderParser
from typing import Any

from aiosmtpd.smtp import SMTP

_DEFERRED_PERCENT = 3
_HEADERS = BytesHeaderParser()


class Mailbox:
    """The messages that arrived; `delivered` counts them by address and subject."""

    def __init__(self) -> None:
        self.delivered: Counter[tuple[str, str]] = Counter()
        self.repeated = 0
        self.deferred = 0
        self.refused = 0
        # Addresses that the server does not know, and refuses for good.
        self.unknown: set[str] = set()
        self._accepted: set[str] = set()
        self._tries: Counter[str] = Counter()

    def receive(self, content: bytes) -> str:
        """Take a message; returns the SMTP answer."""
        headers = _HEADERS.parsebytes(content)
        key, to, subject = headers["Message-ID"], headers["To"], headers["Subject"]
        if to in self.unknown:
            self.refused += 1
            return "550 5.1.1 No such user here"
        self._tries[key] += 1
        if self._tries[key] == 1 and _is_deferred(to, subject):
            self.deferred += 1
            return "451 4.3.0 Busy, try again later"
        if key in self._accepted:
            self.repeated += 1
            return "250 OK, received before"
        self._accepted.add(key)
        self.delivered[to, subject] += 1
        return "250 OK"

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802 - the name that aiosmtpd calls
        """Answer at the end of a message."""
        return self.receive(envelope.content)


def _is_deferred(to: str, subject: str) -> bool:
    return zlib.crc32(f"{to} {subject}".encode()) % 100 < _DEFERRED_PERCENT


@asynccontextmanager
async def open_mailbox() -> AsyncIterator[tuple[Mailbox, str]]:
    """Serve a mailbox during the block; yields it and its address (host:port)."""
    mailbox = Mailbox()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(
        lambda: SMTP(mailbox, hostname="mail.example", loop=loop), "127.0.0.1", 0
    )
    try:
        host, port = server.sockets[0].getsockname()
        yield mailbox, f"{host}:{port}"
    finally:
        server.close()
