"""`http.request`: the answer of a target decides what happens to the command."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from tests.support import Config, Database, StartWorker, eventually

pytestmark = pytest.mark.anyio


class Service:
    """A target with planned answers; counts its effects by Idempotency-Key."""

    def __init__(self) -> None:
        self.answers: list[tuple[int, dict[str, str], str]] = []
        self.heads: list[dict[str, str]] = []
        self.bodies: list[bytes] = []
        self.done: Counter[str] = Counter()
        self.port = 0
        self.hang = asyncio.Event()
        self.hangs = False
        self._server: asyncio.Server | None = None

    async def up(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def down(self) -> None:
        assert self._server is not None
        self._server.close()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), 0.1)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
            lines = (line.partition(": ") for line in head.split("\r\n")[1:] if line)
            headers = {name.lower(): value for name, _, value in lines}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            self.heads.append(headers)
            self.bodies.append(body)
            if self.hangs:
                await self.hang.wait()
            status, more, said = self.answers.pop(0) if self.answers else (200, {}, "done")
            if status == 200:
                self.done[headers["idempotency-key"]] += 1
            extra = "".join(f"{name}: {value}\r\n" for name, value in more.items())
            writer.write(
                f"HTTP/1.1 {status} X\r\ncontent-length: {len(said)}\r\nconnection: close\r\n"
                f"{extra}\r\n{said}".encode()
            )
            await writer.drain()
        writer.close()


@pytest.fixture
async def service() -> AsyncIterator[Service]:
    served = Service()
    await served.up()
    yield served
    served.hang.set()
    await served.down()


def settings(service: Service, **target: Any) -> Config:
    """Settings with one target, which is on this machine."""
    own = {"url": f"http://127.0.0.1:{service.port}/v1/", "allow": ["127.0.0.0/8"]}
    return {
        "worker": {"poll_interval": "1s"},
        "targets": {"bank": {**own, "authorization": "Bearer sesame-open", **target}},
        "breakers": {"http.bank": {"consecutive_failures": 3, "first_break": "1s", "probes": 1}},
        "types": {"http.request": {"retry": {"kind": "fixed", "base": "100ms", "attempts": 3}}},
    }


async def ask(database: Database, queue: str = "http.bank", **payload: Any) -> int:
    payload = {"target": "bank", "path": "/pay", "json": {"amount": 3}, **payload}
    return int(
        await database.fetchval(
            "insert into inboxd.commands (queue, type, payload) "
            "values ($1, 'http.request', $2::jsonb) returning id",
            queue,
            json.dumps(payload),
        )
    )


async def ended(database: Database, id_: int) -> Any:
    """Wait until a command has ended; returns its row."""
    rows: list[Any] = []

    async def is_there() -> bool:
        rows[:] = await database.fetch(
            "select status, attempts, result::text, errors::text from inboxd.commands_history "
            "where id = $1 union all select status, attempts, null, errors::text "
            "from inboxd.commands where id = $1 and status = 'failed'",
            id_,
        )
        return bool(rows)

    await eventually(is_there)
    return rows[0]


async def test_the_target_s_answer_decides_about_the_command(
    database: Database, start_worker: StartWorker, service: Service
) -> None:
    worker = await start_worker(settings(service))
    row = await ended(database, await ask(database))
    result = json.loads(row["result"])
    assert (row["status"], result["status"], result["body"]) == ("succeeded", 200, "done")
    assert service.bodies[-1] == b'{"amount":3}'
    head = service.heads[-1]
    assert head["authorization"] == "Bearer sesame-open"
    assert head["idempotency-key"]
    assert head["x-correlation-id"]
    service.answers = [(503, {}, "down: sesame-open"), (429, {"retry-after": "1"}, "slow")]
    row = await ended(database, await ask(database))
    assert (row["status"], row["attempts"]) == ("succeeded", 3)
    assert "it answered 503: down: [redacted]" in row["errors"]
    assert set(service.done.values()) == {1}
    for status in (302, 404, 422):
        service.answers = [(status, {"location": "http://10.0.0.1/"}, "no")]
        row = await ended(database, await ask(database))
        assert (row["status"], row["attempts"]) == ("failed", 1)
        assert f"it answered {status}" in row["errors"]
    service.answers = [(404, {}, "gone")]
    row = await ended(database, await ask(database, expect=["404"], method="DELETE", json=None))
    assert row["status"] == "succeeded"
    wrongs: list[dict[str, Any]] = [{"target": "bnk"}, {"url": "https://x/"}, {"body": "two"}]
    for wrong in (*wrongs, {"method": "X"}, {"timeout": "0s"}):
        row = await ended(database, await ask(database, **wrong))
        assert (row["status"], row["attempts"]) == ("failed", 1)
    assert "sesame" not in worker.output()


async def test_a_retry_after_of_zero_does_not_spend_all_attempts_at_once(
    database: Database, start_worker: StartWorker, service: Service
) -> None:
    config = settings(service)
    config["types"]["http.request"]["retry"]["base"] = "1h"
    await start_worker(config)
    service.answers = [(503, {"retry-after": "0"}, "down")] * 3
    id_ = await ask(database)

    async def was_put_off() -> bool:
        return bool(
            await database.fetchval(
                "select run_at > now() + interval '50 min' from inboxd.commands "
                "where id = $1 and attempts > 0",
                id_,
            )
        )

    await eventually(was_put_off)
    assert len(service.heads) == 1


async def test_a_correlation_id_is_percent_encoded_for_its_header(
    database: Database, start_worker: StartWorker, service: Service
) -> None:
    await start_worker(settings(service))
    for given, sent in (("order 7/é\n", "order 7/%C3%A9%0A"), ("a%b:c", "a%b:c")):
        id_ = await database.fetchval(
            "insert into inboxd.commands (queue, type, payload, correlation_id) "
            "values ('http.bank', 'http.request', '{\"target\": \"bank\"}', $1) returning id",
            given,
        )
        assert (await ended(database, id_))["status"] == "succeeded"
        assert service.heads[-1]["x-correlation-id"] == sent


async def test_an_invalid_traceparent_is_left_out(
    database: Database, start_worker: StartWorker, service: Service
) -> None:
    await start_worker(settings(service))
    valid = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    for given, sent in (("é\n", None), (valid, valid)):
        id_ = await database.fetchval(
            "insert into inboxd.commands (queue, type, payload, traceparent) "
            "values ('http.bank', 'http.request', '{\"target\": \"bank\"}', $1) returning id",
            given,
        )
        assert (await ended(database, id_))["status"] == "succeeded"
        assert service.heads[-1].get("traceparent") == sent


async def test_no_transaction_is_open_during_a_request(
    database: Database, start_worker: StartWorker, service: Service
) -> None:
    await start_worker(settings(service, timeout="10m"))
    service.hangs = True
    id_ = await ask(database)

    async def hangs() -> bool:
        return bool(service.heads)

    await eventually(hangs)
    asked = await database.fetchval("select clock_timestamp()")

    async def none_is_older() -> bool:
        """Of transactions that were open during the request; the leader's tasks are short."""
        found = await database.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database() "
            "and pid <> pg_backend_pid() and state like 'idle in transaction%' and xact_start < $1",
            asked,
        )
        return bool(found == 0)

    await eventually(none_is_older)
    service.hang.set()
    assert (await ended(database, id_))["status"] == "succeeded"


@pytest.mark.long
async def test_no_request_is_lost_over_restarts_of_the_target(
    database: Database, start_worker: StartWorker, service: Service
) -> None:
    await service.down()
    workers = [await start_worker(settings(service)) for _ in range(2)]
    for _ in range(30):
        await ask(database)

    async def is_open() -> bool:
        return bool(
            await database.fetchval(
                "select state <> 'closed' from inboxd.breakers where name = 'http.bank'"
            )
        )

    await eventually(is_open)
    uses = await database.fetchval("select uses from inboxd.breakers where name = 'http.bank'")
    assert uses == ["queue http.bank"]
    for worker in workers:
        worker.kill()
    await start_worker(settings(service))
    await service.up()

    async def all_are_done() -> bool:
        found = await database.fetchval(
            "select count(*) from inboxd.commands_history where status = 'succeeded'"
        )
        return int(found) == 30

    await eventually(all_are_done, within=60)
    assert set(service.done.values()) == {1}
    assert len(service.done) == 30
