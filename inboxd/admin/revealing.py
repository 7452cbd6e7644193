"""Contents that are looked at: the line of the audit about it.

Promises that nothing is shown before its line is committed, where the settings want one; where none
can be written, as on a standby, it is not shown. Known limit: each costs a connection, so few are
written at once.
"""

from http import HTTPStatus

import anyio

from inboxd import operations
from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.roles import Visitor
from inboxd.errors import DatabaseError, SchemaError
from inboxd.settings import Settings
from inboxd.store.session import open_session

_AT_ONCE = 2


class Revealing:
    """The audit of what is looked at."""

    def __init__(self, settings: Settings) -> None:
        """Write lines if the settings want them."""
        self._settings = settings
        self._at_once = anyio.CapacityLimiter(_AT_ONCE)

    async def note(self, target: str, visitor: Visitor) -> None:
        """Write down who looks at the contents of `events 4711`. Raises RequestRefused."""
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
                "payloads are shown if their viewing can be written down, as audit_payloads in "
                f"[admin] wants, and it cannot be: {error}"
            )
            raise RequestRefused(HTTPStatus.SERVICE_UNAVAILABLE, detail) from error
