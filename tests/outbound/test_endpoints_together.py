"""Several endpoints and workers: no endpoint delays another, and each key keeps its order."""

import asyncio
import json
from collections.abc import Mapping

import anyio
import pytest

from inboxd.daemon import worker
from inboxd.engine import endpoints
from inboxd.model.endpoints import WrittenEndpoint
from inboxd.outbound.endpoints.book import EndpointBook
from inboxd.settings import Settings
from tests.outbound.delivering import NO_POLL, OTHER, QUICK, delivered, rows, send
from tests.support import Config, Database, StartWorker, eventually
from tests.support.customer import Customer, Got, answer
from tests.support.endpoints import SECRET, add
from tests.support.rows import most_in_a_second
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def test_an_endpoint_that_is_down_stops_only_itself(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    """Its breaker opens, so its deliveries are not claimed and spend no attempts."""
    customer.replies["/down"] = 503
    await add(database, "down", "down.*", url=customer.url("/down"))
    await add(database, "up", "user.*", url=customer.url("/up"))
    rules = {
        "webhooks.down": {"consecutive_failures": 3, "first_break": "1h", "longest_break": "1h"}
    }
    one = await start_worker({**NO_POLL, "breakers": rules})
    many = "select inboxd.send_webhook($1) from generate_series(1, $2)"
    await database.fetch(many, "down.now", 3)
    state = "select state from inboxd.breakers where name = 'webhooks.down'"

    async def is_open() -> bool:
        return await rows(database, state) == [("open",)]

    await eventually(is_open)
    asked = len(customer.at("/down"))
    await database.fetch(many, "down.now", 500)
    await database.fetch(many, "user.created", 200)
    await delivered(database, "up", 200)
    assert len(customer.at("/down")) == asked
    left = "select sum(attempts), max(fence) from inboxd.commands where id > 3"
    assert await rows(database, left) == [(0, 0)]

    async def is_shown() -> bool:  # once a second
        return await one.metric('inboxd_breaker_state{name="webhooks.down"}') == 2

    await eventually(is_shown)
    # The endpoint recovers: all webhooks are delivered once.
    customer.replies["/down"] = 204
    await database.execute(
        "update inboxd.breakers set open_until = now(), version = version + 1"
        " where name = 'webhooks.down'"
    )
    await database.execute("update inboxd.commands set run_at = now() where attempts > 0")
    await delivered(database, "down", 503)
    good = [each.id for each in customer.at("/down")[asked:]]
    assert len(good) == len(set(good)) == 503


async def test_a_slow_endpoint_leaves_room_for_others(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    held = asyncio.Event()

    async def reply(_got: Got) -> bytes | None:
        await held.wait()
        return answer(204)

    customer.replies["/slow"] = reply
    await add(database, "slow", "slow.*", url=customer.url("/slow"))
    await add(database, "up", "user.*", url=customer.url("/up"))
    webhooks = {"enabled": True, "timeout": "10m", "allow": ["127.0.0.0/8"], "concurrency": 20}
    limits: Config = {"commands": {"concurrency": 12}, "outbound": {"webhooks": webhooks}}
    await start_worker({**NO_POLL, **limits})
    many = "select inboxd.send_webhook($1) from generate_series(1, $2)"
    await database.fetch(many, "slow.now", 100)
    await customer.has(10, "/slow")
    await database.fetch(many, "user.created", 50)
    await delivered(database, "up", 50)
    assert len(customer.at("/slow")) == 10
    held.set()
    await delivered(database, "slow", 100)


async def test_slow_endpoints_delay_neither_other_commands_nor_endpoints(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    """Ten slow deliveries once occupied a whole worker, and blocked all other commands."""
    held = asyncio.Event()
    now = 0

    async def reply(_got: Got) -> bytes | None:
        nonlocal now
        now += 1
        await held.wait()
        return answer(204)

    slow = [f"slow{number}" for number in range(10)]
    for name in slow:
        customer.replies[f"/{name}"] = reply
        await add(database, name, "slow.*", url=customer.url(f"/{name}"))
    await add(database, "up", "user.*", url=customer.url("/up"))
    await start_worker({**NO_POLL, "commands": {"concurrency": 24}})
    many = "select inboxd.send_webhook($1) from generate_series(1, $2)"
    await database.fetch(many, "slow.now", 20)

    async def are_slow() -> bool:
        return now >= len(slow)

    await eventually(are_slow)
    await database.fetch("select inboxd.send_command('test.noop') from generate_series(1, 100)")
    await database.fetch(many, "user.created", 50)
    done = (
        "select count(*) from inboxd.commands_history"
        " where type = 'test.noop' and status = 'succeeded'"
    )

    async def are_done() -> bool:
        return await rows(database, done) == [(100,)]

    await eventually(are_done)
    await delivered(database, "up", 50)
    with safety():
        assert now <= 12, "half of all places"
    held.set()
    for name in slow:
        await delivered(database, name, 20)


@pytest.mark.parametrize("workers", [1, 2])
async def test_an_ordered_endpoint_gets_each_key_in_order_over_retries(
    database: Database, start_worker: StartWorker, customer: Customer, workers: int
) -> None:
    """A delivery that is retried blocks its own key only."""
    failures = {("a", 3): 3, ("b", 0): 2, ("c", 9): 1}
    good: dict[str, list[int]] = {key: [] for key in "abc"}
    begun: set[str] = set()
    overlaps: list[tuple[str, int]] = []  # an error in a reply would end its connection only

    async def reply(got: Got) -> bytes | None:
        key, number = got.data["key"], got.data["n"]
        if key in begun:
            overlaps.append((key, number))
        begun.add(key)
        await anyio.sleep(0.002)
        begun.discard(key)
        if failures.get((key, number), 0) > 0:
            failures[key, number] -= 1
            return answer(503)
        good[key].append(number)
        return answer(204)

    customer.replies["/"] = reply
    await add(database, "acme", url=customer.url(), ordered=True)
    for _ in range(workers):
        await start_worker({**QUICK, "breakers": {"webhooks.acme": {"failure_ratio": 0}}})
    for number in range(20):
        for key in "abc":
            await send(database, {"key": key, "n": number}, ordering_key=key)
    await delivered(database, "acme", 60)
    with safety():
        assert overlaps == []
        assert good == {key: list(range(20)) for key in "abc"}
    assert set(failures.values()) == {0}


async def test_a_changed_endpoint_is_used_at_once_without_a_restart(
    database: Database, customer: Customer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notification does that: the worker polls the endpoints only once an hour."""
    monkeypatch.setattr(endpoints, "_READ_EVERY", 3600.0)
    known: list[int] = []
    reload = EndpointBook.reload

    def noted(book: EndpointBook, rows: Mapping[str, WrittenEndpoint], now: float) -> None:
        reload(book, rows, now)
        known[:] = [row.version for row in rows.values()]

    monkeypatch.setattr(EndpointBook, "reload", noted)
    await add(database, "acme", url=customer.url("/old"))
    config = {**NO_POLL, "worker": {"plugins": ["testplugin"], "poll_interval": "1h"}}
    config["database"] = {"dsn": database.dsn}
    async with worker(Settings.model_validate(config)):
        (before,) = known
        await database.execute(
            "update inboxd.endpoints set url = $1, secrets = $2, version = version + 1",
            customer.url("/new"),
            json.dumps([{"secret": OTHER}]),
        )

        async def is_known() -> bool:
            return known == [before + 1]

        await eventually(is_known)
        await send(database)
        (got,) = await customer.has(1, "/new")
        assert (got.is_signed_by(OTHER), got.is_signed_by(SECRET)) == (True, False)
        # A new endpoint is known at once to a delivery that is sent to it.
        await add(database, "late", url=customer.url("/late"))
        await send(database)
        await customer.has(1, "/late")
    assert customer.at("/old") == []


@pytest.mark.long
async def test_a_rate_holds_over_two_workers(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    await add(database, "acme", url=customer.url(), rate="50/s")
    for _ in range(2):
        await start_worker(NO_POLL)
    await database.fetch("select inboxd.send_webhook('user.created') from generate_series(1, 1000)")
    await customer.has(201)
    claims = [
        row["at"]
        for table in ("commands", "commands_history")
        for row in await database.fetch(
            f"select date_part('epoch', started_at) as at from inboxd.{table}"
            " where started_at is not null"
        )
    ]
    with safety():
        assert most_in_a_second(claims) <= 50


async def test_no_transaction_is_open_during_a_delivery(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    asked, held = asyncio.Event(), asyncio.Event()

    async def reply(_got: Got) -> bytes | None:
        asked.set()
        await held.wait()
        return answer(204)

    customer.replies["/"] = reply
    await add(database, "acme", url=customer.url())
    await start_worker(NO_POLL)
    await send(database)
    await asked.wait()
    began = await database.fetchval("select clock_timestamp()")

    async def none_is_older() -> bool:
        found = await database.fetchval(
            "select count(*) from pg_stat_activity where datname = current_database()"
            " and application_name like 'inboxd %' and xact_start < $1",
            began,
        )
        return bool(found == 0)

    await eventually(none_is_older)
    held.set()
    await delivered(database, "acme", 1)


@pytest.mark.long
async def test_a_delivery_of_a_killed_worker_is_repeated(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    async def never(_got: Got) -> bytes | None:
        await anyio.sleep_forever()
        return None

    customer.replies["/"] = never
    await add(database, "acme", url=customer.url())
    first = await start_worker(NO_POLL)
    for number in range(5):
        await send(database, {"n": number})
    got = await customer.has(5)
    before = {each.id for each in got}
    first.kill()
    customer.replies["/"] = 204
    await start_worker({"outbound": NO_POLL["outbound"]})
    await send(database, {"n": 5})
    await delivered(database, "acme", 6, within=60)
    after = customer.got[5:]
    assert {each.id for each in after} > before
    assert len(after) == 6
