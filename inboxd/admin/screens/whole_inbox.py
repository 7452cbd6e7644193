"""Pages of the whole inbox: they show all tenants, so a visitor must be allowed to see all."""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from datetime import datetime
from functools import wraps
from http import HTTPStatus
from typing import Any

from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.roles import Visitor
from inboxd.admin.screens.screen import PageVisit, Screen, ScreenPage
from inboxd.model.wording import LINES
from inboxd.operations.lanes import CountedLanes
from inboxd.store import controls
from inboxd.store.queues import Blocked


def whole_inbox(path: str, read: Callable[[PageVisit], Awaitable[ScreenPage]]) -> Screen:
    @wraps(read)
    async def checked(visit: PageVisit) -> ScreenPage:
        refuse_certain_tenants(visit.visitor)
        return await read(visit)

    return Screen(path, checked)


def refuse_certain_tenants(visitor: Visitor) -> None:
    """Raise RequestRefused, unless the visitor may see all tenants."""
    if visitor.tenants is not None:
        detail = "this page shows all tenants, and you may see certain tenants only"
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)


async def overview(visit: PageVisit) -> dict[str, Any]:
    """The document of `inboxd status`, a few seconds old at most."""
    return (await visit.snapshot.seen()).document


async def database_now(visit: PageVisit) -> datetime:
    """It is calculated from the snapshot."""
    return (await visit.snapshot.seen()).now


async def counted(visit: PageVisit) -> CountedLanes:
    seen = await visit.snapshot.seen()
    lanes = [lane for lane in seen.document["lanes"] if lane["type"] != LINES]
    blocked = [Blocked(*each) for each in seen.counts["blocked_keys"]]
    return CountedLanes(seen.document["counted_to"], lanes, blocked, seen.counts["lines"])


async def pauses(visit: PageVisit, kind: str, names: Collection[str]) -> dict[str, dict[str, Any]]:
    """The pauses of these names; the snapshot has only the first of all."""
    found = await overview(visit)
    rows: Iterable[Mapping[str, Any]] = found["paused"]
    if found["paused_left_out"]:
        rows = await controls.read(visit.session, names)
    wanted = {*names}
    return {row["name"]: {**row} for row in rows if row["kind"] == kind and row["name"] in wanted}


async def paused_as(visit: PageVisit, kind: str, name: str) -> dict[str, Any] | None:
    """The pause has actor, reason, time; None: it is not paused."""
    return (await pauses(visit, kind, [name])).get(name)
