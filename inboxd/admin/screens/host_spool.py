"""The interface of pages and actions to the spool of this host.

Its files are read in threads. A process without a spool passes None.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from inboxd.store.session import Session


class HostSpool(Protocol):
    """A host's spool; actor and reason are for the audit."""

    @property
    def host(self) -> str:
        """The name by which the host's receivers are registered."""

    async def listed(self) -> Mapping[str, Any]:
        """Folders, spooled sources, and some of the receipts set apart. Raises OSError."""

    async def apart(self, name: str) -> Mapping[str, Any]:
        """The receipt set apart with this name. Raises NotFound, Conflict, OSError."""

    async def folder(self, name: str) -> Mapping[str, Any]:
        """The folder of this name. Raises NotFound, Conflict, OSError."""

    async def drain(
        self, session: Session, within: float, *, actor: str, reason: str | None
    ) -> tuple[int, int, bool]:
        """Return the numbers of receipts drained and set apart, and whether nothing was left.

        within: seconds. Raises Conflict, DatabaseError.
        """

    async def insert(self, session: Session, name: str, *, actor: str, reason: str | None) -> str:
        """Return the outcome. Raises NotFound, Conflict."""

    async def discard(self, session: Session, name: str, *, actor: str, reason: str | None) -> None:
        """Remove a receipt set apart. Raises NotFound, Conflict."""

    async def discard_folder(
        self, session: Session, name: str, seen: tuple[int, int], *, actor: str, reason: str | None
    ) -> int:
        """seen: numbers waiting and set apart; others raise Conflict. Raises NotFound, too."""
