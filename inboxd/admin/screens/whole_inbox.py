"""Pages of the whole inbox: they show all tenants, so a visitor must be allowed to see all.

Also the values that such pages take from the shared snapshot.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from functools import wraps
from http import HTTPStatus
from typing import Any

from inboxd.admin.answers import RequestRefused
from inboxd.admin.screens.roles import Visitor
from inboxd.admin.screens.screen import PageVisit, Screen, ScreenPage
from inboxd.model.wording import LINES
from inboxd.operations.lanes import CountedLanes
from inboxd.store import samples
from inboxd.store.queues import Blocked
from inboxd.store.samples import Sample


def whole_inbox(path: str, read: Callable[[PageVisit], Awaitable[ScreenPage]]) -> Screen:
    """A page that visitors of certain tenants may not see."""

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
    """The database's time, calculated from the snapshot."""
    return (await visit.snapshot.seen()).now


async def sampled(visit: PageVisit) -> Sample | None:
    """The newest sample; None: it is stale, so a page must count for itself."""
    found = await overview(visit)
    if found["sample"]["counted_by"] != "leader":
        return None
    sample = await samples.newest(visit.session)
    return sample if sample is not None and sample.is_fresh(visit.settings) else None


async def counted(visit: PageVisit, sample: Sample | None) -> CountedLanes:
    """The waiting rows of lanes, from the snapshot; with a sample, also the blocked keys."""
    found = await overview(visit)
    lanes = [lane for lane in found["lanes"] if lane["type"] != LINES]
    if sample is None:
        return CountedLanes(found["counted_to"], lanes)
    blocked = [Blocked(*each) for each in sample.counts["blocked_keys"]]
    return CountedLanes(found["counted_to"], lanes, blocked, sample.counts["lines"])


def paused_as(found: dict[str, Any], kind: str, name: str) -> dict[str, Any] | None:
    """The pause of this type, topic or queue (actor, reason, time); None: it is not paused."""
    named = (kind, name)
    return next((row for row in found["paused"] if (row["kind"], row["name"]) == named), None)
