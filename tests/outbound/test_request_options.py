"""`http.request`: the options of payloads and targets, as the target sees them."""

import base64
import json
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from inboxd.signatures import Key, SignedRequest, Unauthentic, verifier
from tests.support import Config, Database, StartWorker, eventually
from tests.support.http_target import Seen, Target

pytestmark = pytest.mark.anyio

NEW = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"
OLD = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
GONE = "whsec_YWJjZGVmMDEyMzQ1Njc4OTAxMjM0NTY3"
TEMPLATE = {
    "header": "x-bank-signature",
    "prefix": "sha256=",
    "template": "{id}.{timestamp}.{body}",
    "timestamp_header": "x-bank-time",
    "id_header": "x-bank-id",
}


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    """A target that answers 200, or follows its plan."""
    async with Target() as served:
        yield served


def settings(
    target: Target,
    http: dict[str, Any] | None = None,
    worker: dict[str, Any] | None = None,
    **own: Any,
) -> Config:
    """Settings with the target "bank" and URLs to this machine; one failure opens a breaker."""
    down = {"consecutive_failures": 1, "first_break": "1h", "longest_break": "1h"}
    return {
        "worker": {"poll_interval": "1s", **(worker or {})},
        "outbound": {"http": {"enabled": True, "allow": ["127.0.0.0/8", "::1"], **(http or {})}},
        "targets": {"bank": {"url": target.url(""), "allow": ["127.0.0.0/8"], **own}},
        "breakers": {"http.bank": down, "http.127.0.0.1": down},
        "types": {"http.request": {"retry": {"kind": "fixed", "base": "50ms", "attempts": 3}}},
    }


async def ask(database: Database, queue: str = "http.bank", **payload: Any) -> int:
    """Send one request, to the bank by default."""
    if "url" not in payload:
        payload = {"target": "bank", "path": "/ok", **payload}
    return int(
        await database.fetchval(
            "select id from inboxd.send_command('http.request', $1::jsonb, queue => $2)",
            json.dumps(payload),
            queue,
        )
    )


async def until_status(database: Database, id_: int, status: str) -> Any:
    """Wait until a command has this status; returns its row."""
    found: list[Any] = []

    async def has() -> bool:
        found[:] = await database.fetch(
            "select attempts, errors::text from inboxd.commands where id = $1 and status = $2"
            " union all select attempts, errors::text from inboxd.commands_history"
            " where id = $1 and status = $2",
            id_,
            status,
        )
        return bool(found)

    await eventually(has)
    return found[0]


async def until_put_off(database: Database, ids: list[int]) -> None:
    """Wait until these commands are deferred without spending an attempt."""

    async def are() -> bool:
        rows = await database.fetch(
            "select status, attempts from inboxd.commands"
            " where id = any($1) and fence > 0 and run_at > now()",
            ids,
        )
        return [tuple(row) for row in rows] == [("pending", 0)] * len(ids)

    await eventually(are)


def accepts(seen: Seen, scheme: str, secret: str, **options: Any) -> bool:
    """Whether a target with this key accepts the request's signature."""
    signed = SignedRequest(seen.headers, seen.body, seen.path)
    by = verifier(scheme, [Key("k", secret.encode())], tolerance=60, options=options)
    try:
        return by.verify(signed, time.time()) == "k"
    except Unauthentic:
        return False


async def test_each_current_key_signs_each_attempt(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    keys = [
        {"id": "new", "secret": NEW},
        {"id": "old", "secret": OLD},
        {"id": "gone", "secret": GONE, "not_after": "2020-01-01T00:00:00Z"},
    ]
    config = settings(target, signature="standard_webhooks", keys=keys)
    worker = await start_worker({**config, "breakers": {}})
    target.plan.append("/status/503")
    first = await until_status(database, await ask(database, json={"n": 1}), "succeeded")
    assert first["attempts"] == 2
    await until_status(database, await ask(database, sign=False), "succeeded")
    *signed, plain = target.seen
    for seen in signed:
        assert seen.headers["webhook-id"] == seen.headers["idempotency-key"]
        assert [accepts(seen, "standard_webhooks", key) for key in (NEW, OLD, GONE)] == [
            True,
            True,
            False,
        ]
    assert len({seen.headers["webhook-id"] for seen in signed}) == 1
    assert not [name for name in plain.headers if name.startswith("webhook-")]
    assert not any(secret in worker.output() for secret in (NEW, OLD, GONE))


async def test_a_signature_has_the_form_of_the_target_s_settings(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    keys = [{"id": "new", "secret": NEW}, {"id": "old", "secret": OLD}]
    await start_worker(settings(target, signature="hmac", keys=keys, hmac=TEMPLATE))
    id_ = await ask(database, body="two\u00e9", idempotency_key="payment-7")
    await until_status(database, id_, "succeeded")
    (seen,) = target.seen
    assert seen.headers["x-bank-id"] == seen.headers["idempotency-key"] == "payment-7"
    assert accepts(seen, "hmac", NEW, **TEMPLATE)
    assert not accepts(seen, "hmac", OLD, **TEMPLATE)


async def test_a_misspelt_option_sends_no_request(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    await start_worker(settings(target))
    row = await until_status(database, await ask(database, pth="/pay"), "failed")
    assert row["attempts"] == 1
    assert "pth: " in row["errors"]
    assert target.seen == []


async def test_a_body_in_base64_is_sent_as_bytes(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    await start_worker(settings(target))
    raw = bytes(range(256))
    given = base64.b64encode(raw).decode()
    await until_status(database, await ask(database, body_base64=given), "succeeded")
    (seen,) = target.seen
    assert seen.body == raw
    assert seen.headers["content-type"] == "application/octet-stream"
    row = await until_status(database, await ask(database, body_base64="%%%="), "failed")
    assert "body_base64: it is not base64" in row["errors"]
    assert len(target.seen) == 1


@pytest.mark.parametrize("way", ["url", "another queue"])
async def test_a_request_in_another_queue_is_deferred_while_the_target_is_down(
    database: Database, start_worker: StartWorker, target: Target, way: str
) -> None:
    await start_worker(settings(target))
    queue, named = ("http", {"url": target.url("/ok")}) if way == "url" else ("letters", {})
    await until_status(database, await ask(database, queue, **named), "succeeded")
    target.plan.append("/status/503")
    failed = await ask(database, queue, **named)

    async def is_open() -> bool:
        name = "http.127.0.0.1" if way == "url" else "http.bank"
        state = await database.fetchval("select state from inboxd.breakers where name = $1", name)
        return bool(state == "open")

    await eventually(is_open)
    later = [await ask(database, queue, **named) for _ in range(5)]
    await until_put_off(database, later)
    assert len(target.seen) == 2
    spent = await database.fetchval("select attempts from inboxd.commands where id = $1", failed)
    assert spent == 1


async def test_a_host_s_rate_is_not_exceeded(
    database: Database, start_worker: StartWorker, target: Target
) -> None:
    await start_worker(settings(target, http={"host_rate": "2/h"}))
    for _ in range(2):
        await until_status(database, await ask(database, "http", url=target.url()), "succeeded")
    await until_put_off(database, [await ask(database, "http", url=target.url()) for _ in range(3)])
    assert len(target.seen) == 2
    # A target's own queue has the target's rate.
    for _ in range(3):
        await until_status(database, await ask(database), "succeeded")
    assert len(target.seen) == 5


@pytest.mark.parametrize(
    ("drain", "status", "asked"), [("1h", "succeeded", 1), ("100ms", "pending", 0)]
)
async def test_a_request_ends_or_is_released_at_a_stop(
    database: Database,
    start_worker: StartWorker,
    target: Target,
    drain: str,
    status: str,
    asked: int,
) -> None:
    worker = await start_worker(settings(target, worker={"drain_timeout": drain}))
    target.plan.append("/slow?after=0.5" if asked else "/silent")
    id_ = await ask(database)
    await target.until(lambda: bool(target.seen))
    assert await worker.stop() == 0
    row = await until_status(database, id_, status)
    assert row["attempts"] == asked
    assert len(target.seen) == 1
    assert target.open == 0
    state = await database.fetchval("select state from inboxd.breakers where name = 'http.bank'")
    assert state == "closed", "a stop of the worker is not a failure of the target"
