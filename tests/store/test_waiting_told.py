"""Texts about rows that run, are dead or settled, or are held by conditions that no pair makes.

Together with `test_waiting`: each text of `inboxd.model.waiting` is given for a real row here or
there.
"""

import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import inboxd
from inboxd import operations
from inboxd.embedded import Server
from inboxd.errors import NotFound
from inboxd.model.waiting import TEXTS, brief
from inboxd.model.waiting_before import COUNTED
from inboxd.store import relays, topics, workers
from tests.store.test_waiting import CONDITIONS, begin
from tests.store.waiting_world import KEY, QUEUE, REGISTRY, TYPE, World, world_of
from tests.support import Database, ExternalServer, create, drop
from tests.support.rows import daemon_pool, join

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def shared(server: Server | ExternalServer, template: Database) -> Iterator[Database]:
    database = create(server, template.name)
    yield database
    drop(server, database)


@pytest.fixture
async def world(shared: Database) -> AsyncIterator[World]:
    await shared.execute("delete from inboxd.workers")
    async with world_of(shared) as found:
        yield found


async def _said(world: World) -> tuple[str, str]:
    """The name of the only text, and the sentence."""
    (name,) = await world.why()
    return name, (await world.document())["sentence"]


async def test_running_row_names_its_worker(world: World) -> None:
    await world.begin("commands")
    assert await world.is_claimed()
    await world.set(f"status = 'running', started_at = now(), worker_id = '{world.me.id}'")
    name, sentence = await _said(world)
    assert (name, "on worker w-1, since 20" in sentence) == ("running", True)
    await world.set("cancel_requested = true")
    assert (await _said(world))[0] == "ending"


async def test_row_of_a_silent_worker_names_the_time_of_its_return(world: World) -> None:
    """Another worker takes it one lease after the last heartbeat, if another one is alive."""
    await world.begin("commands")
    await world.set(f"status = 'running', started_at = now(), worker_id = '{world.me.id}'")
    silent = "update inboxd.workers set beat_at = now() - $1::interval where id = $2"
    await world.connection.execute(silent, timedelta(seconds=20), world.me.id)
    name, sentence = await _said(world)
    assert (name, "w-1 has sent no heartbeat for 20s" in sentence) == ("lost, alone", True)
    other = await join(world.session, "other")
    name, sentence = await _said(world)
    assert name == "lost"
    (cause,) = (await world.document())["causes"]
    lease = world.settings.worker.lease
    beat_at = await world.connection.fetchval(
        "select beat_at from inboxd.workers where id = $1", world.me.id
    )
    assert datetime.fromisoformat(cause["facts"]["at"]) == beat_at + lease
    await world.connection.execute(silent, 2 * lease, world.me.id)
    assert (await _said(world))[0] == "lost, due"
    await world.connection.execute("delete from inboxd.workers where id = $1", other)


@pytest.mark.parametrize(
    "end", ["delete from inboxd.workers", "update inboxd.workers set state = 'stopped'"]
)
async def test_row_of_a_lost_worker_promises_no_return(world: World, end: str) -> None:
    """The reaper only watches workers that have a row and are alive."""
    await world.begin("commands")
    await world.set(f"status = 'running', started_at = now(), worker_id = '{world.me.id}'")
    await world.connection.execute(end)
    await join(world.session, "other")
    name, sentence = await _said(world)
    known = str(world.me.id) if end.startswith("delete") else "w-1"
    assert (name, f"worker {known} is gone" in sentence) == ("gone", True)


@pytest.mark.parametrize("ended", [True, False])
async def test_row_of_a_lost_worker_returns_by_the_documented_statement(
    world: World, shared: Database, ended: bool
) -> None:
    """The statement in docs/why.md inserts the worker again, without heartbeats."""
    await world.begin("commands")
    gone = await join(world.session, "gone")
    await world.set(f"status = 'running', started_at = now(), worker_id = '{gone}'")
    end = "update inboxd.workers set state = 'stopped'" if ended else "delete from inboxd.workers"
    await world.connection.execute(f"{end} where id = $1", gone)
    page = (Path(inboxd.__file__).parents[1] / "docs/why.md").read_text("utf-8")
    (statement,) = re.findall(r"```sql\n(.+?)```", page, re.DOTALL)
    await world.connection.execute(statement.replace("4711", str(world.id)))
    reaped = await world.connection.fetchval(
        "select heartbeat from inboxd.workers where id = $1 and state in ('running', 'draining')",
        gone,
    )
    async with daemon_pool(shared) as pool:
        returned = await workers.declare_dead(pool, gone, reaped, 3)
    assert [each["id"] for each in returned or ()] == [world.id]


@pytest.mark.parametrize("table", ["events", "commands"])
async def test_dead_letter_names_its_remedies(world: World, table: str) -> None:
    await world.begin(table)
    await world.set("status = 'failed', attempts = 3")
    name, sentence = await _said(world)
    assert (name, "(attempts: 3)" in sentence) == ("dead", True)


async def test_unique_key_of_another_command_forbids_a_replay(world: World) -> None:
    await world.begin("commands", unique_key="u")
    await world.set("status = 'failed'")
    rival = await world.write(unique_key="u")
    name, sentence = await _said(world)
    assert (name, f"command {rival} has its unique key" in sentence) == ("dead, rival", True)


async def test_cancelled_batch_forbids_a_replay(world: World) -> None:
    batch = (
        "insert into inboxd.batches (name, status, ending) values ('nightly', 'running', $1)"
        " returning id"
    )
    for ending in (None, "cancelled"):
        await world.begin("commands")
        id_ = await world.connection.fetchval(batch, ending)
        await world.set(f"status = 'failed', batch_id = {id_}")
        name, sentence = await _said(world)
        assert (name == "dead, cancelled") == (ending is not None)
        assert (f"batch {id_} was cancelled" in sentence) == (ending is not None)


@pytest.mark.parametrize("table", ["commands", "events"])
async def test_missing_partition_of_today_holds_every_row(
    world: World, shared: Database, table: str
) -> None:
    """All workers stop their claims then (`make_partitions`)."""
    await world.begin(table)
    for parent in ("events_history", "commands_history"):
        part, low = await shared.fetchval(
            "select array[part, low::text] from inboxd.partitions"
            " where parent = $1 and low <= now() and high > now()",
            parent,
        )
        await shared.execute(f"alter table inboxd.{parent} detach partition inboxd.{part}")
        try:
            name, sentence = await _said(world)
            assert name == "unpartitioned"
            assert brief(await world.document())["sentence"] == sentence
        finally:
            await shared.execute(
                f"alter table inboxd.{parent} attach partition inboxd.{part}"
                f" for values from ('{low}') to ('{low}'::timestamptz + interval '1 day')"
            )
        assert (await _said(world))[0] == "next"


async def test_disabled_endpoint_holds_its_deliveries(world: World) -> None:
    await world.connection.execute("delete from inboxd.endpoints")
    await world.begin("commands", queue="webhooks.acme", type=TYPE)
    await world.connection.execute(
        "insert into inboxd.endpoints (name, url, types, secrets, concurrency, rate, enabled,"
        " disabled_at, disabled_by, disabled_reason) values ('acme', 'https://a', '{*}',"
        """ '[{"secret": "s"}]', 3, '10/s', false, now(), 'failures', 'it answered 500')"""
    )
    name, sentence = await _said(world)
    assert name == "disabled"
    assert sentence.startswith("Its endpoint acme is disabled: by failures, since 20")
    assert sentence.endswith("(it answered 500).")
    await world.connection.execute(
        "update inboxd.endpoints set enabled = true, disabled_at = null, disabled_by = null,"
        " disabled_reason = null"
    )
    assert (await _said(world))[0] == "next"


async def test_dead_letters_of_a_batch_are_left_if_success_is_awaited(world: World) -> None:
    """A command that waits for any end does not wait for dead letters."""
    told = {}
    for condition in ("succeeded", "finished"):
        await world.begin("commands")
        await world.set("needs = 1, status = 'waiting'")
        await world.connection.execute(
            "with batch as (insert into inboxd.batches (size, succeeded, failed, closed_at, name)"
            " values (1000, 997, 1, now(), 'mails') returning batch_id)"
            " insert into inboxd.dependencies (needs, waiting, condition)"
            " select batch.batch_id, command_id, $2 from batch, inboxd.commands where id = $1",
            world.id,
            condition,
        )
        name, sentence = await _said(world)
        told[name] = sentence.partition(": ")[2]
    assert told == {
        "batch, dead": "3 of 1,000 members are left, including dead letters: 1.",
        "batch": "2 of 1,000 members are left.",
    }


async def _make_wait_for(world: World, others: int) -> None:
    """Let the row wait for `others` commands, the last of which is a dead letter."""
    await world.connection.execute(
        "with needed as (insert into inboxd.commands (queue, type, status)"
        " select 'q', 't', case when n = $2 then 'failed' else 'pending' end"
        " from generate_series(1, $2) n returning command_id), waiting as ("
        " update inboxd.commands set needs = $2, status = 'waiting' where id = $1"
        " returning command_id)"
        " insert into inboxd.dependencies (needs, waiting)"
        " select needed.command_id, waiting.command_id from needed, waiting",
        world.id,
        others,
    )


@pytest.mark.parametrize(("others", "said"), [(12, "others"), (120, "others, many")])
async def test_dead_letters_come_first_among_many_prerequisites(
    world: World, others: int, said: str
) -> None:
    """Five are named; the others are counted up to a limit."""
    await world.begin("commands")
    await _make_wait_for(world, others)
    causes = (await world.document())["causes"]
    rows = [each["facts"]["row"]["id"] for each in causes[:-1]]
    if others < COUNTED:
        dead = await world.connection.fetchval(
            "select id from inboxd.commands where status = 'failed'"
        )
        assert (rows[0], causes[0]["facts"]["status"]) == (dead, "failed")
    assert len(set(rows)) == 5
    assert causes[-1]["text"] == TEXTS[said]
    assert causes[-1]["facts"]["more"] == min(others, COUNTED) - 5


async def test_attempt_is_named_with_its_maximum(world: World) -> None:
    await world.begin("commands", max_attempts=15)
    await world.set("attempts = 3, run_at = now() + interval '40 seconds'")
    name, sentence = await _said(world)
    assert (name, "for attempt 4 of 15." in sentence) == ("again", True)
    await world.set("max_attempts = null")
    assert (await _said(world))[0] == "again", "max_attempts of the default rule"


async def test_rows_before_a_row_are_counted(world: World) -> None:
    """A place holds nothing: the claim takes the row together with those before it."""
    await world.begin("commands")
    before = [await world.write() for _ in range(2)]
    await world.set("run_at = now() + interval '1 millisecond'")
    await world.set("run_at = now() - interval '1 hour'", before[0])
    name, sentence = await _said(world)
    assert (name, "2 before it" in sentence) == ("ahead", True)
    assert await world.is_claimed()
    await world.connection.execute(
        "insert into inboxd.commands (queue, type, run_at) select $1, $2, now() - interval '1 hour'"
        " from generate_series(1, 120)",
        QUEUE,
        TYPE,
    )
    assert "100 or more before it" in (await _said(world))[1]
    await world.begin("commands", ordering_key=KEY)
    assert (await _said(world))[0] == "next in line"
    first = world.id
    world.id = await world.write(ordering_key=KEY)
    name, sentence = await _said(world)
    assert (name, f"1 before it, the first is command {first}" in sentence) == (
        "ahead in line",
        True,
    )
    assert await world.is_claimed()
    await world.begin("events", topic="lined", ordering_key=KEY)
    world.id = await world.write(topic="lined", ordering_key=KEY)
    assert (await _said(world))[0] == "ahead in bucket"
    assert await world.is_claimed()


async def test_row_behind_a_due_head_is_next(world: World) -> None:
    await world.begin("events", topic="lined", ordering_key=KEY)
    await world.set("position = 1, head = true")
    world.id = await world.write(topic="lined", ordering_key=KEY)
    await world.set("position = 2")
    assert (await _said(world))[0] == "behind, next"


@pytest.mark.parametrize(
    ("rules", "due", "said"),
    [
        ({"count": None}, "1 hour", "chunk"),
        ({"count": None, "expect": (TYPE, "u.b", "u.c")}, "1 hour", "chunk, types"),
        (
            {"count": None, "age": None, "expect": (TYPE, "u.b", "u.c")},
            "36525 days",
            "chunk, types only",
        ),
        ({"count": None, "expect": 7}, "1 hour", "chunk, or full"),
    ],
)
async def test_chunk_names_its_missing_events(
    world: World, rules: dict[str, Any], due: str, said: str
) -> None:
    topic = replace(REGISTRY.topics["chunked"], **rules)
    await topics.declare(world.session, [topic], REGISTRY.subscriptions)
    await world.begin("events", topic="chunked", ordering_key=KEY)
    await world.set(f"position = 1, head = true, run_at = created_at + interval '{due}'")
    world.id = await world.write(topic="chunked", ordering_key=KEY)
    await world.set(f"position = 2, run_at = created_at + interval '{due}'")
    name, sentence = await _said(world)
    assert (name, "has 2" in sentence) == (said, True)
    if "types" in said:
        assert "waits for u.b, u.c" in sentence
    assert not await world.is_claimed()


async def test_chunk_with_a_dead_head_is_blocked(world: World) -> None:
    await world.begin("events", topic="chunked", ordering_key=KEY)
    await world.set("position = 1, head = true")
    await world.set("status = 'failed'")
    head = world.id
    world.id = await world.write(topic="chunked", ordering_key=KEY)
    await world.set("position = 2")
    name, sentence = await _said(world)
    assert (name, f"event {head}" in sentence) == ("behind", True)
    assert not await world.is_claimed()


async def test_leased_bucket_is_not_leased_again(world: World) -> None:
    """While the lease lasts, no other worker gets the bucket; afterwards any worker may."""
    await world.begin("events", topic="lined", ordering_key=KEY)
    bucket = await world.connection.fetchval(
        "select bucket from inboxd.events where id = $1", world.id
    )
    other = await join(world.session, "other")
    had = await relays.lease(world.session, other, [("lined", bucket)], 1)
    assert (await _said(world))[0] == "leased"
    assert not await relays.lease(world.session, world.me.id, [("lined", bucket)], 1)
    await relays.free(world.session, other, had)
    assert (await _said(world))[0] == "next in bucket"
    assert await relays.lease(world.session, world.me.id, [("lined", bucket)], 1)


async def test_role_without_a_view_of_transactions_names_the_missing_right(world: World) -> None:
    """A producer holds the bucket; only some roles may see whether it began before or after."""
    await world.begin("events", topic="lined", ordering_key=KEY)
    transaction = world.other.transaction()
    await transaction.start()
    world.stack.push_async_callback(transaction.rollback)
    await world.other.connection.execute(
        "insert into inboxd.events (topic, type, ordering_key) values ('lined', $1, $2)", TYPE, KEY
    )
    assert (await _said(world))[0] == "next in bucket", "the transaction began later"
    await world.connection.execute("set role inboxd_worker")
    name, sentence = await _said(world)
    assert (name, "pg_read_all_stats" in sentence) == ("unseen", True)
    await world.connection.execute("reset role")


async def test_settled_row_has_no_cause(world: World) -> None:
    await world.begin("events")
    await world.set("status = 'failed'")
    session = world.session
    await operations.act(session, "events", "dismiss", [world.id], actor="me")
    found = await world.document()
    assert (found["sentence"], found["causes"]) == ("It has ended: dismissed.", [])
    with pytest.raises(NotFound, match="no event 99"):
        await operations.why(session, world.settings, "events", 99)


async def test_brief_answer_contains_nothing_of_others(world: World) -> None:
    """For each condition, the answer has only the row's own names, ids, reasons and numbers."""
    for row, conditions in CONDITIONS.items():
        for each in conditions:
            await begin(world, row)
            await each.come(world)
            found = brief(await world.document())
            (cause,) = found["causes"]
            assert cause["facts"] == {} or cause["cause"] == "due", each.said
            assert "ana" not in found["sentence"], each.said


async def test_brief_answer_does_not_tell_the_number_of_others(world: World) -> None:
    """The number is not in the text, and one sentence stands for all of them."""
    await world.begin("commands")
    await _make_wait_for(world, 12)
    found = brief(await world.document())
    assert found["sentence"] == "It waits for other rows."
    assert found["causes"] == [
        {"cause": "waits", "text": "It waits for other rows", "facts": {}, "reason": None}
    ]
    await world.begin("commands", priority=5)
    for _ in range(3):
        await world.write()
    found = brief(await world.document())
    assert found["sentence"] == "Other rows are claimed first. And then: Nothing holds it."


async def test_brief_sentences_about_workers_are_true(world: World) -> None:
    await world.begin("commands")
    await world.set("status = 'running', started_at = now(), worker_id = gen_random_uuid()")
    assert brief(await world.document())["sentence"] == "Its worker is gone."
    await world.set(f"worker_id = '{world.me.id}'")
    assert brief(await world.document())["sentence"] == "It runs now."
    await world.connection.execute(
        "update inboxd.workers set beat_at = now() - interval '1 minute'"
    )
    told = brief(await world.document())["sentence"]
    assert told == "Its worker has sent no heartbeat for a while."


def test_each_text_is_given_for_a_real_row() -> None:
    """In this file, in `test_waiting_turn`, or for a condition of `test_waiting`."""
    here = "".join(
        Path(__file__).with_name(name).read_text("utf-8")
        for name in (Path(__file__).name, "test_waiting_turn.py")
    )
    tried = {each.said for found in CONDITIONS.values() for each in found}
    assert {name for name in TEXTS.keys() - tried if f'"{name}"' not in here} == set()
