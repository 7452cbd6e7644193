"""Statistics of a known scenario: rows that had failed before, and durations of rows."""

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from inboxd import operations
from inboxd.model.lineage import uuid7
from inboxd.operations.overview import completed as read_completed
from inboxd.store.session import Session
from tests.daemon.inbox import KINDS, Inbox, Kind
from tests.support import Config, Worker, eventually
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio

_TYPE = "test.misbehave"
_GOOD = {"how": "never mind"}
_LATER = {"how": "retry later", "seconds": 3600}


@pytest.fixture(scope="module")
def worker_config() -> Config:
    return {"maintenance": {"interval": "1s"}}


async def _operate(inbox: Inbox, work: Any, *arguments: Any) -> Any:
    async with daemon_session(inbox.database) as session:
        return await work(session, *arguments, actor="ada")


async def _attempted(inbox: Inbox, kind: Kind, row_id: int, attempts: int) -> None:
    async def spent() -> bool:
        row = await inbox.hot(kind, row_id)
        return row is not None and (row["attempts"], row["status"]) == (attempts, "pending")

    await eventually(spent)


async def _changed(inbox: Inbox, kind: Kind, row_id: int, how: str) -> None:
    """Change a row's payload; replication mode avoids the trigger that keeps events unchanged."""
    await inbox.database.execute(
        "begin; set local session_replication_role = replica;"
        f"update inboxd.{kind}s set payload = jsonb_build_object('how', '{how}') "
        f"where id = {row_id}; commit"
    )


async def _retried_twice(inbox: Inbox, kind: Kind) -> None:
    row_id = await inbox.write(kind, _TYPE, _LATER)
    for attempts in (1, 2):
        await _attempted(inbox, kind, row_id, attempts)
        if attempts == 2:
            await _changed(inbox, kind, row_id, "never mind")
        await _operate(inbox, _now, f"{kind}s", row_id)
    await inbox.succeeded(kind, row_id)


async def _now(session: Session, table: Any, row_id: int, *, actor: str) -> Any:
    at = await session.connection.fetchval("select now()")
    return await operations.reschedule(session, table, [row_id], at, actor=actor)


async def _replayed(inbox: Inbox, kind: Kind, how: str, **columns: object) -> int:
    """Replay a dead letter whose handler then does `how`; return the id of the new row."""
    row_id = await inbox.write(kind, _TYPE, {"how": "reject"}, **columns)
    await inbox.dead(kind, row_id)
    await _changed(inbox, kind, row_id, how)
    done = await _operate(inbox, operations.act, f"{kind}s", "replay", [row_id])
    return int(done.new_ids[0])


@pytest.mark.parametrize("kind", KINDS)
async def test_numbers_of_a_known_scenario(inbox: Inbox, worker: Worker, kind: Kind) -> None:
    """Two rows succeed at first, one after two retries, one after a replay; one fails again."""
    first = await inbox.write_many(kind, _TYPE, [_GOOD, _GOOD])
    await inbox.succeeded(kind, *first)
    await _retried_twice(inbox, kind)
    await inbox.succeeded(kind, await _replayed(inbox, kind, "never mind"))
    await inbox.dead(kind, await _replayed(inbox, kind, "reject"))
    if kind == "command":  # also a replay in a line, and a cancelled command
        await inbox.succeeded(kind, await _replayed(inbox, kind, "never mind", ordering_key="k"))
        [hanging] = await inbox.write_many(kind, "test.wait", [{"wait": 60}])
        await inbox.running(hanging)
        await _operate(inbox, operations.act, "commands", "cancel", [hanging])
        await inbox.settled(kind, hanging)
    await _old(inbox, kind)
    replays = 2 if kind == "command" else 1

    async def counted() -> bool:
        wanted = {
            "completed": 4 + replays,  # 2 at first, 1 after retries, 1 old row
            "after_retry": 1,
            "after_replay": replays,
            "failed_again": 1,
            "reprocessed": 3 + replays,  # 2 retries, and each replay
            # Each success, 2 retries, and the dead letters before and after.
            "attempts": 4 + replays + 2 + (replays + 1) + 1,
        }
        found = await _status(inbox, kind, _TYPE)
        return {key: found.get(key) for key in wanted} == wanted

    await eventually(counted)
    found = await _status(inbox, kind, _TYPE)
    # One row was an hour old; the others took seconds.
    assert 3600 <= found["maximum"] < 3660
    assert found["mean"] == pytest.approx(3600 / (4 + replays), abs=20)
    await _shows(worker, kind, replays)


async def _old(inbox: Inbox, kind: Kind) -> None:
    """Let a row succeed that was created an hour ago."""
    created = datetime.now(UTC) - timedelta(hours=1)
    await inbox.succeeded(kind, await inbox.write(kind, _TYPE, _GOOD, created_at=created))


async def _status(inbox: Inbox, kind: Kind, type_: str) -> dict[str, Any]:
    """The row of `status` for the last hour; that of the last day must be equal."""
    async with daemon_session(inbox.database) as session:
        rows = await read_completed(session)
    hour, day = ([row for row in rows if row["hours"] == hours] for hours in (1, 24))
    assert [each | {"hours": 1} for each in day] == hour
    found = [row for row in hour if (row["kind"], row["type"]) == (kind, type_)]
    return found[0] if found else {}


async def test_the_duration_of_a_story_ends_with_its_last_effects(
    inbox: Inbox, worker: Worker
) -> None:
    """An event of an hour ago sends commands without descendants: these end the story."""

    async def stories(kind: Kind, type_: str, what: str = "count") -> float:
        labels = f'kind="{kind}",type="{type_}"'
        return await worker.metric(f"inboxd_story_duration_seconds_{what}{{{labels}}}")

    begun = uuid7()
    hour_ago = UUID(int=begun.int - (3_600_000 << 80))
    row = await inbox.write("event", "test.fan", {"sends": 2}, correlation_id=str(hour_ago))
    await inbox.succeeded("event", row)

    async def ended() -> bool:
        return await stories("command", "test.noop") == 2

    await eventually(ended)
    assert 2 * 3600 <= await stories("command", "test.noop", "sum") < 2 * 3700
    assert await stories("event", "test.fan") == 0


async def _shows(worker: Worker, kind: Kind, replays: int) -> None:
    of = f'kind="{kind}",outcome="{{}}",type="{_TYPE}"'

    async def reprocessed(after: str, outcome: str) -> float:
        labels = f'after="{after}",{of.format(outcome)}'
        return await worker.metric(f"inboxd_reprocessed_total{{{labels}}}")

    assert await reprocessed("retry", "succeeded") == 1
    assert await reprocessed("retry", "retried") == 1
    assert await reprocessed("replay", "succeeded") == replays
    assert await reprocessed("replay", "failed") == 1
    assert await reprocessed("replay", "cancelled") == 0
    queue = "default" if kind == "command" else ""
    labels = f'kind="{kind}",queue="{queue}",type="{_TYPE}"'
    name = "inboxd_completion_duration_seconds"
    assert await worker.metric(f"{name}_count{{{labels}}}") == 4 + replays
    assert 3600 < await worker.metric(f"{name}_sum{{{labels}}}") < 3660
    short = labels.replace(",queue=", ',le="1800.0",queue=')
    assert await worker.metric(f"{name}_bucket{{{short}}}") == 3 + replays
