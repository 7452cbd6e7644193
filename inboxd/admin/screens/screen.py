"""The description of a page: its path, its role, and how it is read.

Promises that a page is read on one read-only session, within a time limit; that its JSON is what
the command line prints for the same; and that its template gets nothing but that document and
values made from it.
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

    path: values of the path's parameters. query: the pairs after the `?`. spool: that of this host,
    if the process has one.
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
    """The contents of a page.

    document: its JSON. shown: further values for the template, made from it. texts: its other
    forms, by the ending of their addresses.
    """

    template: str
    document: dict[str, Any]
    shown: dict[str, Any] = field(default_factory=dict)
    texts: Mapping[str, Callable[[], str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """The page is at another path, as for a row that was asked for by its uuid."""

    path: str


@dataclass(frozen=True, slots=True)
class Screen:
    """A page of the screens. path: a starlette path, without the prefix.

    for_tenants: visitors of certain tenants may see it, and it shows them only their tenants' rows.
    texts: endings of the addresses of its forms other than HTML and JSON.
    """

    path: str
    read: Callable[[PageVisit], Awaitable[ScreenPage | Elsewhere]]
    role: Role = Role.VIEWER
    for_tenants: bool = False
    texts: tuple[str, ...] = ()
