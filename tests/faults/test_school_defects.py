"""The eight defects of the school's original system: none of them can happen here (R2).

They were found by reading that system's worker: claims that ignore the status, rows that stay with
a dead worker, wake-ups without a poll, failures that leave half their work, batches that can only
fail, claims without order, errors that count as success, and no means to operate it.
"""

from datetime import UTC, datetime, timedelta

import orjson
import pytest

from inboxd import operations
from inboxd.settings import Database as Settings
from inboxd.store.finding import Filter
from inboxd.store.operator_sessions import open_session
from tests.support import Database, StartWorker, eventually
from tests.support.rows import ExactlyOnce, Hasty, effects, emit, send
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

_RUNNING = """
    select exists (select from inboxd.commands
                    where status = 'running' and type in ('test.wait', 'test.ledger'))"""
_BATCH = "select id from inboxd.send_batch('b', $1::text::jsonb, $2::text::jsonb)"


def _work(how: str = "ok", **rest: object) -> dict[str, object]:
    return {"type": "batch.work", "payload": {"how": how, **rest}}


async def _send_batch(database: Database, members: list[dict[str, object]]) -> int:
    """Send a batch whose continuation notes "told" when all members have succeeded."""
    told = {"type": "batch.told", "payload": {"say": "told"}}
    batch: int = await database.fetchval(
        _BATCH, orjson.dumps(members).decode(), orjson.dumps(told).decode()
    )
    return batch


async def _told(database: Database) -> int:
    count: int = await database.fetchval("select count(*) from ledger where note = 'told'")
    return count


_SETTLE_ALL = """
    with gone as (delete from inboxd.commands where status = 'pending' returning *)
    insert into inboxd.commands_history
           (id, command_id, queue, type, schema_version, priority, status, attempts, crashes, fence,
            run_at, cancel_requested, origin_kind, batch_id, created_at, updated_at, finished_at)
    select id, command_id, queue, type, schema_version, priority, 'succeeded', 1, 0, 1,
           run_at, false, origin_kind, batch_id, created_at, now(), now()
      from gone"""


async def _batch_is(database: Database, batch: int, status: str) -> bool:
    found = await database.fetchval("select status from inboxd.batches where id = $1", batch)
    return bool(found == status)


async def test_1_a_waiting_command_cannot_be_claimed(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """There, the claim ignored the status: a batch's continuation ran before the batch."""
    await start_worker(hasty())
    batch = await _send_batch(ledger, [_work(), {"type": "test.wait", "payload": {"wait": 1.5}}])
    await eventually(lambda: ledger.fetchval(_RUNNING))
    other = await send(ledger, 3)
    await eventually(lambda: _settled(ledger, other))
    status = await ledger.fetchval("select status from inboxd.commands where type = 'batch.told'")
    assert (status, await _told(ledger)) == ("waiting", 0)
    await eventually(lambda: _batch_is(ledger, batch, "succeeded"))
    await eventually(lambda: _told(ledger))


async def _settled(database: Database, ids: list[int]) -> bool:
    left: int = await database.fetchval(
        "select count(*) from inboxd.commands where id = any($1)", ids
    )
    return left == 0


async def test_2_a_crash_after_the_claim_strands_nothing(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """There, a row whose process died stayed Processing for ever."""
    victim = await start_worker(hasty())
    ids = await send(ledger, 3, wait=0.5)
    await eventually(lambda: ledger.fetchval(_RUNNING))
    victim.kill()
    await start_worker(hasty())
    await exactly_once("command", ids)


async def test_3_a_lost_notification_or_a_restart_loses_no_row(
    ledger: Database, start_worker: StartWorker, exactly_once: ExactlyOnce, hasty: Hasty
) -> None:
    """There, only notifications started rows, and delays were kept in a process's memory."""
    first = await start_worker(hasty(worker={"poll_interval": "1s"}))
    async with ledger.connect() as producer:
        await producer.execute("set inboxd.notify = 'off'")
        unheard = await send(producer, 3)
    await exactly_once("command", unheard)
    delayed = await ledger.fetchval(
        "select id from inboxd.send_command('test.ledger', run_at => now() + interval '2 seconds')"
    )
    first.kill()
    await start_worker(hasty())
    await exactly_once("command", [*unheard, delayed])


async def test_4_a_failure_leaves_no_effect_and_does_not_affect_its_neighbours(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """There, a failed event's changes were saved nevertheless, and one bad save lost the claim."""
    ids = await emit(ledger, 20)
    bad = await emit(ledger, 1, "test.misbehave", how="raise")
    worse = await emit(ledger, 1, "test.misbehave", how="deferred")  # fails only at the commit
    await start_worker(hasty())

    async def all_ended() -> bool:
        left = await ledger.fetch("select id from inboxd.events where status <> 'failed'")
        return not left

    await eventually(all_ended)
    seen = await effects(ledger, "event")
    with safety():
        assert seen == dict.fromkeys(ids, 1)
    failed = await ledger.fetch("select id from inboxd.events where status = 'failed' order by id")
    assert [row[0] for row in failed] == [*bad, *worse]


async def test_5_a_batch_heals_and_an_empty_one_ends(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """There, Error was final for a batch, a repetition did not count, an empty one never ended."""
    await start_worker(hasty())
    empty = await _send_batch(ledger, [])
    assert await _batch_is(ledger, empty, "succeeded")
    await eventually(lambda: _told(ledger))

    batch = await _send_batch(ledger, [_work(), _work("fail"), _work()])
    await eventually(lambda: _batch_is(ledger, batch, "failed"))
    await ledger.execute("insert into ledger (kind, row_id, note) values ('test', 0, 'mended')")
    dead = await ledger.fetchval("select id from inboxd.commands where status = 'failed'")
    async with open_session(Settings.model_validate({"dsn": ledger.dsn})) as session:
        await operations.act(session, "commands", "replay", [dead], actor="me", reason="mended")
    await eventually(lambda: _batch_is(ledger, batch, "succeeded"))

    async def told_twice() -> bool:
        return await _told(ledger) == 2

    await eventually(told_twice)


async def test_5_members_do_not_wait_for_their_batch(ledger: Database) -> None:
    """There, each member locked the batch's row and counted all others at its end."""
    await _send_batch(ledger, [_work()] * 2)
    async with ledger.connect() as holder, holder.transaction():
        await holder.execute("select from inboxd.batches for update")
        async with ledger.connect() as settling:
            await settling.execute("set lock_timeout = '2s'")
            await settling.execute(_SETTLE_ALL)
            lines = await settling.fetch("select succeeded from inboxd.batch_progress")
    # One line for both members; their sizes are lines too, until they are folded.
    assert [row[0] for row in lines if row[0]] == [2]


async def test_6_the_oldest_runs_first_keys_are_in_order_and_events_run_once(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """There, RETURNING promised no order, no entity's order was kept, and duplicates ran."""
    key = {"type": "test.ledger", "ordering_key": "student 7"}
    sent = orjson.dumps([{**key, "payload": {"n": n}} for n in range(12)]).decode()
    await ledger.fetch("select inboxd.send_commands($1::text::jsonb)", sent)
    twice = "select duplicate from inboxd.emit_event('test.ledger', event_id => $1)"
    event_id = "6f9619ff-8b86-4d01-b42d-00c04fc964ff"
    told = [await ledger.fetchval(twice, event_id) for _ in range(2)]
    assert told == [False, True]
    old = datetime.now(UTC) - timedelta(hours=1)
    oldest = await ledger.fetchval(
        "select id from inboxd.send_command('test.ledger', run_at => $1)", old
    )
    plain = await send(ledger, 5)
    await start_worker(hasty(queues={"default": {"concurrency": 1}}))
    await eventually(lambda: _settled(ledger, [oldest, *plain]))
    await eventually(lambda: ledger.fetchval("select not exists (select from inboxd.commands)"))
    ran = await ledger.fetch(
        "select id, ordering_key from inboxd.commands_history order by started_at, id"
    )
    keyed = [row["id"] for row in ran if row["ordering_key"]]
    with safety():
        assert keyed == sorted(keyed)
    assert [row["id"] for row in ran if not row["ordering_key"]] == [oldest, *plain]
    with safety():
        assert sum((await effects(ledger, "event")).values()) == 1


async def test_7_an_error_is_not_a_success(
    ledger: Database, start_worker: StartWorker, hasty: Hasty
) -> None:
    """There, a failed call became status 999 of a success, so its retry never ran."""
    await start_worker(hasty())
    (call,) = await send(ledger, 1, "test.identity", at=3)
    (dead,) = await send(ledger, 1, "test.translated", fail=True)
    (lost,) = await send(ledger, 1, "test.hangs", how="hang")
    await eventually(lambda: _settled(ledger, [call]))
    [(attempts, errors)] = await ledger.fetch(
        "select attempts, jsonb_array_length(errors) from inboxd.commands_history where id = $1",
        call,
    )
    assert (attempts, errors) == (3, 2)
    failed = "select count(*) = 2 from inboxd.commands where id = any($1) and status = 'failed'"
    await eventually(lambda: ledger.fetchval(failed, [dead, lost]))


async def test_8_rows_can_be_listed_replayed_and_cancelled(ledger: Database) -> None:
    """There, lists read all rows; no cancel, no bulk replay, no audit."""
    await send(ledger, 300, "test.noop")
    await ledger.execute("update inboxd.commands set status = 'failed' where id % 2 = 0")
    async with open_session(Settings.model_validate({"dsn": ledger.dsn})) as session:
        page = await operations.find(session, "commands", Filter(), limit=20)
        assert len(page.rows) == 20
        dead = await ledger.fetch("select id from inboxd.commands where status = 'failed'")
        await operations.act(
            session, "commands", "replay", [row[0] for row in dead[:50]], actor="ada"
        )
        await operations.act(
            session, "commands", "dismiss", [dead[50][0]], actor="ada", reason="old"
        )
        pending = await ledger.fetchval("select id from inboxd.commands where status = 'pending'")
        await operations.act(session, "commands", "cancel", [pending], actor="ada")
    audit = await ledger.fetch("select actor, action, count from inboxd.audit order by id")
    assert [tuple(row) for row in audit] == [
        ("ada", "replay", 50),
        ("ada", "dismiss", 1),
        ("ada", "cancel", 1),
    ]
    history = "select relkind from pg_class where oid = 'inboxd.commands_history'::regclass"
    assert await ledger.fetchval(history) == b"p", (
        "history must be partitioned, to drop old rows at once"
    )
