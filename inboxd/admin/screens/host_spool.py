"""The spool of the host that a page is served from, as the process hands it in.

Owns what pages and actions may ask of it; who has none at hand is told where to go. Promises that
it is asked in threads, and for no more than a page has room for.
*See:* `inboxd/daemon/hosted_spool.py`, which has it; `actions/spools.py`, what is done.
"""

from collections.abc import Mapping
from typing import Any, Protocol

from inboxd.store.session import Session


class HostSpool(Protocol):
    """What can be done to it, by the operations of the command line. by: actor and reason."""

    @property
    def host(self) -> str:
        """The host, as its receivers call it."""

    async def listed(self) -> Mapping[str, Any]:
        """Folders, sources that are spooled, and some of what is set apart. Raises OSError."""

    async def apart(self, name: str) -> Mapping[str, Any]:
        """What is set apart by this name. Raises NotFound, Conflict, OSError."""

    async def folder(self, name: str) -> Mapping[str, Any]:
        """The folder of this name. Raises NotFound, Conflict, OSError."""

    async def drain(
        self, session: Session, within: float, *, actor: str, reason: str | None
    ) -> tuple[int, int, bool]:
        """Drain it for so many seconds at most.

        Returns how many receipts, how many were set apart, and whether nothing was left. Raises
        Conflict, DatabaseError.
        """

    async def insert(self, session: Session, name: str, *, actor: str, reason: str | None) -> str:
        """Write what was set apart; returns what came of it. Raises NotFound, Conflict."""

    async def discard(self, session: Session, name: str, *, actor: str, reason: str | None) -> None:
        """Remove what is set apart. Raises NotFound, Conflict."""

    async def discard_folder(
        self, session: Session, name: str, seen: tuple[int, int], *, actor: str, reason: str | None
    ) -> int:
        """Remove a folder, if so many still wait there and are set apart; returns how many waited.

        Raises NotFound, Conflict.
        """
