"""What a page is: where, for whom, and how it is read.

Promises that a page is read on one session that can only read, within a time limit; that its JSON
is what the command line prints for the same, and that its template gets nothing but that document
and what is made of it.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.datastructures import QueryParams

from inboxd.admin.screens.host_spool import HostSpool
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.screens.shared import SharedReadings
from inboxd.admin.screens.snapshot import Snapshot
from inboxd.operations import Tenants
from inboxd.settings import Settings
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class PageVisit:
    """One request for a page.

    path: values of the path's parameters. query: what follows the `?`. spool: of this host, where
    the process has one.
    """

    session: Session
    settings: Settings
    tenants: Tenants
    visitor: Visitor
    snapshot: Snapshot
    shared: SharedReadings
    path: Mapping[str, Any]
    query: QueryParams
    spool: HostSpool | None = None


@dataclass(frozen=True, slots=True)
class ScreenPage:
    """What a visit found.

    document: its JSON. shown: what the template needs besides, made of it. texts: to take away, by
    how their addresses end.
    """

    template: str
    document: dict[str, Any]
    shown: dict[str, Any] = field(default_factory=dict)
    texts: Mapping[str, Callable[[], str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The page is at another path: a number that was looked for by its uuid."""

    path: str


@dataclass(frozen=True, slots=True)
class Screen:
    """A page of the screens. path: as starlette has it, without the prefix.

    for_tenants: whether it is also for visitors of certain tenants, and shows them no other's.
    texts: the forms that it has besides HTML and JSON, by how their addresses end.
    """

    path: str
    read: Callable[[PageVisit], Awaitable[ScreenPage | Elsewhere]]
    role: Role = Role.VIEWER
    for_tenants: bool = False
    texts: tuple[str, ...] = ()
