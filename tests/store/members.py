"""Batches and workflows: tests of the store send, settle and fold them.

    batch = await send_batch(session, 2)
    await settle(session, worker, await claim(session, worker))
    assert await fold(session, batch) == "succeeded"
    assert await released(session) == ["finally", "then"]

Members have the type `test.noop`, steps and continuations one of their own.
"""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import orjson

from inboxd.model.lane import Lane
from inboxd.store import commands
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from inboxd.store.settlements import Requeue, Settlement

NOOP = {"type": "test.noop", "queue": "default"}


THEN, OTHERWISE, FINALLY = (
    {"type": f"test.{name}", "queue": "default"} for name in ("then", "otherwise", "finally")
)


ERROR = orjson.dumps({"attempt": 1, "error": "as told"}).decode()


def json(value: object) -> str:
    return orjson.dumps(value).decode()


async def send_batch(session: Session, size: int, **sent: Any) -> int:
    """Send a batch of `size` members with its three continuations; returns its id."""
    batch: int = await session.connection.fetchval(
        "select id from inboxd.send_batch('emails', $1, $2, $3, $4)",
        json([NOOP] * size),
        *(
            json(sent.get(key, told))
            for key, told in (("then", THEN), ("otherwise", OTHERWISE), ("finally_", FINALLY))
        ),
    )
    return batch


async def send_workflow(session: Session, steps: Sequence[Any]) -> int:
    """Send steps (name, after), whose types are named like the steps; returns the workflow's id."""
    given = [
        {
            "name": name,
            "type": f"test.{name}",
            "queue": "default",
            **({"after": after} if after else {}),
        }
        for name, after in steps
    ]
    workflow: int = await session.connection.fetchval(
        "select id from inboxd.send_workflow('seed', $1)", json(given)
    )
    return workflow


async def claim(
    session: Session, worker: UUID, type_: str = "test.noop", most: int = 1000
) -> list[ClaimedCommand]:
    lane = Lane(("default", type_, 0))
    return await commands.claim(session, worker, {"default": most}, [lane], most)


async def settle(session: Session, worker: UUID, rows: Sequence[ClaimedCommand]) -> None:
    ended = [Settlement(row["id"], row["fence"], "succeeded", 0.1, None) for row in rows]
    assert len(await commands.settle(session, worker, ended)) == len(rows)


async def fail(session: Session, worker: UUID, rows: Sequence[ClaimedCommand]) -> None:
    dead = [Requeue(row["id"], "failed", 1, error=ERROR, fence=row["fence"]) for row in rows]
    assert len(await commands.requeue(session, worker, dead)) == len(rows)


async def fold(session: Session, batch: int | None) -> str:
    """Fold a batch and its parents as a worker does, until no more is left; its own status."""
    status, own = "", batch
    while batch is not None:
        row = await session.connection.fetchrow("select * from inboxd.fold_batch($1)", batch)
        assert row is not None
        status = row["status"] if batch == own else status
        batch = batch if row["more"] else row["parent"]
    return status


async def released(session: Session) -> list[str]:
    """The continuations and steps that may run now, or did run."""
    rows = await session.connection.fetch(
        "select type from inboxd.commands where type <> 'test.noop' and status <> 'waiting' "
        "union all select type from inboxd.commands_history "
        "where type <> 'test.noop' and status = 'succeeded' order by 1"
    )
    return [row[0].removeprefix("test.") for row in rows]


async def ended_unrun(session: Session) -> dict[str, str]:
    rows = await session.connection.fetch(
        "select type, cancel_requested from inboxd.commands_history where status = 'cancelled'"
    )
    return {row[0].removeprefix("test."): "cancelled" if row[1] else "skipped" for row in rows}


async def counts(session: Session, batch: int) -> tuple[Any, ...]:
    row = await session.connection.fetchrow(
        "select status, size, succeeded, failed, cancelled, skipped from inboxd.batches "
        "where id = $1",
        batch,
    )
    assert row is not None
    return tuple(row)
