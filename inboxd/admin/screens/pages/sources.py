"""Sources of webhooks and of messages, their receivers, and the spools on disks.

Known limit: of other hosts' spools, the page shows their receivers' last reports.
"""

from collections.abc import Collection
from functools import partial
from typing import Any

from inboxd.admin.screens.pages.paging import part_of
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.whole_inbox import overview, pauses, whole_inbox
from inboxd.operations.messages import has_positions, streams, streams_read
from inboxd.store import receipts, receivers

_MOST = 1000
_MOST_HOSTS = 20


async def _sources(visit: PageVisit) -> ScreenPage:
    found = await overview(visit)
    receiving = await _receivers(visit)
    told = await streams(visit.session)
    held = {row["source"]: dict(row) for row in await receipts.held(visit.session)}
    names = {*visit.settings.inbound.webhooks, *held, *(n for r in receiving for n in r["sources"])}
    stopped = {row["name"] for row in found["paused"] if row["kind"] == "source"}
    names |= stopped - visit.settings.inbound.messages.keys()
    paused = await pauses(visit, "source", names)
    webhooks = _webhooks(names, receiving, held, paused)
    part = part_of(webhooks, lambda row: row["source"], visit.query)
    messages = streams_read(told["streams"], told["readers"])
    streamed = part_of(messages, lambda row: f"{row['source']} {row['stream'] or ''}", visit.query)
    document = {"webhooks": part.rows, "receivers": receiving, **told}
    if part.after is not None:
        document["next"] = part.after
    shown = {
        "part": part,
        "messages": streamed,
        "paused": paused,
        "has_positions": partial(has_positions, visit.settings),
    }
    return ScreenPage("sources.html", document, shown)


def _webhooks(
    names: Collection[str],
    receiving: list[dict[str, Any]],
    held: dict[str, dict[str, Any]],
    paused: Collection[str],
) -> list[dict[str, Any]]:
    return [
        {
            "source": name,
            "receivers": [row["name"] for row in receiving if name in row["sources"]],
            "spooled_by": [row["name"] for row in receiving if name in row["spooled"]],
            "held": held[name]["receipts"] if name in held else 0,
            "held_since": held[name]["held_at"] if name in held else None,
            "paused": name in paused or any(name in row["holds"] for row in receiving),
        }
        for name in sorted(names)
    ]


async def _spools(visit: PageVisit) -> ScreenPage:
    there = await _receivers(visit)
    rows = [row for row in there if row["spooled"] or row["broken"]]
    here = None if visit.spool is None else visit.spool.host
    shown = {
        "silent": len(there) - len(rows),  # they report nothing on their disks
        "elsewhere": sorted({row["host"] for row in rows} - {here})[:_MOST_HOSTS],
        "here": here,
    }
    if visit.spool is None:
        return ScreenPage("spools.html", {"receivers": rows, "spool": None}, shown)
    try:
        spool = await visit.spool.listed()
    except OSError as error:
        spool, shown["unseen"] = None, error.strerror or str(error)
    return ScreenPage("spools.html", {"receivers": rows, "spool": spool}, shown)


async def _receivers(visit: PageVisit) -> list[dict[str, Any]]:
    lease = visit.settings.worker.lease
    return [dict(row) for row in await receivers.listed(visit.session, lease, _MOST)]


SCREENS = (whole_inbox("/sources", _sources), whole_inbox("/spools", _spools))
