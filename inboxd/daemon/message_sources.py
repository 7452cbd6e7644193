"""The sources of messages that a worker reads.

An unreachable broker delays no other source; at a stop all store their received messages. *See:*
`daemon/incarnation.py`, which hosts them; `inbound/messages/source.py`, one of them.
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

# Time limit in seconds of statements that the sources can do without.
_PATIENCE = 5.0


class MessageSources:
    def __init__(self, parts: Parts, tasks: TaskGroup) -> None:
        """Raises SettingsError for unreadable files. tasks: the group in which pages are stored."""
        self._parts = parts
        names = parts.settings.inbound.messages
        self._readers = [_reader(parts, tasks, name) for name in names]

    async def run(self) -> None:
        """Read until `stop`, and until all received messages are stored."""
        if not self._readers:
            return
        await self._note(message_readers.forget)
        async with anyio.create_task_group() as group:
            for reader in self._readers:
                group.start_soon(reader.run)
        await self._note(message_readers.leave, self._parts.me.id)

    def stop(self) -> None:
        for reader in self._readers:
            reader.stop()

    async def _note(self, what: Callable[..., Awaitable[None]], *given: UUID) -> None:
        """Write a reader's state to the database, if that is reachable."""
        with anyio.move_on_after(_PATIENCE):
            try:
                async with borrow(self._parts.pool, _PATIENCE) as session:
                    await what(session, *given)
            except Exception as error:  # noqa: BLE001 - the sources work without it
                OUTAGE.warn(_log.warning, "readers of messages cannot be shown", error)


def _reader(parts: Parts, tasks: TaskGroup, name: str) -> SourceReader:
    try:
        return SourceReader(parts, tasks, name)
    except UsageError as error:
        raise SettingsError(f"[inbound.messages.{name}]: {error}") from error
