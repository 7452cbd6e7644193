"""Sessions of the screens that write, and whether they can.

Owns few short sessions, as the admin API has them; pages are read by others, which cannot write.
Promises that where nothing can be changed (a standby, a server or a role that only reads, a
database that is away) this is known before anybody is offered an action, and that it is asked again
every `_SURE` seconds while somebody looks who may act, so that it ends by itself; that this
question waits for no action, and that what was known last counts where no answer comes in time.
*See:* `operations/ability.py`.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from time import monotonic
from typing import Final

import anyio

from inboxd.admin.answers import RequestRefused
from inboxd.errors import DatabaseError, SchemaError
from inboxd.operations import ReadOnlyReason, read_only_reason
from inboxd.settings import Settings
from inboxd.store.session import Session, open_session

_AT_ONCE: Final = 4
_SURE: Final = 5.0
_ASKS: Final = 2.0
_WHY: Final[dict[ReadOnlyReason, tuple[HTTPStatus, str]]] = {
    ReadOnlyReason.STANDBY: (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "nothing was changed: the database is a standby, until it is promoted",
    ),
    ReadOnlyReason.SERVER: (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "nothing was changed: the database only reads now (default_transaction_read_only)",
    ),
    ReadOnlyReason.ROLE: (
        HTTPStatus.FORBIDDEN,
        "nothing was changed: the screens' role in the database may only look; see: inboxd check",
    ),
    ReadOnlyReason.AWAY: (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "nothing was changed: the database cannot be reached; try again in a moment",
    ),
}


class Writing:
    """The sessions of one process."""

    def __init__(self, settings: Settings) -> None:
        """None is open yet."""
        self._database = settings.database
        self._at_once = anyio.CapacityLimiter(_AT_ONCE)
        self._lock = anyio.Lock()
        self._why: ReadOnlyReason | None = None
        self._asked_at = float("-inf")

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """A session for the `async with` block. Raises DatabaseError or SchemaError."""
        async with self._at_once, open_session(self._database, part="admin") as session:
            yield session

    async def why_not(self) -> ReadOnlyReason | None:
        """Why nothing can be changed, as it was a few seconds ago; None: it can be."""
        async with self._lock:
            if monotonic() - self._asked_at >= _SURE:
                self._why = await self._asked()
                self._asked_at = monotonic()
            return self._why

    async def refuse_if_read_only(self, session: Session) -> None:
        """Raise RequestRefused where nothing can be changed now, in words."""
        why = await read_only_reason(session)
        self._why, self._asked_at = why, monotonic()
        if why is not None:
            raise RequestRefused(*_WHY[why])

    async def _asked(self) -> ReadOnlyReason | None:
        """By a session beside those of actions, one at a time."""
        try:
            with anyio.move_on_after(_ASKS):
                async with open_session(self._database, part="admin") as session:
                    return await read_only_reason(session)
        except (DatabaseError, SchemaError):
            return ReadOnlyReason.AWAY
        return self._why
