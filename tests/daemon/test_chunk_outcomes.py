"""Batch mode: outcomes of a chunk's events when some fail, are refused or deferred."""

from typing import Any

import pytest

from tests.daemon.chunked import chunks, emit, failed, lined_up
from tests.daemon.inbox import Inbox
from tests.support import eventually

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("chunk_tables")]


async def test_single_events_are_rejected_or_retried(inbox: Inbox) -> None:
    payloads = [{}, {"rejected": True}, {}, {"again": True}, {}]
    ids = await emit(inbox, "counted", "outcomes", payloads)
    whole, alone = await chunks(inbox, "counted", "outcomes", 2)
    assert (whole["ids"], whole["size"]) == (ids, 5)
    assert (alone["ids"], alone["size"], alone["attempt"]) == (ids[3:4], 1, 2)
    await inbox.succeeded("event", *ids[:1], *ids[2:])
    dead = await inbox.hot("event", ids[1])
    assert dead is not None
    assert (dead["status"], dead["position"], dead["head"]) == ("failed", None, False)
    assert "not this one" in dead["errors"]


async def test_an_unreadable_event_is_a_dead_letter_of_its_own(inbox: Inbox) -> None:
    ids = await emit(inbox, "counted", "unreadable", [{}, {"n": "many"}, {}, {}, {}])
    (found,) = await chunks(inbox, "counted", "unreadable", 1)
    assert (found["ids"], found["size"]) == ([ids[0], *ids[2:]], 4)
    dead = await inbox.hot("event", ids[1])
    assert dead is not None
    assert dead["status"] == "failed"


async def test_a_type_without_a_chunk_handler_joins_no_chunk(inbox: Inbox) -> None:
    """The event does not wait for a chunk: if no worker handles its type, it is a dead letter."""
    odd = await inbox.write("event", "chunked.odd", {"key": "odd"}, topic="counted")

    async def turned_away() -> bool:
        left = await inbox.hot("event", odd)
        return left is not None and left["status"] == "pending"

    await eventually(turned_away)
    odd = await inbox.write("event", "chunked.odd", {"key": "odd"}, topic="counted")
    ids = await emit(inbox, "counted", "odd", [{}] * 5)
    (found,) = await chunks(inbox, "counted", "odd", 1)
    assert found["ids"] == ids
    await eventually(turned_away)


async def test_a_type_that_another_worker_handles_waits_for_its_chunk(inbox: Inbox) -> None:
    """The other worker has a newer release of the plugin."""
    await inbox.database.execute(
        "insert into inboxd.workers (id, name, host, pid, version, events, commands, queues,"
        " declares, subscriptions)"
        " values (gen_random_uuid(), 'newer', 'h', 1, '2', '{}', '{}', '{}', '',"
        " array['old' || chr(10) || 'chunked.odd'])"
    )
    odd = await inbox.write("event", "chunked.odd", {"key": "newer"}, topic="old")
    ids = await emit(inbox, "old", "newer", [{}])
    assert [row["id"] for row in await lined_up(inbox, "old", "newer", 2)] == [odd, *ids]


async def test_poison_is_found_among_a_hundred(inbox: Inbox) -> None:
    payloads: list[dict[str, Any]] = [{"n": n, "sends": 1} for n in range(100)]
    payloads[57]["poison"] = True
    ids = await emit(inbox, "hundreds", "poison", payloads)
    await inbox.succeeded("event", *ids[:57], *ids[58:])
    dead = await failed(inbox, ids[57])
    assert dead["attempts"] == 3
    found = await chunks(inbox, "hundreds", "poison", 1)
    done = [id_ for each in found for id_ in each["ids"]]
    assert sorted(done) == sorted([*ids[:57], *ids[58:]])
    assert all(each["ids"] == sorted(each["ids"]) for each in found)
    # Commands that a failed part sent were not written.
    sent = await inbox.database.fetch(
        "select count(*) from (select origin_id from inboxd.commands union all "
        "select origin_id from inboxd.commands_history) c where origin_id = any($1)",
        ids,
    )
    assert sent[0][0] == 99


async def test_a_chunk_that_always_fails_is_retried_as_a_whole(inbox: Inbox) -> None:
    ids = await emit(inbox, "hopeless", "all", [{}] * 50)
    dead = [await failed(inbox, id_) for id_ in ids]
    assert {each["attempts"] for each in dead} <= {1, 3}
    assert dead[0]["attempts"] == 3
    assert "no chunk of" in dead[0]["errors"]
    assert all(each["position"] is None and not each["head"] for each in dead)


async def test_a_chunk_that_must_not_be_split_fails_as_a_whole(inbox: Inbox) -> None:
    ids = await inbox.write_many("event", "chunked.whole", [{}, {}, {"poison": True}, {}])
    for id_ in ids:
        assert (await failed(inbox, id_))["position"] is None
    assert await inbox.database.fetch("select from chunks where topic = 'whole'") == []


async def test_a_chunk_is_deferred_as_a_whole(inbox: Inbox) -> None:
    ids = await emit(inbox, "counted", "deferred", [{}] * 4 + [{"again": True}])
    assert (await chunks(inbox, "counted", "deferred", 2))[1]["ids"] == ids[4:]


async def test_new_events_do_not_make_a_deferred_chunk_due(inbox: Inbox) -> None:
    """Its handler has set the time, whether the chunk is full or not."""
    item = {"deferred": True, "after": "10m"}
    ids = await emit(inbox, "counted", "patient", [item, {}, {}, {}, {}])

    await lined_up(inbox, "counted", "patient", 5)
    await eventually(
        lambda: inbox.database.fetchval(
            "select run_at < now() + interval '11 min' from inboxd.events where id = $1", ids[0]
        )
    )
    before = await inbox.hot("event", ids[0])
    await emit(inbox, "counted", "patient", [{}])
    await lined_up(inbox, "counted", "patient", 6)
    after = await inbox.hot("event", ids[0])
    assert before is not None
    assert after is not None
    assert after["run_at"] == before["run_at"]


async def test_a_full_chunk_behind_a_dead_one_runs(inbox: Inbox) -> None:
    """It is full already, and no further event arrives to trigger it."""
    payloads = [{"poison": True}] * 4 + [{}] * 5
    ids = await inbox.write_many("event", "chunked.whole", payloads, ordering_key="behind")
    for id_ in ids[:4]:
        await failed(inbox, id_)
    assert (await chunks(inbox, "whole", "behind", 1))[0]["ids"] == ids[4:8]


async def test_a_chunk_beyond_its_time_limit_is_split(inbox: Inbox) -> None:
    ids = await inbox.write_many("event", "chunked.slow", [{}, {}, {"wait": 5}, {}])
    await inbox.succeeded("event", ids[0], ids[1])
    dead = await failed(inbox, ids[2])
    assert "HandlerTimeout" in dead["errors"]
    await inbox.succeeded("event", ids[3])


async def test_a_chunk_that_spoils_its_commit_costs_the_others_nothing(inbox: Inbox) -> None:
    payloads: list[dict[str, Any]] = [{"n": n} for n in range(5)]
    payloads[2]["spoils"] = True
    ids = await emit(inbox, "counted", "spoils", payloads)
    other = await emit(inbox, "counted", "unspoilt", [{}] * 5)
    assert (await chunks(inbox, "counted", "unspoilt", 1))[0]["ids"] == other
    await inbox.succeeded("event", ids[0], ids[1], ids[3], ids[4])
    await failed(inbox, ids[2])


async def test_a_chunk_whose_events_all_fail_stays_whole(inbox: Inbox) -> None:
    """If all of its events fail, no single event is to blame: it is an outage."""
    ids = await emit(inbox, "patient", "outage", [{"broken": True}] * 5)

    async def failed_once() -> bool:
        return bool(
            await inbox.database.fetchval(
                "select attempts from inboxd.events where id = $1", ids[0]
            )
        )

    await eventually(failed_once)
    await inbox.database.execute("insert into ledger (kind, note) values ('mended', 'outage')")
    assert [each["ids"] for each in await chunks(inbox, "patient", "outage", 1)] == [ids]
    await inbox.succeeded("event", *ids)


async def test_a_rejection_of_one_event_does_not_affect_the_others(inbox: Inbox) -> None:
    """All events fail; one of them is rejected for good, the others have retries."""
    payloads: list[dict[str, Any]] = [{"broken": True}] * 4 + [{"refused": True}]
    ids = await emit(inbox, "patient", "verdict", payloads)
    dead = await failed(inbox, ids[4])
    assert dead["attempts"] == 1
    await inbox.database.execute("insert into ledger (kind, note) values ('mended', 'verdict')")
    await inbox.succeeded("event", *ids[:4])


async def test_events_of_a_former_sequential_topic_join_its_chunks(inbox: Inbox) -> None:
    """So do an event of a type without a chunk handler, and one that failed alone."""
    written = (
        "insert into inboxd.events (topic, mode, type, ordering_key, bucket, status, payload)"
        " values ('daily', 'sequential', $1, 'was', inboxd.bucket_of('daily', 'was'), 'waiting',"
        " '{}')"
        " returning id"
    )
    [[strange]] = await inbox.database.fetch(written, "chunked.odd")
    [[own]] = await inbox.database.fetch(written, "chunked.daily")
    await inbox.database.fetch("select pg_notify('inboxd_events', '')")
    (waiting,) = await lined_up(inbox, "daily", "was", 1)
    assert (waiting["id"], waiting["mode"]) == (own, "batch")

    async def turned_away() -> bool:
        left = await inbox.hot("event", strange)
        return left is not None and (left["mode"], left["status"]) == ("batch", "pending")

    await eventually(turned_away)


async def test_no_part_of_a_failed_set_runs(inbox: Inbox) -> None:
    """The same for a set that is complete by its count: a handler would take a part for all."""
    for topic, types in (
        ("three", ["chunked.three"] * 3),
        ("paired", ["chunked.left", "chunked.right"]),
    ):
        ids = []
        for n, type_ in enumerate(types):
            ids += await emit(inbox, topic, "fails", [{"poison": n == 1}], type_)
        for id_ in ids:
            await failed(inbox, id_)
        run = "select count(*) from chunks where topic = $1 and key = 'fails'"
        assert await inbox.database.fetchval(run, topic) == 0
