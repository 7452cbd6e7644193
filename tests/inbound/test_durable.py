"""Requests that are answered 2xx are in PostgreSQL, whatever fails."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import asyncpg
import orjson
import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as profile
from hypothesis import strategies as st

from inboxd.inbound.page_writer import page_writer
from inboxd.settings import Database as DatabaseSettings
from inboxd.store.pools import open_pool
from inboxd.telemetry.logs import collected
from tests.inbound.calls import KEYS, PROVIDER, RESULT, Answered, Received, receiving
from tests.support import Database, eventually
from tests.support.proxy import proxy as proxied
from tests.support.rows import settings_of
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def _receiving(
    database: DatabaseSettings,
    sources: Mapping[str, Any] | None = None,
    *,
    within: float = 5.0,
    connections: int = 2,
    **commit: Any,
) -> AsyncIterator[Received]:
    async with open_pool(database, "receiver", connections) as pool:
        write = page_writer(pool, within)
        commit = {"writers": connections, "within": within, **commit}
        async with receiving(sources, write=write, **commit) as received:
            yield received


def _result(number: int) -> bytes:
    return orjson.dumps(
        {"matchExternalId": f"m-{number % 7}", "providerEventId": f"e-{number}", "homeScore": 2}
    )


async def _rows(database: Database) -> dict[str, asyncpg.Record]:
    rows = await database.fetch("SELECT * FROM inboxd.receipts ORDER BY receipt_id")
    return {str(row["receipt_id"]): row for row in rows}


async def _check_ledger(database: Database, answers: list[Answered]) -> None:
    """Each success has its receipt and its events, and nothing is stored twice."""
    kept = await _rows(database)
    for answered in answers:
        if answered.status == 202:
            assert answered.json["receipt"] in kept
    events = await database.fetch(
        "SELECT dedup_key, count(*) FROM inboxd.events GROUP BY 1 HAVING count(*) > 1"
    )
    assert events == []
    keys = {row["dedup_key"] for row in await database.fetch("SELECT dedup_key FROM inboxd.events")}
    told = {
        id_ for answered in answers if answered.status == 202 for id_ in answered.json["events"]
    }
    there = {
        str(row["event_id"]) for row in await database.fetch("SELECT event_id FROM inboxd.events")
    }
    assert told <= there
    assert len(keys) == len(there)


async def test_a_request_is_stored_as_it_was_sent(database: Database) -> None:
    trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    source = {
        **PROVIDER,
        "headers": ["x-request-id"],
        "entity_type": "match",
        "topics": ["matches"],
    }
    async with _receiving(settings_of(database), {"provider": source}) as received:
        answered = await received.post(
            headers={"x-request-id": "r-1", "authorization": "Basic x", "traceparent": trace}
        )
    [row] = (await _rows(database)).values()
    assert (row["source"], row["body"], row["key_id"]) == ("provider", RESULT, "k1")
    assert str(row["address"]) in {"192.0.2.1", "192.0.2.1/32"}
    kept = orjson.loads(row["headers"])
    assert kept["x-request-id"] == "r-1"
    assert "x-hub-signature-256" in kept
    assert "authorization" not in kept
    [event] = await database.fetch("SELECT * FROM inboxd.events")
    assert [str(event["event_id"])] == answered.json["events"]
    assert (event["type"], event["topic"], event["source"]) == (
        "match.result",
        "matches",
        "provider",
    )
    assert orjson.loads(event["payload"]) == orjson.loads(RESULT)
    assert orjson.loads(event["headers"]) == {"x-request-id": "r-1"}
    assert event["traceparent"] == trace
    assert str(event["causation_id"]) == answered.json["receipt"]


async def test_a_repetition_and_a_contradiction_get_the_same_answer(database: Database) -> None:
    async with _receiving(settings_of(database)) as received:
        first = await received.post()
        again = await received.post()
        other = await received.post(RESULT.replace(b"2", b"3"))
        assert [each.status for each in (first, again, other)] == [202] * 3
        assert again.json["events"] == first.json["events"]
        for outcome in ("stored", "duplicate", "contradiction"):
            labels = {"source": "provider", "outcome": outcome}
            assert received.count("inboxd_webhook_requests_total", **labels) == 1
    statuses = await database.fetch("SELECT status FROM inboxd.events ORDER BY id")
    assert [row["status"] for row in statuses] == ["pending", "failed"]
    assert len(await _rows(database)) == 3


@pytest.mark.parametrize(
    "body",
    [b"", b"not JSON", b"\xff\xfe\x00", b'{"providerEventId": "e"}', b'"\\u0000"', b"[1e400]",
     b"[" * 3000 + b"]" * 3000, b'{"a": "\\ud800"}', b"1." + b"1" * 20_000, b"[1e-20000]", b"\x00",
     b"[" * 1024 + b"]" * 1024, b"[" + b"0e-16000, " * 90 + b"1e-900, 1]",
     b"[" + b"1e-450, " * 20 + b"1]"],
)  # fmt: skip
async def test_every_authentic_body_is_stored(database: Database, body: bytes) -> None:
    async with _receiving(settings_of(database)) as received:
        answered = await received.post(body)
        assert answered.status == 202
        labels = {"source": "provider", "outcome": "broken"}
        assert received.count("inboxd_webhook_requests_total", **labels) == 1
    [row] = (await _rows(database)).values()
    assert row["body"] == body
    [event] = await database.fetch("SELECT status, errors FROM inboxd.events")
    assert event["status"] == "failed"
    assert orjson.loads(event["errors"])


async def test_each_item_of_an_array_is_an_event(database: Database) -> None:
    source = {**PROVIDER, "items": "/results"}
    results = [orjson.loads(_result(number)) for number in range(100)]
    body = orjson.dumps({"results": results})
    async with _receiving(settings_of(database), {"provider": source}) as received:
        answered = await received.post(body)
        again = await received.post(body)
    assert len(answered.json["events"]) == 100
    assert again.json["events"] == answered.json["events"]
    rows = await database.fetch("SELECT payload, ordering_key FROM inboxd.events ORDER BY id")
    assert [orjson.loads(row["payload"]) for row in rows] == results


async def test_concurrent_requests_share_commits(database: Database) -> None:
    async with _receiving(settings_of(database), connections=1) as received:
        answers = await asyncio.gather(*(received.post(_result(n)) for n in range(500)))
        pages = received.count("inboxd_webhook_page_receipts_count")
    assert {each.status for each in answers} == {202}
    assert pages < 50
    await _check_ledger(database, answers)


async def test_a_commit_with_a_lost_answer_is_not_doubled(database: Database) -> None:
    """The connection dies after the server has the statement, and before its answer."""
    with proxied(database.dsn) as proxy:
        settings = settings_of(database).model_copy(
            update={"dsn": type(settings_of(database).dsn)(proxy.dsn)}
        )
        async with _receiving(settings) as received:
            assert (await received.post(_result(0))).status == 202
            for number in range(1, 20):
                asked = asyncio.create_task(received.post(_result(number)))
                await asyncio.sleep(0.001 * (number % 5))
                proxy.cut("receiver")
                assert (await asked).status == 202
    assert await database.fetchval("SELECT count(*) FROM inboxd.events") == 20
    assert len(await _rows(database)) == 20


async def test_terminated_sessions_lose_no_request(database: Database) -> None:
    stop = False

    async def end_sessions() -> None:
        while not stop:
            await database.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND application_name LIKE '%receiver'"
            )
            await asyncio.sleep(0.3)

    async with _receiving(settings_of(database), within=10) as received:
        ending = asyncio.create_task(end_sessions())
        answers = []
        for page in range(10):
            numbers = range(page * 50, page * 50 + 50)
            answers += await asyncio.gather(*(received.post(_result(n)) for n in numbers))
        stop = True
        await ending
    assert {each.status for each in answers} == {202}
    await _check_ledger(database, answers)
    assert await database.fetchval("SELECT count(*) FROM inboxd.events") == 500


async def test_requests_are_answered_503_while_the_database_hangs(database: Database) -> None:
    never = {"dsn": database.dsn, "lock_timeout": "1h", "statement_timeout": "1h"}
    async with _receiving(DatabaseSettings.model_validate(never), within=0.5) as received:
        assert (await received.post(_result(0))).status == 202
        async with database.connect() as other, other.transaction():
            await other.execute("LOCK TABLE inboxd.receipts IN ACCESS EXCLUSIVE MODE")
            with bounded():
                answers = await asyncio.gather(*(received.post(_result(n)) for n in range(1, 20)))
            assert {each.status for each in answers} == {503}
        assert await eventually(lambda: _is_accepted(received, _result(20)))
    await _check_ledger(database, answers)


async def _is_accepted(received: Received, body: bytes) -> bool:
    return (await received.post(body)).status == 202


async def test_a_receipt_that_the_database_refuses_is_a_dead_letter(database: Database) -> None:
    """The refusal comes from a constraint that the receiver does not know."""
    await database.execute(
        "ALTER TABLE inboxd.events ADD CHECK (payload ->> 'homeScore' IS DISTINCT FROM '13')"
    )
    bodies = [_result(n) for n in range(30)]
    bodies[17] = bodies[17].replace(b":2", b":13")
    async with _receiving(settings_of(database), connections=1) as received:
        answers = await asyncio.gather(*(received.post(body) for body in bodies))
    assert {each.status for each in answers} == {202}
    rows = await database.fetch("SELECT type, count(*) FROM inboxd.events GROUP BY 1 ORDER BY 1")
    assert [tuple(row) for row in rows] == [("match.result", 29), ("provider.broken", 1)]


async def test_a_disconnected_client_costs_the_others_nothing(database: Database) -> None:
    async with _receiving(settings_of(database), connections=1) as received:
        tasks = [asyncio.create_task(received.post(_result(n))) for n in range(100)]
        await asyncio.sleep(0)
        for _ in range(5):
            await asyncio.sleep(0)
        for task in tasks[::3]:
            task.cancel()
        answers = await asyncio.gather(*tasks, return_exceptions=True)
    kept = [each for each in answers if isinstance(each, Answered)]
    assert {each.status for each in kept} == {202}
    await _check_ledger(database, kept)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)
_FUZZED = st.binary(max_size=50) | _JSON.map(lambda value: json.dumps(value).encode())


@profile(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bodies=st.lists(_FUZZED, min_size=20, max_size=60))
async def test_postgresql_accepts_every_event_of_the_receiver(
    database: Database, bodies: list[bytes]
) -> None:
    """A value that only the database refuses would cost the other receipts time."""
    source = {"scheme": "github", "keys": KEYS, "type": "fuzzed", "dedup_key": ""}
    with collected("info") as lines:
        async with _receiving(settings_of(database), {"provider": source}) as received:
            answers = await asyncio.gather(*(received.post(body) for body in bodies))
    assert {each.status for each in answers} == {202}
    assert [line for line in lines if line["message"] == "a webhook is a dead letter"] == []
    kept = await _rows(database)
    assert [kept[each.json["receipt"]]["body"] for each in answers] == bodies
