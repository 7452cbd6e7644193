"""The causes for which a row does not run, as JSON values; the first is to be handled first.

Known limit: limits come from the given settings; only workers know a breaker's fallback.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from uuid import UUID

from inboxd.errors import NotFound
from inboxd.model.endpoints import AT_ONCE, QUEUE
from inboxd.model.lifecycle import HOT
from inboxd.model.waiting import sentence
from inboxd.model.waiting_before import COUNTED, turn_of
from inboxd.model.waiting_rules import causes_of
from inboxd.registry.retry_rules import default_rule, rules_in
from inboxd.settings import Queue, Settings
from inboxd.settings.values import parse_rate
from inboxd.store import endpoints, listing
from inboxd.store import waiting as store
from inboxd.store.limits import Bounds
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable


async def why(
    session: Session, settings: Settings, table: HotTable, id: int | UUID
) -> dict[str, Any]:
    """A settled row has no causes. Raises NotFound."""
    row = await listing.one(session, table, id)
    if row is None:
        one = table.removesuffix("s")
        raise NotFound(f"there is no {one} {id}: look the id up with `inboxd {table} list`")
    found = await why_of(session, settings, table, row)
    known = {name: row[name] for name in ("id", "type", "status")}
    return known | (found or {"sentence": _ended(row), "causes": []})


def _ended(row: Mapping[str, Any]) -> str:
    newest = row["errors"][-1].get("error", "") if row.get("errors") else ""
    why = f" ({newest})" if newest.startswith("Expired: ") else ""
    return f"It has ended: {row['status']}{why}."


async def why_of(
    session: Session, settings: Settings, table: HotTable, row: Mapping[str, Any]
) -> dict[str, Any] | None:
    """Return None for a settled row."""
    if row["status"] not in HOT:
        return None
    own: dict[str, Queue] = {}
    bounds = Bounds()
    if table == "commands":
        queue = own[row["queue"]] = await _queue(session, settings, row["queue"])
        bounds = _bounds_of(queue)
        at_once = settings.commands.concurrency
        facts = await store.of_command(
            session, row["id"], bounds, queue.concurrency, at_once, COUNTED
        )
    else:
        facts = await store.of_event(session, row["id"], COUNTED)
    if facts is None:  # the row has settled meanwhile
        return None
    facts |= {"bounds": _named(bounds), "attempts_allowed": _allowed(settings, facts)}
    facts["lease"] = settings.worker.lease.total_seconds()
    causes = causes_of(table.removesuffix("s"), facts)
    if own and causes[0].name == "next":
        queues = {**settings.all_queues, **own}
        turn = await store.turn_of_command(session, row["id"], queues, COUNTED)
        causes = [*turn_of(turn), *causes]
    documents = [each.document() for each in causes]
    return {"sentence": sentence(documents), "causes": documents}


async def _queue(session: Session, settings: Settings, name: str) -> Queue:
    """An endpoint's queue takes limits from the endpoint's row."""
    own = settings.all_queues.get(name) or Queue()
    if not name.startswith(QUEUE):
        return own
    found = await endpoints.listed(session, name.removeprefix(QUEUE))
    if not found:
        return own
    total = found[0]["concurrency"]
    below = Queue(total_concurrency=total, concurrency=AT_ONCE if total is None else None)
    with suppress(ValueError):  # the endpoint has no rate, or one beyond the valid range
        below = below.model_copy(update={"rate": parse_rate(found[0]["rate"] or "")})
    return own.over(below)


def _bounds_of(queue: Queue) -> Bounds:
    rate, period = (None, 1.0) if queue.rate is None else (queue.rate.rows, queue.rate.seconds)
    blocking = queue.on_failure == "block"
    return Bounds(queue.total_concurrency, rate, period, queue.key_concurrency, blocking)


def _named(bounds: Bounds) -> dict[str, Any]:
    names = ("total", "rate", "period", "key_concurrency")
    return {name: getattr(bounds, name) for name in names}


def _allowed(settings: Settings, facts: Mapping[str, Any]) -> int:
    """The row has its own number, or the largest of its handlers' rules."""
    if facts.get("max_attempts") is not None:
        return int(facts["max_attempts"])
    rules = facts["rules"] or []
    if "topic" in facts:
        rules = rules_in(facts["topic"], rules, chunks=facts["mode"] == "batch")
    allowed = [rule["attempts"] for rule in rules] or [default_rule(settings).attempts]
    return int(max(allowed))
