"""The sources of messages that a worker reads.

Promises that each goes its own way, so that a broker that is away holds up no other; that at a stop
all receive no more, store what they have, and leave.
*See:* `daemon/incarnation.py`, which hosts them; `inbound/messages/source.py`, one of them.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID

import anyio
from anyio.abc import TaskGroup

from inboxd.engine.parts import Parts
from inboxd.errors import SettingsError, UsageError
from inboxd.inbound.messages.source import SourceReader
from inboxd.store import message_readers
from inboxd.store.outage import OUTAGE
from inboxd.store.pools import borrow
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

# Seconds for a word that is a courtesy.
_PATIENCE = 5.0


class MessageSources:
    """All of one worker."""

    def __init__(self, parts: Parts, tasks: TaskGroup) -> None:
        """Raises SettingsError for what cannot be read. tasks: where pages are stored."""
        self._parts = parts
        names = parts.settings.inbound.messages
        self._readers = [_reader(parts, tasks, name) for name in names]

    async def run(self) -> None:
        """Read until `stop`, and until what was received is stored."""
        if not self._readers:
            return
        await self._say(message_readers.forget)
        async with anyio.create_task_group() as group:
            for reader in self._readers:
                group.start_soon(reader.run)
        await self._say(message_readers.leave, self._parts.me.id)

    def stop(self) -> None:
        """Receive no more."""
        for reader in self._readers:
            reader.stop()

    async def _say(self, what: Callable[..., Awaitable[None]], *given: UUID) -> None:
        """Tell the database, which may be away."""
        with anyio.move_on_after(_PATIENCE):
            try:
                async with borrow(self._parts.pool, _PATIENCE) as connection:
                    await what(connection, self._parts.sql, *given)
            except Exception as error:  # noqa: BLE001 - a courtesy
                OUTAGE.warn(_log.warning, "readers of messages are not shown", error)


def _reader(parts: Parts, tasks: TaskGroup, name: str) -> SourceReader:
    try:
        return SourceReader(parts, tasks, name)
    except UsageError as error:
        raise SettingsError(f"[inbound.messages.{name}]: {error}") from error
