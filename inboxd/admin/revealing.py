"""The audit of viewed contents.

Promises that contents are shown only after their audit entry is committed, if the settings ask for
entries; if the entry cannot be written, as on a standby, the contents are not shown. Known limit:
an entry costs a connection, so few are written at once.
"""

from http import HTTPStatus

import anyio

from inboxd import operations
from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.roles import Visitor
from inboxd.errors import DatabaseError, SchemaError
from inboxd.settings import Settings
from inboxd.store.operator_sessions import open_session

_AT_ONCE = 2


class Revealing:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._at_once = anyio.CapacityLimiter(_AT_ONCE)

    async def note(self, target: str, visitor: Visitor) -> None:
        """target: such as `events 4711`. Raises RequestRefused."""
        if not self._settings.admin.audit_payloads:
            return
        try:
            async with (
                self._at_once,
                open_session(self._settings.database, part="admin") as session,
            ):
                await operations.viewed(session, target, actor=visitor.actor)
        except (DatabaseError, SchemaError) as error:
            detail = (
                "the payload is not shown: audit_payloads of [admin] requires an audit entry, "
                f"which could not be written: {error}"
            )
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, detail) from error
