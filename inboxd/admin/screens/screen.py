"""The description of a page: its path, its role, and how it is read.

Promises that it is read on one read-only session, within a time limit; that its JSON is what the
command line prints; and that its template gets nothing else.
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
    """path: values of the path's parameters. query: after the `?`. spool: of this host."""

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
    """shown: further values for the template. texts: other forms, by the ending of addresses."""

    template: str
    document: dict[str, Any]
    shown: dict[str, Any] = field(default_factory=dict)
    texts: Mapping[str, Callable[[], str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    path: str


@dataclass(frozen=True, slots=True)
class Screen:
    """for_tenants: it shows only the visitor's tenants' rows. texts: endings of other forms."""

    path: str
    read: Callable[[PageVisit], Awaitable[ScreenPage | Elsewhere]]
    role: Role = Role.VIEWER
    for_tenants: bool = False
    texts: tuple[str, ...] = ()
