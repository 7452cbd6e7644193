"""Two workers and one endpoint: what each of them knows of it, and what the table says then."""

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
from tests.support.rows import SQL, daemon_pool
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

STATE = "select enabled, failing_since is null as well from inboxd.endpoints"


class Knowing:
    """What one worker knows of its only endpoint."""

    def __init__(self, pool: Pool) -> None:
        registry, metrics = build_registry([]), Metrics("0")
        breakers = Breakers(registry, metrics, on_change=lambda: None)
        controls = Controls(lambda: None, breakers)
        self._pool = pool
        self.of = Endpoints(metrics, Queues({}, lambda: None), controls)

    @property
    def endpoint(self) -> ServedEndpoint:
        """As it knows it."""
        (one,) = self.of.book.endpoints
        return one

    async def turn(self) -> None:
        """Read, and write what that brought; and the other way round."""
        for _ in range(2):
            self.of.on_notify()
            await self.of.turn(self._pool, SQL)

    async def finish(self) -> None:
        """The worker ends."""
        await self.of.finish(self._pool, SQL)

    def failed(self, ago: float) -> None:
        """A delivery failed, as all have for so many seconds."""
        self.endpoint.failed(500, "busy", time.monotonic() - ago)
        self.of.book.failed(self.endpoint, 500, "busy")

    def succeeded(self, ago: float) -> None:
        """A delivery succeeded, so many seconds ago."""
        self.endpoint.succeeded(200, time.monotonic() - ago)


async def state(database: Database) -> Any:
    return tuple((await database.fetch(STATE))[0])


@pytest.mark.parametrize("noted", [True, False])
async def test_a_failure_that_is_written_after_a_success_elsewhere_is_over(
    database: Database, noted: bool
) -> None:
    """X fails, Y succeeds, and X writes its failure later, when Y has no delivery any more."""
    await add(database, "acme")
    async with daemon_pool(database) as pool:
        x, y = Knowing(pool), Knowing(pool)
        await x.turn()
        await y.turn()
        if not noted:  # since one of just before is
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
async def test_a_success_whose_worker_has_ended_counts(database: Database, before: str) -> None:
    """Also where it was not noted at once: the table had one of the minute before."""
    await add(database, "acme")
    async with daemon_pool(database) as pool:
        x, y = Knowing(pool), Knowing(pool)
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
        assert x.endpoint.unwritten(time.monotonic()) is None, "nor is it tried again"


async def test_what_the_worker_had_last_is_noted_when_it_stops(
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
async def test_whatever_bytes_its_answer_has_a_delivery_that_succeeded_did(
    database: Database, start_worker: StartWorker, customer: Customer, header: str
) -> None:
    """A dead letter would be delivered twice by who replays it."""

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
