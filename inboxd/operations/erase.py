"""What is known of a tenant or an entity is erased: payloads, results, errors, keys, bodies.

Of a webhook that brought an event about it, body, headers and address go as a whole; an event that
is held still goes without a trace, when what waits is to be cancelled.

What stays is a row's skeleton: ids, type, topic or queue, times, status, lineage. So batches,
counts and stories stay whole, and nobody can read any more whom they were about. An event that is
still to be processed is a fact and does not change (promise 8): it is settled first, then erased.
Promises: the search and each erasing step are short; an interrupted erasure has a true entry in the
audit, and the same command goes on with the rest; one that finds nothing has none, unless webhooks
are received, since what it is about may be in a spool; dead letters are
dismissed and erased, what waits or runs is only touched when that is asked for.
Known limits: rows are found by their columns, not by their payloads; what is written while it
runs is found by the next run; what waits in a spool is left out by its drain, which asks the audit
(`inbound/spool/erasures.py`); copies elsewhere (exports, backups, logs) are not reached.
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

# Called with the share of history that has been looked at, and how many rows were found there.
OnStep = Callable[[float, int], None]


@dataclass(slots=True)
class About:
    """How many rows are, or were, about the subject; by table."""

    settled: Counter[str] = field(default_factory=Counter)
    dead: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    running: Counter[str] = field(default_factory=Counter)
    bodies: int = 0

    @property
    def unsettled(self) -> int:
        """Rows that are still to be processed, or are being."""
        return self.waiting.total() + self.running.total()

    @property
    def total(self) -> int:
        """All rows."""
        return self.settled.total() + self.dead.total() + self.unsettled


def subject_of(tenant: str | None, entity_type: str | None, entity_id: str | None) -> Subject:
    """Whom it is about: a tenant, an entity, or an entity of a tenant. Raises UsageError."""
    if (entity_type is None) != (entity_id is None):
        raise UsageError("an entity has a type and an id: give both.")
    if not any((tenant, entity_id)):
        raise UsageError("whose rows are to be erased? Give a tenant, or an entity's type and id.")
    return Subject(tenant, entity_type, entity_id)


async def survey(
    session: Session, subject: Subject, on_step: OnStep = lambda _share, _found: None
) -> About:
    """What an erasure would reach; history is looked at as a whole, stretch by stretch."""
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
    """Erase; returns what was erased (all of it settled by now), and how many rows are left.

    unsettled: cancel what waits, and ask for the end of what runs. What runs is left: it is erased
    by another run, once it has ended. Raises Conflict when rows wait or run and it is not given,
    DatabaseError when a privilege is missing; then nothing is changed.
    """
    if lacking := await lacking_rights(session, "erase"):
        raise DatabaseError(
            f"this role may not erase: {', '.join(lacking)} missing; run it as the schema's owner, "
            "which workers are not meant to be"
        )
    rows = {table: await store.hot(session, table, subject) for table in _TABLES}
    waits = sum(status != Status.FAILED for table in _TABLES for _, status in rows[table])
    held, events = await store.held(session, subject)
    waits += events
    if waits and not unsettled:
        have, them = ("has", "it") if waits == 1 else ("have", "them")
        raise Conflict(
            f"{plural(waits, 'row')} about it {have} not ended; nothing was changed: wait for the "
            f"end, or cancel {them} as well"
        ).on_terminals(" with --unsettled")
    entry = await _record(session, subject, terms, events) if held or any(rows.values()) else None
    for first in range(0, len(held), _PAGE):
        async with session.connection.transaction():
            await store.erase_held(session, subject, held[first : first + _PAGE])
    for table in _TABLES:
        for page in _pages([id_ for id_, _ in rows[table]]):
            await _settle(session, table, page, unsettled=unsettled)
    if entry is None and await store.may_be_spooled(session):
        entry = await _record(session, subject, terms, 0)  # by it a spool leaves out what it has
    about = await _erase_history(session, subject, terms, entry, on_step)
    about.settled["held"] += events
    left = [len(await store.hot(session, table, subject)) for table in _TABLES]
    _, still_held = await store.held(session, subject)
    return about, sum(left) + still_held


async def _settle(
    session: Session, table: HotTable, ids: Sequence[int], *, unsettled: bool
) -> None:
    """Bring hot rows into history, dead letters as dismissed, those that wait as cancelled.

    Without `unsettled` a dead letter that was replayed since it was found is left.
    """
    async with session.connection.transaction():
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
        await wakeups.notify(session.connection, session.sql, table)


async def _record(session: Session, subject: Subject, terms: Terms, count: int) -> int:
    """An erasure must be provable, so its entry in the audit names whom it was about."""
    return await actions.record(session, terms.actor, "erase", str(subject), terms.reason, count)


async def _erase_history(
    session: Session, subject: Subject, terms: Terms, entry: int | None, on_step: OnStep
) -> About:
    """Stretch by stretch, each in a transaction with its count in the audit.

    entry: that of the audit; None: there is none yet, as nothing was found.
    """
    about = About()
    async for table, stretch in store.stretches(session, _TABLES):
        async with session.connection.transaction():
            row = await store.erase(session, table, subject, stretch, _instead())
            if row["rows"]:
                # A count of that day may have passed these rows, or meet them again.
                parent = f"{table}_history"
                await census.begin(session.connection, session.sql, stretch.part, parent)
                if entry is None:
                    entry = await _record(session, subject, terms, row["rows"])
                else:
                    await actions.record_more(session, entry, row["rows"])
        about.settled[table] += row["rows"]
        about.bodies += row["bodies"]
        on_step(stretch.after / stretch.of, about.settled.total())
    return about


def _instead() -> str:
    """The errors of an erased row."""
    at = datetime.now(UTC).isoformat()
    return orjson.dumps([{"at": at, "error": "Erased: what this row said was erased"}]).decode()


def _counter(about: About, status: str) -> Counter[str]:
    if status == Status.FAILED:
        return about.dead
    return about.running if status == Status.RUNNING else about.waiting


def _pages(ids: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(ids), _PAGE):
        yield ids[first : first + _PAGE]
