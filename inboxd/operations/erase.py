"""Erases the contents of a tenant's or an entity's rows: payloads, results, errors, keys, bodies.

A row keeps its skeleton: ids, type, topic or queue, times, status, lineage. An unsettled event is a
fact (promise 8): it is settled first, then erased. A webhook that contained such an event loses
body, headers and address; a held event is deleted if waiting rows are to be cancelled. Promises:
each step is a short transaction; an interrupted erasure has a correct audit entry, and the next run
erases the remaining rows; waiting and running rows are changed only if asked for. An erasure that
finds nothing has an entry if webhooks are received: the drain of a spool reads it
(`inbound/spool/erasures.py`). Known limits: rows are found by their columns, not by their payloads;
rows that are written meanwhile are found by the next run; copies elsewhere (exports, backups, logs)
stay.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import orjson

from inboxd.errors import Conflict, DatabaseError, UsageError
from inboxd.model.lifecycle import Status
from inboxd.model.wording import plural
from inboxd.operations.ability import lacking_rights
from inboxd.operations.bulk import Terms
from inboxd.store import census, wakeups
from inboxd.store import erase as store
from inboxd.store import operations as actions
from inboxd.store.erase import Subject
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable

_TABLES: tuple[HotTable, ...] = ("events", "commands")
_PAGE = 500

# Called with the share of history that was searched, and the number of rows found there.
OnStep = Callable[[float, int], None]


@dataclass(slots=True)
class About:
    settled: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    bodies: int = 0

    @property
    def unsettled(self) -> int:
        return self.waiting.total() + self.running.total()

    @property
    def total(self) -> int:
        return self.settled.total() + self.dead.total() + self.unsettled


def subject_of(tenant: str | None, entity_type: str | None, entity_id: str | None) -> Subject:
    """Return the subject: a tenant, an entity, or an entity of a tenant. Raises UsageError."""
    if (entity_type is None) != (entity_id is None):
        raise UsageError("an entity has a type and an id: give both.")
    if not any((tenant, entity_id)):
        raise UsageError("name the rows to erase: give a tenant, or an entity's type and id.")
    return Subject(tenant, entity_type, entity_id)


async def survey(
    session: Session, subject: Subject, on_step: OnStep = lambda _share, _found: None
) -> About:
    """It searches all of history, part by part."""
    about = About()
    for table in _TABLES:
        for _, status in await store.hot(session, table, subject):
            _counter(about, status)[table] += 1
    _, about.waiting["held"] = await store.held(session, subject)
    async for table, stretch in store.stretches(session, _TABLES):
        row = await store.count(session, table, subject, stretch)
        about.settled[table] += row["rows"]
        about.bodies += row["bodies"]
        on_step(stretch.after / stretch.of, about.settled.total())
    return about


async def erase(
    session: Session,
    subject: Subject,
    terms: Terms,
    *,
    unsettled: bool = False,
    on_step: OnStep = lambda _share, _found: None,
) -> tuple[About, int]:
    """Return the erased rows, all settled by now, and the number of rows left, which still run.

    unsettled: cancel waiting commands, and ask running ones to stop. Raises Conflict if rows wait
    or run and `unsettled` is not set, DatabaseError if a privilege is missing; then nothing is
    changed.
    """
    await require_rights(session)
    rows = {table: await store.hot(session, table, subject) for table in _TABLES}
    waits = sum(status != Status.FAILED for table in _TABLES for _, status in rows[table])
    held, events = await store.held(session, subject)
    waits += events
    if waits and not unsettled:
        raise Conflict(
            f"{plural(waits, 'matching row')} not settled yet; nothing was changed: wait until all "
            "have ended, or cancel them too"
        ).on_terminals(" with --unsettled")
    entry = await _record(session, subject, terms, events) if held or any(rows.values()) else None
    for first in range(0, len(held), _PAGE):
        async with session.transaction():
            await store.erase_held(session, subject, held[first : first + _PAGE])
    for table in _TABLES:
        for page in _pages([id_ for id_, _ in rows[table]]):
            await _settle(session, table, page, unsettled=unsettled)
    if entry is None and await store.may_be_spooled(session):
        entry = await _record(session, subject, terms, 0)  # a spool's drain reads this entry
    about = await _erase_history(session, subject, terms, entry, on_step)
    about.settled["held"] += events
    left = [len(await store.hot(session, table, subject)) for table in _TABLES]
    _, still_held = await store.held(session, subject)
    return about, sum(left) + still_held


async def _settle(
    session: Session, table: HotTable, ids: Sequence[int], *, unsettled: bool
) -> None:
    """Without `unsettled`, skip a dead letter that was replayed meanwhile."""
    async with session.transaction():
        held = await actions.lock(session, table, ids, [])
        of: dict[bool, list[int]] = {True: [], False: []}
        for row in held:
            of[row["status"] == Status.FAILED].append(row["id"])
        await actions.dismiss(session, table, of[True])
        waiting = of[False] if unsettled else []
        if table == "events":
            await store.cancel_events(session, waiting)
        else:
            await actions.cancel(session, waiting)
            await actions.request_cancel(session, waiting)
        await wakeups.notify(session, table)


async def _record(session: Session, subject: Subject, terms: Terms, count: int) -> int:
    return await actions.record(session, terms.actor, "erase", str(subject), terms.reason, count)


async def _erase_history(
    session: Session, subject: Subject, terms: Terms, entry: int | None, on_step: OnStep
) -> About:
    """Each part is a transaction with its count in the audit. entry: None: nothing found so far."""
    about = About()
    async for table, stretch in store.stretches(session, _TABLES):
        async with session.transaction():
            row = await store.erase(session, table, subject, stretch, errors_after())
            if row["rows"]:
                # A census of that day may have counted these rows already, or may see them again.
                parent = f"{table}_history"
                await census.begin(session, stretch.part, parent)
                if entry is None:
                    entry = await _record(session, subject, terms, row["rows"])
                else:
                    await actions.record_more(session, entry, row["rows"])
        about.settled[table] += row["rows"]
        about.bodies += row["bodies"]
        on_step(stretch.after / stretch.of, about.settled.total())
    return about


async def require_rights(session: Session) -> None:
    """Raise DatabaseError if the session's role is not allowed to erase."""
    if lacking := await lacking_rights(session, "erase"):
        raise DatabaseError(
            f"this role is not allowed to erase: it lacks {', '.join(lacking)}; run the command as "
            "the schema's owner; workers should not have that role"
        )


def errors_after() -> str:
    """Return JSON text: the errors of an erased row."""
    at = datetime.now(UTC).isoformat()
    # The function `is_erased` of the schema compares this text.
    return orjson.dumps([{"at": at, "error": "Erased: what this row said was erased"}]).decode()


def _counter(about: About, status: str) -> Counter[str]:
    if status == Status.FAILED:
        return about.dead
    return about.running if status == Status.RUNNING else about.waiting


def _pages(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(ids), _PAGE):
        yield ids[first : first + _PAGE]
