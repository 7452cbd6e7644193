"""Webhooks out from real workers to a real server: signed, retried, stopped, disabled."""

import json
from itertools import pairwise
from typing import Any

import pytest

from inboxd.signatures.contract import Key, SignedRequest
from inboxd.signatures.standard_webhooks import StandardWebhooksVerifier
from tests.outbound.delivering import NO_POLL, OTHER, QUICK, delivered, logged, rows, send
from tests.support import Database, StartWorker, eventually
from tests.support.customer import Customer, Got, answer
from tests.support.endpoints import SECRET, add
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def test_a_delivery_is_signed_with_every_current_secret(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    secrets = [{"secret": OTHER}, {"secret": SECRET}]
    await add(database, "acme", url=customer.url("/hooks?a=1"), secrets=json.dumps(secrets))
    await start_worker(NO_POLL)
    data = {"name": "Zo\u00eb \u2028", "amount": 10.25, "ids": [10**30]}
    await send(database, data, message_id="m1")
    (got,) = await customer.has(1, "/hooks?a=1")
    body = json.loads(got.body)
    assert list(body) == ["type", "timestamp", "data"]
    assert (body["type"], body["data"]) == ("user.created", data)
    assert (got.id, got.headers["content-type"]) == ("m1", "application/json")
    assert abs(int(got.headers["webhook-timestamp"]) - got.at) < 5
    for secret in (SECRET, OTHER):
        assert got.is_signed_by(secret)
        verifier = StandardWebhooksVerifier([Key("k", secret.encode())], 60.0, {})
        assert verifier.verify(SignedRequest(got.headers, got.body), got.at) == "k"
    await delivered(database, "acme", 1)
    ((result,),) = await rows(database, "select result from inboxd.commands_history")
    assert json.loads(result)["status"] == 204


async def test_every_answer_but_2xx_is_retried_with_the_same_id(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    replies = [
        answer(302, location=customer.url("/other")),
        answer(307, location=customer.url("/other")),
        *(answer(status, b"no") for status in (400, 404, 500)),
        None,  # the connection breaks
        answer(202, b"thanks"),
    ]

    async def reply(_got: Got) -> bytes | None:
        return replies.pop(0)

    customer.replies["/"] = reply
    await add(database, "acme", url=customer.url())
    await start_worker(QUICK)
    await send(database, {"n": 1})
    await delivered(database, "acme", 1)
    got = customer.at("/")
    assert len(got) == 7
    assert customer.at("/other") == []
    assert len({each.id for each in got}) == 1
    assert len({each.body for each in got}) == 1
    assert all(each.is_signed_by(SECRET) for each in got)
    ((errors, attempts),) = await rows(
        database, "select errors, attempts from inboxd.commands_history"
    )
    assert attempts == 7
    for status, told in zip((302, 307, 400, 404, 500), json.loads(errors), strict=False):
        assert str(status) in told["error"], told


async def test_a_signature_has_the_time_of_its_attempt(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    statuses = [500, 500, 204]

    async def reply(_got: Got) -> bytes | None:
        return answer(statuses.pop(0))

    customer.replies["/"] = reply
    await add(database, "acme", url=customer.url())
    await start_worker(
        {**NO_POLL, "types": {"webhook.deliver": {"retry": {"kind": "fixed", "base": "1100ms"}}}}
    )
    await send(database)
    got = await customer.has(3)
    times = [int(each.headers["webhook-timestamp"]) for each in got]
    assert all(later > earlier for earlier, later in pairwise(times))
    assert all(abs(at - each.at) < 2 for at, each in zip(times, got, strict=True))


async def test_a_410_disables_and_waiting_deliveries_resume_when_enabled(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    async def gone(_got: Got) -> bytes:
        return answer(410, b"no anna@example.org here")

    customer.replies["/"] = gone
    await add(database, "acme", url=customer.url())
    await add(database, "other", url=customer.url("/other"))
    workers = [await start_worker(QUICK) for _ in range(2)]
    await send(database)

    async def is_disabled() -> bool:
        found = await rows(
            database, "select disabled_by from inboxd.endpoints where name = 'acme' and not enabled"
        )
        return found == [("gone",)]

    await eventually(is_disabled)
    asked = len(customer.at("/"))
    assert asked <= 3  # further requests until the table was written
    # No new delivery is written for it, and waiting ones are not claimed.
    await send(database)
    await delivered(database, "other", 2)
    waiting = "select status, attempts from inboxd.commands where queue = 'webhooks.acme'"
    assert await rows(database, waiting) == [("pending", asked)]
    told = [line for each in workers for line in logged(each, "endpoint is disabled")]
    assert [(line["endpoint"], line["by"]) for line in told] == [("acme", "gone")]
    series = 'inboxd_endpoints_disabled_total{by="gone",endpoint="acme"}'
    assert sum([await each.metric(series) for each in workers]) == 1
    audit = "select actor, action, target, count, reason from inboxd.audit"
    why = "it answered 410"
    assert await rows(database, audit) == [("inboxd", "disable", "endpoint acme", 1, why)]
    shown = "select disabled_reason from inboxd.endpoints where name = 'acme'"
    assert await rows(database, shown) == [(why,)], (
        "viewers may read the reason, so it has no contents"
    )
    kept = "select last_failure from inboxd.endpoints where name = 'acme'"
    ((quoted,),) = await rows(database, kept)
    assert "no anna@example.org here" in quoted
    assert len(customer.at("/")) == asked
    customer.replies["/"] = 204
    await enable(database, "acme")
    await delivered(database, "acme", 1)


async def enable(database: Database, name: str) -> None:
    """Enable an endpoint, as an operator does."""
    await database.execute(
        "update inboxd.endpoints set enabled = true, disabled_at = null, disabled_by = null,"
        " disabled_reason = null, failing_since = null, version = version + 1 where name = $1",
        name,
    )


async def test_an_endpoint_is_not_asked_before_its_retry_after(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    replies = [answer(429, retry_after="2"), answer(503, retry_after="0"), answer(204)]

    async def reply(_got: Got) -> bytes | None:
        return replies.pop(0)

    customer.replies["/"] = reply
    await add(database, "acme", url=customer.url())
    await start_worker(QUICK)
    await send(database)
    first, second, third = await customer.has(3)
    assert second.at - first.at >= 2
    assert third.at - second.at >= 0.05


async def test_a_stored_answer_is_cut_and_has_no_secret(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    replies = [
        answer(500, f"no: {SECRET} ".encode() + b"x" * 5_000),
        answer(200, f"yes: {SECRET.removeprefix('whsec_')} ".encode() + b"y" * 5_000),
    ]

    async def reply(_got: Got) -> bytes | None:
        return replies.pop(0)

    customer.replies["/"] = reply
    await add(database, "acme", url=customer.url())
    worker = await start_worker(QUICK)
    await send(database)
    await delivered(database, "acme", 1)
    ((result, errors),) = await rows(
        database, "select result::text, errors::text from inboxd.commands_history"
    )
    assert "answered 500: no: " in errors
    told = json.loads(result)
    assert (told["status"], told["cut"], told["attempts"]) == (200, True, 2)
    assert told["body"].startswith("yes: ")
    assert len(result) < 1_000
    assert "x" * 300 not in errors
    for text in (result, errors, worker.output()):
        assert SECRET.removeprefix("whsec_") not in text


async def test_a_delivery_to_a_private_address_is_not_sent(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    """The delivery is retried: a correction of the URL or the settings needs no replay."""
    urls = [f"http://[::1]:{customer.port}/", "http://169.254.169.254/latest"]
    for place, url in enumerate(urls):
        await add(database, f"inside{place}", url=url)
    await start_worker(QUICK)
    await send(database)

    async def have_failed() -> bool:
        found = await rows(database, "select errors::text from inboxd.commands where attempts > 0")
        return len(found) == 2 and all("not of the public internet" in each for (each,) in found)

    await eventually(have_failed)
    await database.execute(
        "update inboxd.endpoints set url = $1, version = version + 1", customer.url()
    )
    await delivered(database, "inside0", 1)
    await delivered(database, "inside1", 1)


async def test_an_endpoint_that_only_fails_is_disabled_once(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    customer.replies["/"] = 503
    await add(database, "acme", url=customer.url())
    await database.execute("update inboxd.endpoints set disable_after = '2 seconds'")
    never = {"webhooks.acme": {"consecutive_failures": 1000, "failure_ratio": 0}}
    workers = [await start_worker({**QUICK, "breakers": never}) for _ in range(2)]
    for number in range(20):
        await send(database, {"n": number})

    async def is_disabled() -> bool:
        found = await rows(database, "select disabled_by, failing_since from inboxd.endpoints")
        return found[0][0] == "failures" and found[0][1] is not None

    async def is_told() -> bool:  # logged a moment after the table is written
        return any(logged(each, "endpoint is disabled") for each in workers)

    await eventually(is_disabled)
    await eventually(is_told)
    first = customer.got[0].at
    assert customer.got[-1].at - first >= 2
    told = [line for each in workers for line in logged(each, "endpoint is disabled")]
    assert [(line["endpoint"], line["by"]) for line in told] == [("acme", "failures")]
    audit = "select actor, action, target, count from inboxd.audit"
    assert await rows(database, audit) == [("inboxd", "disable", "endpoint acme", 1)]
    customer.replies["/"] = 204
    await enable(database, "acme")
    await delivered(database, "acme", 20)
    assert await rows(database, "select failing_since from inboxd.endpoints") == [(None,)]


async def test_a_success_between_failures_keeps_an_endpoint_enabled(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    """It alternates between failure and success for far longer than `disable_after`."""
    count = 0

    async def reply(_got: Got) -> bytes | None:
        nonlocal count
        count += 1
        return answer(204 if count % 10 == 0 else 503)

    customer.replies["/"] = reply
    await add(database, "acme", url=customer.url())
    await database.execute("update inboxd.endpoints set disable_after = '1 second'")
    await start_worker({**QUICK, "breakers": {"webhooks.acme": {"failure_ratio": 0}}})
    for number in range(20):
        await send(database, {"n": number})
    await delivered(database, "acme", 20)
    assert customer.got[-1].at - customer.got[0].at > 1
    assert await rows(database, "select enabled from inboxd.endpoints") == [(True,)]


@pytest.mark.parametrize("message_id", ["a.1", "", "a b", "é", "x" * 256])
async def test_an_invalid_message_id_is_not_signed(
    database: Database, start_worker: StartWorker, customer: Customer, message_id: str
) -> None:
    """A part of the id a.1 could be taken for the time, so the row is refused."""
    await add(database, "acme", url=customer.url())
    payload = {"endpoint": "acme", "id": message_id, "type": "t", "timestamp": "t", "data": {}}
    await database.execute(
        "insert into inboxd.commands (type, queue, payload)"
        " values ('webhook.deliver', 'webhooks.acme', $1)",
        json.dumps(payload),
    )
    await start_worker(NO_POLL)

    async def refused() -> bool:
        found = await rows(database, "select errors from inboxd.commands where status = 'failed'")
        return bool(found) and "the message id" in found[0][0]

    await eventually(refused)
    with safety():
        assert customer.at("/") == []


async def test_a_delivery_over_http_is_not_sent_if_https_is_required(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    await add(database, "acme", url=customer.url())
    outbound: dict[str, Any] = {**QUICK["outbound"]}
    outbound["webhooks"] = {**outbound["webhooks"], "require_https": True}
    await start_worker({**QUICK, "outbound": outbound})
    await send(database)

    async def has_failed() -> bool:
        found = await rows(database, "select errors::text from inboxd.commands where attempts > 0")
        return bool(found) and "outbound.webhooks.require_https requires" in found[0][0]

    await eventually(has_failed)
    with safety():
        assert customer.at("/") == []
