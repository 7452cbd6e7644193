"""Two workers with one endpoint: the state in each worker, and the state in the table."""

import time
from typing import Any

import pytest

from inboxd.engine.breakers import Breakers
from inboxd.engine.controls import Controls
from inboxd.engine.endpoints import Endpoints
from inboxd.engine.queues import Queues
from inboxd.outbound.endpoints.endpoint import ServedEndpoint
from inboxd.registry.plugins import build_registry
from inboxd.store.pools import Pool
from inboxd.telemetry.metrics import Metrics
from tests.outbound.delivering import NO_POLL, delivered, send
from tests.support import Database, StartWorker, eventually
from tests.support.customer import Customer, Got, answer
from tests.support.endpoints import add
from tests.support.rows import daemon_pool
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

STATE = "select enabled, failing_since is null as well from inboxd.endpoints"


class WorkerEndpoints:
    """One worker's state of its only endpoint."""

    def __init__(self, pool: Pool) -> None:
        registry, metrics = build_registry([]), Metrics("0")
        breakers = Breakers(registry, metrics, on_change=lambda: None)
        controls = Controls(lambda: None, breakers)
        self._pool = pool
        self.of = Endpoints(metrics, Queues({}, lambda: None), controls)

    @property
    def endpoint(self) -> ServedEndpoint:
        (one,) = self.of.book.endpoints
        return one

    async def turn(self) -> None:
        """Read the table and write changes, twice."""
        for _ in range(2):
            self.of.on_notify()
            await self.of.turn(self._pool)

    async def finish(self) -> None:
        await self.of.finish(self._pool)

    def failed(self, ago: float) -> None:
        """Record a failed delivery, `ago` seconds in the past."""
        self.endpoint.failed(500, "busy", time.monotonic() - ago)
        self.of.book.failed(self.endpoint, 500, "busy")

    def succeeded(self, ago: float) -> None:
        """Record a successful delivery, `ago` seconds in the past."""
        self.endpoint.succeeded(200, time.monotonic() - ago)


async def state(database: Database) -> Any:
    return tuple((await database.fetch(STATE))[0])


@pytest.mark.parametrize("noted", [True, False])
async def test_a_failure_written_after_another_worker_s_success_is_over(
    database: Database, noted: bool
) -> None:
    """X fails, Y succeeds, and X writes its failure later, when Y has no more deliveries."""
    await add(database, "acme")
    async with daemon_pool(database) as pool:
        x, y = WorkerEndpoints(pool), WorkerEndpoints(pool)
        await x.turn()
        await y.turn()
        if not noted:  # a recent success in the table delays the next record
            y.succeeded(ago=50)
            await y.turn()
        x.failed(ago=40)
        y.succeeded(ago=20)
        await y.turn()
        await x.turn()
        failing = await database.fetchval("select failing_since from inboxd.endpoints")
        assert (failing is None) == noted
        await y.turn()
        with safety():
            assert await state(database) == (True, True)
        await x.turn()
        assert x.endpoint.failing_for(time.monotonic()) == 0.0


@pytest.mark.parametrize("before", ["none", "its own", "another worker's"])
async def test_a_success_of_an_ended_worker_counts(database: Database, before: str) -> None:
    """It counts even if the table had a success of the minute before, which delayed its record."""
    await add(database, "acme")
    async with daemon_pool(database) as pool:
        x, y = WorkerEndpoints(pool), WorkerEndpoints(pool)
        await x.turn()
        await y.turn()
        if before != "none":
            earlier = y if before == "its own" else x
            earlier.succeeded(ago=50)
            await earlier.turn()
        x.failed(ago=40)
        y.succeeded(ago=20)
        await y.turn()
        await y.finish()
        await x.turn()
        with safety():
            assert await state(database) == (True, True)
        assert x.endpoint.unwritten(time.monotonic()) is None, "the change is not written again"


async def test_a_stopping_worker_writes_its_last_success(
    database: Database, start_worker: StartWorker, customer: Customer
) -> None:
    await add(database, "acme", url=customer.url())
    worker = await start_worker(NO_POLL)
    await send(database)
    await delivered(database, "acme", 1)
    noted = "select last_success_at from inboxd.endpoints"

    async def is_noted() -> bool:
        return await database.fetchval(noted) is not None

    await eventually(is_noted)
    await send(database)
    await delivered(database, "acme", 2)
    before = await database.fetchval(noted)
    await worker.stop()
    with safety():
        assert await database.fetchval(noted) > before


@pytest.mark.parametrize("header", ["content-type", "location", "x-request-id"])
async def test_a_delivery_with_any_bytes_in_its_answer_succeeds(
    database: Database, start_worker: StartWorker, customer: Customer, header: str
) -> None:
    """A dead letter would be delivered twice after a replay."""

    async def reply(_got: Got) -> bytes | None:
        return answer(200, b"\xff").replace(
            b"\r\n\r\n", f"\r\n{header}: a".encode() + b"\xff\r\n\r\n"
        )

    customer.replies["/"] = reply
    await add(database, "acme", url=customer.url())
    await start_worker(NO_POLL)
    await send(database)
    await delivered(database, "acme", 1)
    kept = "select result -> 'headers' ->> $1 from inboxd.commands_history"
    with safety():
        assert await database.fetchval(kept, header) == "a\ufffd"
        assert len(customer.got) == 1
