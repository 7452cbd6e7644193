"""Pages of the whole inbox: they tell of all tenants, so they are for those who may see all.

Also what such pages take from the snapshot that all visitors share.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
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
    """A page that is refused to visitors of certain tenants."""

    @wraps(read)
    async def checked(visit: PageVisit) -> ScreenPage:
        refuse_certain_tenants(visit.visitor)
        return await read(visit)

    return Screen(path, checked)


def refuse_certain_tenants(visitor: Visitor) -> None:
    """Let only those go on who may see all tenants. Raises RequestRefused."""
    if visitor.tenants is not None:
        detail = "this page tells of all tenants: it is for those who may see all of them"
        raise RequestRefused(HTTPStatus.FORBIDDEN, detail)


async def overview(visit: PageVisit) -> dict[str, Any]:
    """What `inboxd status` shows, at most seconds old."""
    return (await visit.snapshot.seen()).document


async def database_now(visit: PageVisit) -> datetime:
    """The database's time, as the snapshot tells it."""
    seen = await visit.snapshot.seen()
    sample = seen.document["sample"]
    at: datetime = sample["at"]
    return at + timedelta(seconds=sample["age"] + seen.age)


async def sampled(visit: PageVisit) -> Sample | None:
    """The newest sample, unless it is stale: then a page counts for itself what is not in it."""
    found = await overview(visit)
    if found["sample"]["counted_by"] != "leader":
        return None
    sample = await samples.newest(visit.session.connection, visit.session.sql)
    return sample if sample is not None and sample.is_fresh(visit.settings) else None


async def counted(visit: PageVisit, sample: Sample | None) -> CountedLanes:
    """What waits in lanes, as the snapshot has it; and, of a sample, what stands still."""
    found = await overview(visit)
    lanes = [lane for lane in found["lanes"] if lane["type"] != LINES]
    if sample is None:
        return CountedLanes(found["counted_to"], lanes)
    blocked = [Blocked(*each) for each in sample.counts["blocked_keys"]]
    return CountedLanes(found["counted_to"], lanes, blocked, sample.counts["lines"])


def paused_as(found: dict[str, Any], kind: str, name: str) -> dict[str, Any] | None:
    """By whom it is paused, why and since when; None: it is not."""
    named = (kind, name)
    return next((row for row in found["paused"] if (row["kind"], row["name"]) == named), None)
