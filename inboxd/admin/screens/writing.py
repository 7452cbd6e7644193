"""Sessions for the actions of the screens, and whether the database can be changed now.

Promises: no action is offered while nothing can be changed (a standby, a read-only server or role);
somebody who may act and looks at a page has that checked every `_CHECK_SECONDS` seconds, so that
actions come back by themselves; if the database does not answer in time, its last answer counts.
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
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session

_AT_ONCE: Final = 4
_CHECK_SECONDS: Final = 5.0
_ANSWER_SECONDS: Final = 2.0
_WHY: Final[dict[ReadOnlyReason, tuple[HTTPStatus, str]]] = {
    ReadOnlyReason.STANDBY: (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "nothing was changed: the database is a standby, until it is promoted",
    ),
    ReadOnlyReason.SERVER: (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "nothing was changed: the database is read-only now (default_transaction_read_only)",
    ),
    ReadOnlyReason.ROLE: (
        HTTPStatus.FORBIDDEN,
        "nothing was changed: the screens' role in the database may only read; see: inboxd check",
    ),
    ReadOnlyReason.AWAY: (
        HTTPStatus.SERVICE_UNAVAILABLE,
        "nothing was changed: the database cannot be reached; try again in a moment",
    ),
}


class Writing:
    def __init__(self, settings: Settings) -> None:
        self._database = settings.database
        self._at_once = anyio.CapacityLimiter(_AT_ONCE)
        self._lock = anyio.Lock()
        self._why: ReadOnlyReason | None = None
        self._asked_at = float("-inf")

    @asynccontextmanager
    async def session(self) -> AsyncIterator[Session]:
        """Open one session. Raises DatabaseError or SchemaError."""
        async with self._at_once, open_session(self._database, part="admin") as session:
            yield session

    async def why_not(self) -> ReadOnlyReason | None:
        """The answer is some seconds old; None: changes are possible."""
        async with self._lock:
            if monotonic() - self._asked_at >= _CHECK_SECONDS:
                self._why = await self._asked()
                self._asked_at = monotonic()
            return self._why

    async def refuse_if_read_only(self, session: Session) -> None:
        """Raise RequestRefused, with the reason, if nothing can be changed now."""
        why = await read_only_reason(session)
        self._why, self._asked_at = why, monotonic()
        if why is not None:
            raise RequestRefused(*_WHY[why])

    async def _asked(self) -> ReadOnlyReason | None:
        """The session of this check waits for no action."""
        try:
            with anyio.move_on_after(_ANSWER_SECONDS):
                async with open_session(self._database, part="admin") as session:
                    return await read_only_reason(session)
        except (DatabaseError, SchemaError):
            return ReadOnlyReason.AWAY
        return self._why
