# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of producers' statements: inserts, the bulk functions, batches."""

from collections.abc import Awaitable
from uuid import UUID, uuid4

import orjson

from inboxd.store import producing
from inboxd.store.session import Session
from tests.plans.filling import Known
from tests.plans.statements.case import Case, endpoint


def _entry(uuid: UUID) -> producing.Entry:
    return producing.Entry(type="few", payload="{}", lane="big", uuid=uuid)


def _fact(uuid: UUID | None, dedup_key: str | None = None) -> producing.Entry:
    return producing.Entry(type="few", payload="{}", uuid=uuid, dedup_key=dedup_key)


def _bulk(function: str, table: str, key: str) -> Case:
    def case(session: Session, known: Known) -> Awaitable[object]:
        rows = [{"type": "few", key: str(uuid)} for uuid in (known.one(table), uuid4())]
        if table == "commands":
            rows = [{"queue": "big", **row} for row in rows]
        call = f"select * from inboxd.{function}($1::text::jsonb)"
        return session.connection.fetch(call, orjson.dumps(rows).decode())

    return case


def _unique(mode: str) -> Case:
    """Send a command whose unique key another unsettled command has."""

    async def case(session: Session, _: Known) -> None:
        call = "select * from inboxd.send_command('few', '{}', queue => 'big', unique_key => $1"
        key = f"a key {uuid4()}"
        await session.connection.fetch(f"{call})", key)
        await session.connection.fetch(f"{call}, on_conflict => $2)", key, mode)

    return case


async def _batches(session: Session, known: Known) -> None:
    """Open, fill and close a batch; send a batch, and commands that wait for it and for a step."""
    some = orjson.dumps([{"type": "few", "queue": "big"}] * 3).decode()
    batch = await session.connection.fetchval("select new_batch_id from inboxd.open_batch('b')")
    await session.connection.execute("select inboxd.add_to_batch($1, $2::text::jsonb)", batch, some)
    await session.connection.execute("select inboxd.close_batch($1)", batch)
    batch = await session.connection.fetchval(
        "select new_batch_id"
        " from inboxd.send_batch('b', $1::text::jsonb, then_send => $1::text::jsonb)",
        some,
    )
    await session.connection.fetch("select inboxd.send_after($1, $2::text::jsonb)", batch, some)


async def _webhooks(session: Session, _: Known) -> None:
    """Send a webhook with a new message id, and again."""
    await endpoint(session)
    rows = orjson.dumps([{"type": "a.b", "message_id": "m1"}] * 2).decode()
    call = "select * from inboxd.send_webhooks($1::text::jsonb)"
    await session.connection.fetch(call, rows)
    await session.connection.fetch(call, rows)


async def _emitted(session: Session, _: Known) -> None:
    """Insert events of a type that endpoints ask for, and of another type."""
    await endpoint(session)
    await session.connection.execute("update inboxd.endpoints set events = true, types = '{few}'")
    await session.connection.execute(
        "insert into inboxd.emitted_types select 'other ' || n, '', false"
        " from generate_series(1, 50) n"
    )
    await session.connection.execute(
        "insert into inboxd.events (type) select unnest(array['few', 'other', 'few'])"
    )


def _result(table: str) -> Case:
    call = "select * from inboxd.command_result($1)"
    return lambda session, known: session.connection.fetch(call, known.one(table))


PRODUCER: dict[str, tuple[Case, tuple[str, ...]]] = {
    "send_command, kept": (_unique("keep"), ("commands_unique_key",)),
    "send_command, replaced": (_unique("replace"), ("commands_unique_key",)),
    "batches": (_batches, ("batches_batch_id_key", "commands_command_id")),
    "emit_event": (
        lambda s, k: producing.emit(s, _fact(k.one("events"))),
        ("events_event_id",),
    ),
    "emit_known_event": (
        lambda s, k: producing.emit(s, _fact(None, "7")),
        ("dedup_pkey", "events_event_id"),
    ),
    "send_command": (
        lambda s, k: producing.send(s, _entry(k.one("commands"))),
        ("commands_command_id",),
    ),
    "command_result": (_result("commands"), ("commands_command_id",)),
    "command_result, settled": (
        _result("commands_history"),
        ("commands_command_id",),
    ),
    "emit_events": (_bulk("emit_events", "events", "event_id"), ("events_event_id",)),
    "send_commands": (_bulk("send_commands", "commands", "command_id"), ("commands_command_id",)),
    "send_webhooks": (_webhooks, ("commands_command_id",)),
    "insert, told to endpoints": (_emitted, ("emitted_types_pkey", "events_pkey")),
    "insert": (
        lambda c, k: c.connection.execute(
            "insert into inboxd.events (type, event_id) values ('few', $1)"
            " on conflict (event_id, topic) do nothing",
            k.one("events"),
        ),
        (),
    ),
}
