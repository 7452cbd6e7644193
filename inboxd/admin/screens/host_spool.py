"""The interface of pages and actions to the spool of this host.

Promises that its files are read in threads, and at most what a page shows. A process without a
spool passes None; its pages name the host to go to.
*See:* `inboxd/daemon/hosted_spool.py`, which implements it; `actions/spools.py`, which acts.
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
        """Drain the spool for at most `within` seconds.

        Returns the numbers of receipts drained and set apart, and whether nothing was left. Raises
        Conflict, DatabaseError.
        """

    async def insert(self, session: Session, name: str, *, actor: str, reason: str | None) -> str:
        """Write a receipt set apart to the database; returns the outcome.

        Raises NotFound, Conflict.
        """

    async def discard(self, session: Session, name: str, *, actor: str, reason: str | None) -> None:
        """Remove a receipt set apart. Raises NotFound, Conflict."""

    async def discard_folder(
        self, session: Session, name: str, seen: tuple[int, int], *, actor: str, reason: str | None
    ) -> int:
        """Remove a folder; returns how many receipts waited in it.

        seen: the numbers of receipts waiting and set apart; others raise Conflict. Raises NotFound,
        too.
        """
