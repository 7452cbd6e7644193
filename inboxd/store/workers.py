"""The workers table: joining, heartbeats, leaving, and taking back a dead worker's commands.

Promises that clocks of two machines are never compared, and that a claim cannot commit after its
worker was declared dead (promise 3) by the reaper (`inboxd.maintenance.reaper`).
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypedDict, cast
from uuid import UUID

import asyncpg
import orjson

from inboxd.store.migrations import code_version
from inboxd.store.pools import Pool, transact
from inboxd.store.session import Session


@dataclass(frozen=True, slots=True)
class WorkerIdentity:
    """One daemon process: its identity and what it serves. `id` is new at every start."""

    id: UUID
    name: str
    host: str
    pid: int
    version: str
    events: tuple[str, ...]
    commands: tuple[str, ...]
    queues: tuple[str, ...]
    declares: str
    schedules: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    subscriptions: tuple[tuple[str, str], ...] = ()
    served_topics: tuple[str, ...] = ()
    endpoints: tuple[str, ...] = ()
    # Its place under a supervisor.
    number: int | None = None
    # Its plugins with their versions.
    release: str | None = None

    @property
    def process(self) -> str:
        return f"{self.host}:{self.pid}"


@dataclass(frozen=True, slots=True)
class BeatResult:
    peers: int
    uniform: bool
    last_death: datetime | None
    cancelled: frozenset[int]


class LiveWorker(TypedDict):
    id: UUID
    heartbeat: int
    commands: list[str]
    queues: list[str]


class ReturnedCommand(TypedDict):
    id: int
    type: str
    status: str


class EndedSession(TypedDict):
    """A stalled session that was terminated; query: the beginning of its statement."""

    pid: int
    application: str
    waited: timedelta
    query: str


async def join(session: Session, me: WorkerIdentity) -> None:
    """Insert this worker's row, which makes its claims valid."""
    await session.execute(
        "register_worker",
        me.id,
        me.name,
        me.host,
        me.pid,
        me.version,
        me.events,
        me.commands,
        me.queues,
        me.declares,
        me.schedules,
        me.topics,
        ["\n".join(pair) for pair in me.subscriptions],
        me.served_topics,
        me.number,
        me.endpoints,
        me.release,
        code_version(),
    )


async def declare(
    session: Session,
    queues: Mapping[str, str],
    rules: Mapping[tuple[str, str], Sequence[Mapping[str, Any]]],
    labels: Mapping[tuple[str, str], tuple[str | None, str | None]],
    secrets: Mapping[tuple[str, str], Sequence[str]],
) -> None:
    """queues: for commands whose producer names none. secrets: keys that are never shown."""
    keys = sorted(rules)
    await session.execute(
        "declare_types",
        [kind for kind, _ in keys],
        [type_ for _, type_ in keys],
        [queues[type_] if kind == "command" else None for kind, type_ in keys],
        [orjson.dumps(rules[key]).decode() for key in keys],
        [labels[key][0] for key in keys],
        [labels[key][1] for key in keys],
        [orjson.dumps(secrets[key]).decode() for key in keys],
    )


async def declared(session: Session) -> dict[tuple[str, str], dict[str, Any]]:
    rows = await session.fetch("list_declared")
    return {(row["kind"], row["name"]): orjson.loads(row["said"]) for row in rows}


async def beat(
    session: Session, worker: UUID, in_flight: int, state: str, *, events: int = 0
) -> BeatResult | None:
    """Renew the lease; None: this worker was declared dead. events: the number in flight."""
    row = await session.fetchrow("beat", worker, in_flight, events, state)
    if row is None:
        return None
    return BeatResult(row["peers"], row["uniform"], row["last_death"], frozenset(row["cancelled"]))


async def leave(session: Session, worker: UUID) -> None:
    await session.execute("end_worker", worker)


async def unclean_predecessors(
    session: Session, me: WorkerIdentity, living_pids: list[int], interval: timedelta
) -> bool:
    """Whether a worker may have died unnoticed, during a page."""
    return bool(
        await session.fetchval("unclean_predecessors", me.id, me.host, living_pids, 2 * interval)
    )


async def living(session: Session) -> list[LiveWorker]:
    return cast("list[LiveWorker]", await session.fetch("live_workers"))


async def unhandled(
    session: Session, pairs: Collection[tuple[str, str]]
) -> dict[tuple[str, str], bool]:
    """Pairs (topic, type); True: a worker still lines up the topic's arrivals."""
    if not pairs:
        return {}
    rows = await session.fetch(
        "unhandled", [topic for topic, _ in pairs], [type_ for _, type_ in pairs]
    )
    return {(row["topic"], row["type"]): row["visited"] for row in rows}


async def declare_dead(
    pool: Pool, worker: UUID, heartbeat: int, crash_limit: int
) -> list[ReturnedCommand] | None:
    """Takes back its commands in the same transaction. None: the worker showed a sign of life.

    That is a heartbeat, its end, or a lock of its row by a claim or of a command by a settlement.
    """
    try:
        async with transact(pool) as session:
            held = await session.fetchval("lock_worker", worker, heartbeat)
            if held is None:
                return None
            await session.execute("declare_dead", worker)
            returned = await session.fetch("reap_commands", worker, crash_limit)
            return cast("list[ReturnedCommand]", returned)
    except asyncpg.LockNotAvailableError:
        return None


async def end_stalled(
    session: Session, names: str, patience: timedelta, to_read: timedelta
) -> list[EndedSession]:
    """End stalled sessions whose names begin with `names`; see `maintenance.sessions`."""
    ended = await session.fetch("end_stalled_sessions", names, patience, to_read)
    return cast("list[EndedSession]", ended)


async def forget_ended(session: Session) -> None:
    await session.execute("forget_workers")
