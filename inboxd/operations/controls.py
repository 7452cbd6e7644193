"""Pauses and resumes types, topics, queues, schedules and sources; flushes chunks; unsubscribes.

Promises: every worker applies a pause within a second, and releases leased commands that have not
started. A flushed chunk contains lined-up events and arrivals, as if it were due. A subscription
that a living worker declares is not ended, since its next start would restore it. Known limits:
running rows and chunks are not touched. The count of waiting rows stops at 10,000 per lane, and of
lines at 10,000 arrivals and 10,000 lined-up events, also of paused types. Events that were written
before a subscription ended stay in the topic.
"""

from datetime import datetime
from typing import Literal, get_args

from inboxd.errors import Conflict, NotFound, UnknownName, UsageError
from inboxd.model import checks
from inboxd.model.spelling import did_you_mean
from inboxd.operations.names import nearest, unknown
from inboxd.store import chunks, listing, receipts, schedules, topics, wakeups
from inboxd.store import controls as store
from inboxd.store import operations as audit
from inboxd.store.controls import Kind, Mode
from inboxd.store.receipts import HeldSource
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_MOST_CHUNKS = 10_000  # chunks that are flushed at once


async def pause(
    session: Session,
    kind: Kind,
    name: str,
    *,
    actor: str,
    reason: str | None = None,
    refuse: bool = False,
) -> int:
    """Return the number of rows that wait. refuse: a source answers 503, instead of holding.

    Raises UsageError for an invalid name, or a kind that cannot refuse; UnknownName for an
    undeclared schedule; Conflict if it is paused already.
    """
    _check(kind, name)
    if refuse and kind != "source":
        raise UsageError(f"a {kind} cannot refuse: only a webhook source can.")
    async with session.transaction():
        if kind == "schedule" and not await schedules.exists(session, name):
            raise UnknownName(
                f"there is no schedule {name!r}{await nearest(session, 'schedule', name)}; "
                "`inboxd schedules list` has their names"
            )
        mode: Mode = "refuse" if refuse else "hold"
        if not await store.pause(session, kind, name, actor, reason, mode):
            raise Conflict(
                f"{kind} {name!r} is paused already: `inboxd paused` shows since when and by whom"
            )
        waiting = await waiting_rows(session, kind, name)
        action: audit.Audited = "refuse" if refuse else "pause"
        await audit.record(session, actor, action, f"{kind} {name}", reason, waiting)
    return waiting


async def waiting_rows(session: Session, kind: Kind, name: str) -> int:
    if kind == "source":
        held = await _held(session, name)
        return held["receipts"] if held else 0
    total = 0
    tables: tuple[tuple[HotTable, str], ...] = (("events", "topic"), ("commands", "queue"))
    for table, lane in tables:
        if kind in (lane, "type"):
            rows = await listing.lanes(session, table)
            total += sum(row["pending"] for row in rows if row[kind] == name)
    if kind == "topic":
        total += await topics.waiting(session, [name])
    elif kind == "type":
        in_lines = [row["topic"] for row in await topics.lines(session)]
        total += await topics.waiting(session, in_lines, name)
    return total


async def resume(
    session: Session,
    kind: Kind,
    name: str,
    *,
    actor: str,
    reason: str | None = None,
    seen: datetime | Literal["any"] | None = "any",
) -> int:
    """Release held receipts first, unless the settings of a receiver pause the source too.

    seen: the beginning of the pause that the operator saw. Raises Conflict if it is not paused, or
    was resumed and paused again meanwhile.
    """
    _check(kind, name)
    async with session.transaction():
        since = await store.resume(session, kind, name)
        was_paused = since is not None
        if was_paused and seen not in ("any", since):
            raise Conflict(
                f"{kind} {name!r} was resumed meanwhile and paused again; nothing was changed: "
                "look at the new reason"
            )
        held = await _held(session, name) if kind == "source" else None
        if not was_paused and (held is None or held["paused"]):
            raise Conflict(await _why_not_paused(session, kind, name, held))
        waiting = held["receipts"] if held else await waiting_rows(session, kind, name)
        await audit.record(session, actor, "resume", f"{kind} {name}", reason, waiting)
    if held and not held["paused"]:
        return await _release(session, name)
    return waiting


async def _held(session: Session, source: str) -> HeldSource | None:
    found = await receipts.held(session)
    return next((row for row in found if row["source"] == source), None)


async def _release(session: Session, source: str) -> int:
    """Release page by page; after an interruption the leader continues."""
    pages = receipts.release(session, source)
    return sum([count async for count in pages])


async def _why_not_paused(session: Session, kind: Kind, name: str, held: HeldSource | None) -> str:
    if held is not None:
        return (
            f"the source {name!r} is paused by the settings of a receiver, not by an operator: set "
            f'inbound.webhooks.{name}.paused = "no", and send the receiver a HUP'
        )
    controls = await store.read(session)
    paused = [row["name"] for row in controls if row["kind"] == kind]
    return (
        f"{kind} {name!r} is not paused{did_you_mean(name, paused)}; `inboxd paused` lists all "
        "pauses"
    )


async def flushable(session: Session, topic: str, key: str | None = None) -> int:
    return await chunks.count(session, topic, key, _MOST_CHUNKS)


async def flush(
    session: Session,
    topic: str,
    key: str | None = None,
    *,
    actor: str,
    reason: str | None = None,
) -> list[str]:
    """Make at most 10,000 chunks due, the earliest first. Raises NotFound if no chunk waits."""
    async with session.transaction():
        keys = await chunks.flush(session, topic, key, _MOST_CHUNKS)
        if not keys:
            if told := await unknown(session, "topic", topic):
                raise UnknownName(told)
            what = f"the key {key!r} of the topic {topic!r}" if key is not None else repr(topic)
            raise NotFound(f"no chunk of {what} waits: see `inboxd topics chunks {topic}`")
        await audit.record(session, actor, "flush", f"topic {topic}", reason, len(keys))
        await wakeups.notify(session, "events")
    return keys


async def unsubscribe(
    session: Session,
    topic: str,
    type: str | None = None,
    *,
    actor: str,
    reason: str | None = None,
) -> list[str]:
    """Raises NotFound without a subscription; Conflict if a living worker declares it."""
    async with session.transaction():
        known = [each for each in await topics.listed(session) if each["topic"] == topic]
        types = [each for each in (known[0]["types"] if known else ()) if type in (None, each)]
        if not types:
            if told := await unknown(session, "topic", topic):
                raise UnknownName(told)
            what = f"no subscription to {type!r}" if type else "no subscriptions"
            raise NotFound(f"the topic {topic!r} has {what}; `inboxd topics list` shows them")
        ended = await topics.unsubscribe(session, topic, type)
        if not ended:
            raise Conflict(
                f"a living worker declares the topic {topic!r} for {', '.join(types)}: "
                "remove the handler from its plugin first"
            )
        await audit.record(session, actor, "unsubscribe", f"topic {topic}", reason, len(ended))
    return ended


def _check(kind: str, name: str) -> None:
    if kind not in get_args(Kind):
        raise UsageError(f"{kind!r} cannot be paused; valid kinds: {', '.join(get_args(Kind))}.")
    checks.refuse(f"the {kind} {name!r:.60}", checks.printable(name))
