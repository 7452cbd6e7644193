"""Streamed chunks: halved, deferred, paused, behind a pooler, as chunks in memory are.

A chunk is streamed if its events or its bytes are too many; here a dozen events are large.
"""

import asyncio
import json
import signal
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from inboxd import operations
from inboxd.daemon import worker as worker_inside
from inboxd.events.settling import EventSettling
from inboxd.model.outcome import Unsuccessful
from inboxd.settings import Settings
from inboxd_testplugin.chunked import TABLES
from tests.daemon.chunked import chunks, failed, lined_up
from tests.daemon.inbox import Inbox
from tests.support import Config, StartWorker, Worker, eventually, looked_again
from tests.support.locks import lock_awaited
from tests.support.pooler import pgbouncer
from tests.support.rows import daemon_session

pytestmark = [pytest.mark.anyio, pytest.mark.usefixtures("chunk_tables")]

STREAMED: Config = {"events": {"page_bytes": 20_000, "page_rows": 100, "chunk_timeout": "60s"}}
FAT = [{"pad": "x" * 2_000}] * 12


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """Settings under which a dozen large payloads exceed the memory of a chunk."""
    return STREAMED


async def a_day(
    inbox: Inbox, key: str, payloads: Sequence[dict[str, Any]], days_ago: int = 2
) -> list[int]:
    """Insert events of a past day, whose chunk is due; return their ids."""
    noon = datetime.now(ZoneInfo("Europe/Berlin")).replace(hour=12) - timedelta(days=days_ago)
    rows = await inbox.database.fetch(
        "insert into inboxd.events (topic, mode, type, ordering_key, bucket, status, payload,"
        " created_at, run_at)"
        " select 'daily', 'batch', 'chunked.daily', $1, inboxd.bucket_of('daily', $1), 'waiting',"
        " p::jsonb, $3, $3 from unnest($2::text[]) with ordinality as t(p, n) order by n"
        " returning id",
        key,
        [json.dumps(each) for each in payloads],
        noon,
    )
    await inbox.database.execute("notify inboxd_events")
    return [row["id"] for row in rows]


async def assert_chunk_is_halved(inbox: Inbox) -> None:
    """One event of 2,500 fails its half; two of the other half are rejected and retried alone."""
    payloads: list[dict[str, Any]] = [*FAT, *({"n": n, "sends": n % 100 == 0} for n in range(2488))]
    payloads[100]["rejected"] = payloads[200]["again"] = payloads[1700]["poison"] = True
    ids = await a_day(inbox, "halved", payloads)
    good = [id_ for n, id_ in enumerate(ids) if n not in (100, 1700)]
    await inbox.succeeded("event", *good)
    assert "not this one" in (await failed(inbox, ids[100]))["errors"]
    dead = await failed(inbox, ids[1700])
    assert (dead["attempts"], "poison" in dead["errors"]) == (3, True)
    found = await chunks(inbox, "daily", "halved", 2)
    assert found[0]["ids"] == ids[:1250], "a half is streamed too"
    (again,) = [each["ids"] for each in found if each["attempt"] == 2]
    assert again == [ids[200]]
    done = [id_ for each in found if each["attempt"] == 1 for id_ in each["ids"]]
    assert sorted(done) == sorted(set(ids) - {ids[1700]}), "each event is in one committed chunk"
    sent = await inbox.database.fetchval(
        "select count(*) from (select origin_id from inboxd.commands union all "
        "select origin_id from inboxd.commands_history) c where origin_id = any($1)",
        ids,
    )
    assert sent == sum(bool(each.get("sends")) for each in payloads), (
        "a rolled back part sent commands"
    )


async def test_a_handler_reads_one_portion_at_a_time(inbox: Inbox) -> None:
    """A portion has at most the rows and the bytes of a page."""
    payloads = [{"key": "portions", **each} for each in [*FAT, *[{}] * 238]]
    ids = await inbox.write_many("event", "chunked.portioned", payloads)
    await inbox.succeeded("event", *ids)
    found = [(first, size) for kind, first, size in await inbox.notes(*ids) if kind == "portion"]
    assert found == [(ids[0], "9"), (ids[9], "91"), (ids[100], "100"), (ids[200], "50")]


async def test_a_topic_may_set_the_size_of_its_portions(inbox: Inbox) -> None:
    payloads = [{"key": "apportioned", **each} for each in [*FAT, *[{}] * 238]]
    ids = await inbox.write_many("event", "chunked.apportioned", payloads)
    await inbox.succeeded("event", *ids)
    found = [size for kind, _, size in await inbox.notes(*ids) if kind == "portion"]
    assert found == ["9", "71", "80", "80", "10"]


async def test_halves_with_too_many_bytes_are_streamed_too(inbox: Inbox) -> None:
    payloads: list[dict[str, Any]] = [{"key": "weighty", **FAT[0]} for _ in range(250)]
    payloads[150]["poison"] = True
    ids = await inbox.write_many("event", "chunked.portioned", payloads)
    await inbox.succeeded("event", *ids[:150], *ids[151:])
    await failed(inbox, ids[150])
    found = [int(size) for kind, _, size in await inbox.notes(*ids) if kind == "portion"]
    assert (sum(found), max(found)) == (249, 9)


async def test_events_that_the_handler_does_not_read_are_decoded_too(inbox: Inbox) -> None:
    """An event that cannot be decoded has not succeeded."""
    payloads = [{"key": "skimmed", **each} for each in [*FAT, *[{}] * 7, {"n": "many"}]]
    ids = await inbox.write_many("event", "chunked.skimmed", payloads)
    (found,) = await chunks(inbox, "skimmed", "skimmed", 1)
    assert found["size"] == 20
    await inbox.succeeded("event", *ids[:-1])
    assert "PayloadError" in (await failed(inbox, ids[-1]))["errors"]


async def test_a_handlers_session_settings_end_before_the_rest_is_read(
    inbox: Inbox,
) -> None:
    ids = await inbox.write_many("event", "chunked.skimmed", [{"key": "humble", **FAT[0]}] * 20)
    await inbox.succeeded("event", *ids)
    (found,) = await chunks(inbox, "skimmed", "humble", 1)
    assert found["size"] == 20


async def test_a_streamed_chunk_beyond_its_time_limit_is_split(inbox: Inbox) -> None:
    """Its second part was full before, so that part does not wait for more events."""
    payloads = [{"key": "paced", "wait": 0.03, **each} for each in [*FAT, *[{}] * 8]]
    ids = await inbox.write_many("event", "chunked.paced", payloads)
    await inbox.succeeded("event", *ids)
    found = await chunks(inbox, "paced", "paced", 2)
    assert [id_ for each in found for id_ in each["ids"]] == ids


async def test_a_rejection_of_the_first_event_stands_if_all_others_fail(
    inbox: Inbox, worker: Worker
) -> None:
    large = FAT[0]
    payloads = [{"refused": True, **large}, *[{"broken": True, **large}] * 12]
    payloads += [{"broken": True}] * 1_200
    ids = await a_day(inbox, "told", payloads)
    refused = await failed(inbox, ids[0])
    assert (refused["attempts"], refused["position"]) == (1, None)
    await inbox.database.execute("insert into ledger values ('mended', 0, 'told')")
    await inbox.succeeded("event", *ids[1:])
    refused = await failed(inbox, ids[0])
    assert refused["attempts"] == 1
    found = await chunks(inbox, "daily", "told", 1)
    assert max(each["size"] for each in found) > 1_000, "the chunk stayed whole"


async def test_the_newer_half_is_deferred_after_the_older_one(inbox: Inbox) -> None:
    payloads: list[dict[str, Any]] = [*FAT, *({"sends": n % 100 == 0} for n in range(2988))]
    payloads[20] = {"poison": True}
    payloads[2900] = {"deferred": True, "after": "1h"}
    ids = await a_day(inbox, "half", payloads)
    await inbox.succeeded("event", *ids[:20], *ids[21:1500])
    rest = await lined_up(inbox, "daily", "half", 1_500)
    assert rest[0]["id"] == ids[1500]
    assert rest[0]["run_at"] - rest[0]["updated_at"] > timedelta(minutes=59)


async def test_a_type_far_behind_in_a_chunk_is_not_missing(inbox: Inbox) -> None:
    """A set is looked for among the first 1,000 events; later ones belong to the chunk too."""
    left = await inbox.write_many("event", "chunked.left", [{"key": "far"}] * 5_001)
    (right,) = await inbox.write_many("event", "chunked.right", [{"key": "far"}])
    (found,) = await chunks(inbox, "paired", "far", 1)
    assert (found["ids"], found["missing"], found["short"]) == ([*left, right], [], 0)


async def test_halves_send_from_their_own_first_events(inbox: Inbox) -> None:
    payloads: list[dict[str, Any]] = [*FAT, *[{}] * 2_988]
    payloads[20], payloads[2_000] = {"poison": True}, {"sends": 1}
    ids = await a_day(inbox, "origin", payloads)
    await inbox.succeeded("event", *ids[:20], *ids[21:])
    assert await inbox.children("event", ids[0]) == []
    assert len(await inbox.children("event", ids[1_500])) == 1


async def test_an_unreadable_event_is_logged_once(inbox: Inbox, worker: Worker) -> None:
    """Both the whole chunk and the half to which the event belongs decode it."""
    payloads: list[dict[str, Any]] = [*FAT, *[{}] * 2_988]
    payloads[2_000], payloads[2_500] = {"n": "many"}, {"refused": True}
    ids = await a_day(inbox, "once", payloads)
    for n in (2_000, 2_500):
        dead = await failed(inbox, ids[n])
        told = [line for line in worker.output().splitlines() if str(dead["event_id"]) in line]
        assert (len(told), dead["attempts"]) == (1, 1)


async def test_many_outcomes_of_single_events_do_not_block_the_loop(
    own: Inbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counts the refused events per iteration of the event loop, with a worker in this loop."""
    loop, in_turns, fail = asyncio.get_running_loop(), [0], EventSettling.fail

    def counted(settling: EventSettling, *given: Any) -> Unsuccessful:
        if not in_turns[-1]:  # the first one of this iteration
            loop.call_soon(in_turns.append, 0)
        in_turns[-1] += 1
        return fail(settling, *given)

    monkeypatch.setattr(EventSettling, "fail", counted)
    await own.database.execute(TABLES)
    config = {**STREAMED, "worker": {"plugins": ["testplugin"]}}
    config["database"] = {"dsn": own.database.dsn}
    async with worker_inside(Settings.model_validate(config)):
        ids = await a_day(own, "refused", [{"rejected": True}] * 8_000)
        dead = "select count(*) from inboxd.events where status = 'failed'"

        async def all_are() -> bool:
            return bool(await own.database.fetchval(dead) == len(ids))

        await eventually(all_are, within=90)
    assert sum(in_turns) == len(ids)
    assert max(in_turns) <= 1_000


@pytest.mark.parametrize("alike", [True, False])
async def test_sent_commands_have_the_tenant_and_story_of_the_events(
    inbox: Inbox, alike: bool
) -> None:
    payloads = [{"key": f"alike {alike}", "sends": 1, **FAT[0]} for _ in range(99)]
    columns = {"tenant": "a tenant", "correlation_id": "a story"}
    ids = await inbox.write_many("event", "chunked.hundreds", payloads, **columns)
    columns = columns if alike else {"tenant": "another", "correlation_id": "another"}
    ids += await inbox.write_many("event", "chunked.hundreds", payloads[:1], **columns)
    await inbox.succeeded("event", *ids)
    sent = await inbox.children("event", ids[0])
    assert len(sent) == 100
    tenants, stories = ({row[name] for row in sent} for name in ("tenant", "correlation_id"))
    assert tenants == ({"a tenant"} if alike else {None})
    assert (stories == {"a story"}) is alike
    assert len(stories) == 1


async def test_portions_follow_a_reload(own: Inbox, start_worker: StartWorker) -> None:
    await own.database.execute(TABLES)
    worker = await start_worker({"events": {"page_bytes": 100_000, "page_rows": 100}})
    settings = worker.log.with_suffix(".toml")
    before = '"page_bytes" = 100000, "page_rows" = 100'
    after = '"page_bytes" = 20000, "page_rows" = 120'
    assert before in settings.read_text()
    settings.write_text(settings.read_text().replace(before, after))
    worker.process.send_signal(signal.SIGHUP)
    await worker.logged("settings are reloaded")
    payloads = [{"key": "portions", **each} for each in [*FAT, *[{}] * 238]]
    ids = await own.write_many("event", "chunked.portioned", payloads)
    await own.succeeded("event", *ids)
    found = [size for kind, _, size in await own.notes(*ids) if kind == "portion"]
    assert found == ["9", "111", "120", "10"]


async def test_a_streamed_chunk_is_halved_when_one_event_fails_it(inbox: Inbox) -> None:
    await assert_chunk_is_halved(inbox)


async def test_a_streamed_chunk_is_halved_behind_a_pooler(own: Inbox, tmp_path: Path) -> None:
    """A chunk's portions are read in one transaction, so in one session."""
    await own.database.execute(TABLES)
    with pgbouncer(own.database.dsn) as way:
        worker = Worker(tmp_path, way.dsn, way.over(STREAMED))
        try:
            await worker.ready()
            await assert_chunk_is_halved(own)
        finally:
            worker.kill()


async def test_a_streamed_chunk_is_deferred_as_a_whole(inbox: Inbox) -> None:
    """The handler defers in the middle: its work is rolled back, and no attempt is spent."""
    payloads: list[dict[str, Any]] = [
        *FAT,
        *[{}] * 200,
        {"deferred": True, "after": "200ms"},
        *[{}] * 50,
    ]
    ids = await a_day(inbox, "deferred", payloads)
    head = "select run_at from inboxd.events where id = $1"
    began = await inbox.database.fetchval(head, ids[0])

    async def put_off() -> bool:
        return bool(await inbox.database.fetchval(head, ids[0]) > began)

    await eventually(put_off)
    assert len(await lined_up(inbox, "daily", "deferred", len(ids))) == len(ids)
    noted = "select count(*) from chunks where key = 'deferred'"
    assert await inbox.database.fetchval(noted) == 0
    await inbox.database.execute("insert into ledger values ('told')")
    await inbox.succeeded("event", *ids)
    (found,) = await chunks(inbox, "daily", "deferred", 1)
    assert (found["ids"], found["attempt"]) == (ids, 1)


async def test_a_streamed_chunk_ends_when_its_topic_is_paused_and_the_next_one_waits(
    inbox: Inbox, worker: Worker
) -> None:
    async with daemon_session(inbox.database) as session:
        async with inbox.database.connect() as other, other.transaction():
            await other.execute("lock table chunks in exclusive mode")
            first = await a_day(inbox, "paused", [*FAT, *[{}] * 200], days_ago=3)
            await lock_awaited(inbox.database, query="insert into chunks%")
            second = await a_day(inbox, "paused", [*FAT, *[{}] * 200])
            await operations.pause(session, "topic", "daily", actor="test")

            async def heard() -> bool:
                return await worker.metric('inboxd_paused{kind="topic"}') == 1

            await eventually(heard)
        await inbox.succeeded("event", *first)
        await looked_again(inbox.database, "event", worker)
        (found,) = await chunks(inbox, "daily", "paused", 1)
        assert found["ids"] == first
        left = await inbox.database.fetch(
            "select id from inboxd.events where ordering_key = 'paused' order by id"
        )
        assert [row["id"] for row in left] == second
        await operations.resume(session, "topic", "daily", actor="test")
    await inbox.succeeded("event", *second)
    assert [each["ids"] for each in await chunks(inbox, "daily", "paused", 2)] == [first, second]
