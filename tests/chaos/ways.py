"""The ways in which producers write.

Promises: each returns the drafts that were confirmed as written, with their expected end if the
answer names it; the others were duplicates, or gave way.
"""

import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import asyncpg

from inboxd.client import Inbox, NewCommand, NewEvent
from tests.chaos.load import Draft, Table

_CLIENT = Inbox()
_UNIQUE_KEY_TAKEN = "IB006"

Connection = asyncpg.Connection
Write = Callable[[Connection, Sequence[Draft]], Awaitable[Sequence[Draft]]]


async def _insert_events(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    for draft in drafts:
        await connection.execute(
            "insert into inboxd.events (event_id, type, payload, run_at)"
            " values ($1, $2, $3, coalesce($4, now()))",
            draft.key,
            draft.type,
            json.dumps(draft.script),
            draft.run_at,
        )
    return drafts


async def _insert_commands(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    await connection.execute(
        "insert into inboxd.commands"
        " (command_id, type, payload, run_at, queue, priority, ordering_key)"
        " select key, type, payload, coalesce(run_at, now()), queue, priority, line"
        " from unnest($1::uuid[], $2::text[], $3::jsonb[], $4::timestamptz[], $5::text[],"
        " $6::int[], $7::text[]) as t(key, type, payload, run_at, queue, priority, line)",
        [draft.key for draft in drafts],
        [draft.type for draft in drafts],
        [json.dumps(draft.script) for draft in drafts],
        [draft.run_at for draft in drafts],
        [draft.queue for draft in drafts],
        [draft.priority for draft in drafts],
        [draft.ordering_key for draft in drafts],
    )
    return drafts


async def _emit_events(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    items = [{"event_id": str(draft.key), **_fields(draft)} for draft in drafts]
    await connection.execute("select inboxd.emit_events($1)", json.dumps(items))
    return drafts


async def _send_commands(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    await connection.execute("select inboxd.send_commands($1)", json.dumps(_items(drafts)))
    return drafts


def _items(drafts: Sequence[Draft]) -> list[dict[str, Any]]:
    return [
        {
            "command_id": str(draft.key),
            "queue": draft.queue,
            "priority": draft.priority,
            "ordering_key": draft.ordering_key,
            **_fields(draft),
        }
        for draft in drafts
    ]


def _fields(draft: Draft) -> dict[str, Any]:
    run_at = None if draft.run_at is None else draft.run_at.isoformat()
    return {"type": draft.type, "payload": draft.script, "run_at": run_at}


async def _client_emit(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    await _CLIENT.emit_many(connection, _new_events(drafts))
    return drafts


def _new_events(drafts: Sequence[Draft]) -> list[NewEvent]:
    return [
        NewEvent(
            d.type,
            d.script,
            event_id=d.key,
            run_at=d.run_at,
            source=d.source,
            dedup_key=d.dedup_key,
        )
        for d in drafts
    ]


async def _client_send(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    sent = await _CLIENT.send_many(connection, _new_commands(drafts))
    return [draft for draft, receipt in zip(drafts, sent, strict=True) if not receipt.duplicate]


def _new_commands(drafts: Sequence[Draft]) -> list[NewCommand]:
    return [
        NewCommand(
            d.type,
            d.script,
            command_id=d.key,
            run_at=d.run_at,
            queue=d.queue,
            priority=d.priority,
            ordering_key=d.ordering_key,
            unique_key=d.unique_key,
            on_conflict=d.on_conflict,
        )
        for d in drafts
    ]


# ------------------------------------------------------------------------------------- batches


async def _send_batch(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    then, otherwise, finally_, *members = _items(drafts)
    await connection.execute(
        "select inboxd.send_batch('chaos', $1, $2, $3, $4)",
        *map(json.dumps, (members, then, otherwise, finally_)),
    )
    return drafts


async def _client_send_batch(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    then, otherwise, finally_, *members = _new_commands(drafts)
    await _CLIENT.send_batch(
        connection, "chaos", members, then=then, otherwise=otherwise, finally_=finally_
    )
    return drafts


# ---------------------------------------------------------------- keys of several producers


async def _insert_once(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    (draft,) = drafts
    status = await connection.fetchval(
        "insert into inboxd.events (event_id, type, payload, source, dedup_key)"
        " values ($1, $2, $3, $4, $5) returning status",
        draft.key,
        draft.type,
        json.dumps(draft.script),
        draft.source,
        draft.dedup_key,
    )
    return [] if status is None else [_as_told(draft, conflict=status == "failed")]


async def _emit_once(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    items = [
        {
            "event_id": str(draft.key),
            "source": draft.source,
            "dedup_key": draft.dedup_key,
            **_fields(draft),
        }
        for draft in drafts
    ]
    told = await connection.fetch(
        "select duplicate, conflict from inboxd.emit_events($1) order by ordinal", json.dumps(items)
    )
    return [
        _as_told(draft, conflict=answer["conflict"])
        for draft, answer in zip(drafts, told, strict=True)
        if not answer["duplicate"]
    ]


async def _client_emit_once(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    told = await _CLIENT.emit_many(connection, _new_events(drafts))
    return [
        _as_told(draft, conflict=receipt.conflict)
        for draft, receipt in zip(drafts, told, strict=True)
        if not receipt.duplicate
    ]


def _as_told(draft: Draft, *, conflict: bool) -> Draft:
    return replace(draft, expect="failed") if conflict else draft


async def _send_sole(connection: Connection, drafts: Sequence[Draft]) -> Sequence[Draft]:
    """Send all in one transaction: if one is refused, nothing is written."""
    try:
        async with connection.transaction():
            return await _client_send(connection, drafts)
    except asyncpg.PostgresError as error:
        if error.sqlstate != _UNIQUE_KEY_TAKEN:
            raise
        return []


WAYS: Mapping[Table, tuple[Write, ...]] = MappingProxyType(
    {
        "event": (_insert_events, _emit_events, _client_emit),
        "command": (_insert_commands, _send_commands, _client_send),
        "batch": (_send_batch, _client_send_batch),
        "once": (_insert_once, _emit_once, _client_emit_once),
        "sole": (_send_sole,),
    }
)
# Several rows in one transaction would take their keys in random order, and deadlock.
ONE_ROW: tuple[Write, ...] = (_insert_once,)
