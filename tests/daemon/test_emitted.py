"""Events that handlers emit, with a whole worker: they commit and roll back with the handler.

The worker polls once an hour, so a wake-up has started whatever it handles.
"""

import json
from typing import Any, Literal
from uuid import uuid4

import asyncpg
import pytest

from inboxd import operations
from tests.daemon.inbox import Inbox, errors_of
from tests.support import Config, StartWorker, eventually
from tests.support.endpoints import add, deliveries
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
TOPICS = ("told-one", "told-two")


@pytest.fixture(scope="module")
def worker_config() -> Config:
    return {"worker": {"poll_interval": "1h"}}


async def emitted(
    inbox: Inbox, kind: str, row_id: int, count: int, type_: str = "emitted.told"
) -> list[asyncpg.Record]:
    """Wait for `count` settled events that a row's handler emitted; return them."""

    async def find() -> list[asyncpg.Record]:
        found = await inbox.database.fetch(
            "select * from inboxd.events_history where type = $1 and origin_kind = $2"
            " and origin_id = $3 and status = 'succeeded' order by id",
            type_,
            kind,
            row_id,
        )
        return found if len(found) >= count else []

    found = await eventually(find)
    assert len(found) == count
    return found


async def all_emitted(inbox: Inbox, row_id: int) -> int:
    """The number of events that a row's handler emitted, settled or not."""
    count: int = await inbox.database.fetchval(
        "select (select count(*) from inboxd.events where origin_id = $1)"
        " + (select count(*) from inboxd.events_history where origin_id = $1)",
        row_id,
    )
    return count


async def test_an_emitted_event_continues_the_story(inbox: Inbox) -> None:
    """Event, event in two topics, command, event: the lineage is set without the handlers' help."""
    key = uuid4()
    first = await inbox.write(
        "event",
        "emitting.event",
        {"goes_on": True},
        event_id=key,
        traceparent=TRACE,
        tenant="acme",
    )
    told = await emitted(inbox, "event", first, 2)
    assert [row["topic"] for row in told] == list(TOPICS)
    assert len({row["event_id"] for row in told}) == 1
    (sent,) = await eventually(lambda: inbox.children("event", told[1]["id"]))
    below = await emitted(inbox, "command", sent["id"], 2)
    for row, cause in ((told[0], key), (sent, told[1]["event_id"]), (below[0], None)):
        assert row["correlation_id"] == str(key)
        assert row["traceparent"] == TRACE
        assert row["tenant"] == "acme"
        assert cause in (None, row["causation_id"])
    async with daemon_session(inbox.database) as session:
        found = await operations.trace(session, below[1]["id"], kind="event", rows=50)
    kinds = {node.member.key: (node.member.type, node.member.lane) for node in found.top.walk()}
    assert found.top.member.uuid == key
    assert kinds["event", below[1]["id"]] == ("emitted.told", "told-two")
    assert kinds["command", sent["id"]] == ("emitting.command", "default")


@pytest.mark.parametrize("uses", [False, True])
@pytest.mark.parametrize(
    "type_", ["emitting.event", "emitting.thread", "emitting.command", "emitting.command_in_thread"]
)
async def test_a_failed_attempt_emits_nothing(inbox: Inbox, type_: str, uses: bool) -> None:
    kind: Any = "command" if "command" in type_ else "event"
    row_id = await inbox.write(kind, type_, {"ends": "at attempt 2", "count": 3, "uses": uses})
    row = await inbox.settled(kind, row_id)
    assert row["attempts"] == 2
    found = await emitted(inbox, kind, row_id, 6)
    assert [json.loads(each["payload"])["n"] for each in found if each["topic"] == "told-one"] == [
        *range(3)
    ]
    notes = await inbox.notes(*(each["id"] for each in found))
    assert sorted(note for _, _, note in notes) == ["0", "0", "1", "1", "2", "2"]


@pytest.mark.parametrize("uses", [False, True])
@pytest.mark.parametrize("kind", ["event", "command"])
async def test_an_emitted_event_that_the_database_refuses_fails_its_handler(
    inbox: Inbox, kind: Any, uses: bool
) -> None:
    """Other rows of the page are settled, and the events that they emitted are there."""
    type_ = f"emitting.{kind}"
    ids = await inbox.write_many(
        kind, type_, [{"uses": uses}, {"ends": "refused", "uses": uses}, {"uses": uses}]
    )
    dead = await inbox.dead(kind, ids[1])
    words = "an event of the topic 'passing' has the mode single, but the topic is declared as"
    assert [words in error["error"] for error in errors_of(dead)] == [True] * 3
    for good in (ids[0], ids[2]):
        await emitted(inbox, kind, good, 2)
    assert await all_emitted(inbox, ids[1]) == 0


async def test_a_dedup_key_is_written_once_and_a_contradiction_is_kept(inbox: Inbox) -> None:
    key = str(uuid4())
    options = {"dedup_key": key, "topic": "told-one"}
    first = await inbox.write("event", "emitting.event", {"options": options})
    (told,) = await emitted(inbox, "event", first, 1)
    again, other = await inbox.write_many(
        "event", "emitting.event", [{"options": options}, {"options": options, "n": 7}]
    )
    await inbox.succeeded("event", again, other)
    assert await all_emitted(inbox, again) == 0

    async def contradiction() -> list[asyncpg.Record]:
        return await inbox.database.fetch(
            "select * from inboxd.events where origin_id = $1 and status = 'failed'", other
        )

    (dead,) = await eventually(contradiction)
    assert f"belongs to event {told['event_id']}" in errors_of(dead)[0]["error"]
    await inbox.database.execute("delete from inboxd.events where id = $1", dead["id"])


async def test_a_held_dedup_key_delays_only_the_row_that_emitted_it(
    own: Inbox, start_worker: StartWorker
) -> None:
    """A producer's transaction holds the key for longer than a statement waits for a lock."""
    await start_worker({"worker": {"poll_interval": "1h"}, "database": {"lock_timeout": "1s"}})
    cases: list[tuple[Any, str, dict[str, Any]]] = [
        ("command", "emitting.command", {}),
        ("command", "emitting.command", {"uses": True}),
        ("event", "emitting.event", {}),
        ("event", "emitting.chunked", {}),
    ]
    for kind, type_, more in cases:
        key = str(uuid4())
        late = more | {"options": {"dedup_key": key, "topic": "told-one"}}
        # Some rows emit too, some do not: neither waits until the key is free.
        payloads = [{"count": 0}, {}, late, {"count": 0}, {}]
        async with own.database.connect() as producer:
            held = producer.transaction()
            await held.start()
            await producer.execute(
                "select inboxd.emit_event('emitted.told', '{\"n\": 9}', topic => 'told-one',"
                " dedup_key => $1)",
                key,
            )
            if type_ == "emitting.chunked":
                ids = await own.write_many(kind, type_, [late, {}, {}])
                bad, others = ids[0], [await own.write(kind, "emitting.event", {})]
            else:
                ids = await own.write_many(kind, type_, payloads)
                bad, others = ids[2], [*ids[:2], *ids[3:]]
            await own.succeeded(kind, *others)
            (error,) = (await own.errors(kind, bad))[:1]
            assert error["error"].startswith("DedupKeyHeld: an event that the handler"), error
            await held.rollback()
        await own.succeeded(kind, *ids)
        # The chunk is not split: all its events come from its first event.
        told = await emitted(own, kind, bad, 5 if type_ == "emitting.chunked" else 1)
        assert told[0]["topic"] == "told-one"


async def test_a_chunk_emits_once_for_each_part_that_succeeds(inbox: Inbox) -> None:
    """The part that fails is halved; the events that it emitted before are rolled back."""
    ids = await inbox.write_many(
        "event", "emitting.chunked", [{"n": 1}, {"ends": "at attempt 2", "n": 2}, {"n": 3}]
    )
    await inbox.succeeded("event", *ids)

    async def told() -> list[int]:
        rows = await inbox.database.fetch(
            "select (payload ->> 'n')::int as n from inboxd.events_history"
            " where origin_kind = 'event' and origin_id = any ($1) and topic = 'told-one'",
            ids,
        )
        return sorted(row["n"] for row in rows)

    async def all_told() -> bool:
        return len(await told()) == 3

    await eventually(all_told)
    assert await told() == [1, 2, 3]


async def test_lines_that_emit_into_each_others_buckets_do_not_wait(
    own: Inbox, start_worker: StartWorker
) -> None:
    """Two workers, each of them a producer of events that the other one handles, in order."""
    for _ in range(2):
        await start_worker({"worker": {"poll_interval": "1h"}, "events": {"page_rows": 20}})
    pairs = [(f"a{n}", f"b{n}") for n in range(30)]
    started = [{"key": one, "to": other, "left": 20} for one, other in pairs]
    await own.write_many("event", "emitting.passed", started)

    async def done() -> bool:
        settled = await own.database.fetchval(
            "select count(*) from inboxd.events_history where type = 'emitting.passed'"
        )
        return bool(settled == 30 * 21)

    await eventually(done, 60)
    failed = await own.database.fetchval(
        "select count(*) from inboxd.events_history where attempts > 1"
    )
    assert failed == 0
    rows = await own.database.fetch("select kind, note::int as left from ledger order by row_id")
    for one, other in pairs:
        turns = [row["left"] for row in rows if row["kind"] in (one, other)]
        assert turns == list(range(20, -1, -1))


async def test_a_worker_that_dies_has_emitted_nothing(
    own: Inbox, start_worker: StartWorker
) -> None:
    """It emits nothing for the event that killed it, and nothing for earlier events of the page."""
    good, bad = await own.write_many("event", "emitting.event", [{}, {"ends": "killed"}])
    worker = await start_worker(ready=False)
    await worker.wait()
    for row_id in (good, bad):
        assert await own.hot("event", row_id)
        assert await all_emitted(own, row_id) == 0


@pytest.mark.parametrize("kind", ["event", "command"])
@pytest.mark.parametrize("uses", [False, True])
async def test_a_webhook_commits_with_the_handler(
    inbox: Inbox, kind: Literal["event", "command"], uses: bool
) -> None:
    """The delivery has the handler's lineage; a failed attempt sends nothing."""
    type_ = f"{kind}.{uses}"
    await add(inbox.database, type_, type_)
    payload = {"webhook": type_, "n": 3, "uses": uses, "ends": "at attempt 2"}
    row_id = await inbox.write(
        kind, f"emitting.{kind}", {"count": 0, **payload}, tenant="acme", traceparent=TRACE
    )

    async def sent() -> list[dict[str, Any]]:
        found = await deliveries(inbox.database)
        return [row for row in found if row["queue"] == f"webhooks.{type_}"]

    (row,) = await eventually(sent)
    assert (row["origin_kind"], row["origin_id"], row["tenant"]) == (kind, row_id, "acme")
    assert row["traceparent"].split("-")[1] == TRACE.split("-")[1]
    assert (row["payload"]["type"], row["payload"]["data"]) == (type_, {"n": 3})
    (settled,) = await inbox.database.fetch(
        f"select attempts from inboxd.{kind}s_history where id = $1", row_id
    )
    assert settled["attempts"] == 2
