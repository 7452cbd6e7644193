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
        """Write and read."""
        self.of.on_notify()
        await self.of.turn(self._pool, SQL)

    async def finish(self) -> None:
        """The worker ends."""
        await self.of.finish(self._pool, SQL)

    async def writes(self, news: str) -> None:
        """Wait until it has that to write, and let it."""

        async def has() -> bool:
            return self.endpoint.unwritten(time.monotonic()) == news

        await eventually(has)
        await self.turn()

    def failed(self) -> None:
        """A delivery failed."""
        self.of.book.failed(self.endpoint, 500, "busy")

    def succeeded(self) -> None:
        """A delivery succeeded."""
        self.of.book.succeeded(self.endpoint, 200)


async def state(database: Database) -> Any:
    return tuple((await database.fetch(STATE))[0])


async def test_a_failure_that_is_written_after_a_success_elsewhere_is_over(
    database: Database,
) -> None:
    """X fails, Y succeeds, and X writes it down seconds later."""
    await add(database, "acme")
    await database.execute("update inboxd.endpoints set disable_after = '2 seconds'")
    async with daemon_pool(database) as pool:
        x, y = Knowing(pool), Knowing(pool)
        await x.turn()
        await y.turn()
        x.failed()
        y.succeeded()
        await x.writes("failing")
        await y.turn()
        await y.turn()
        with safety():
            assert await state(database) == (True, True)
        await x.turn()
        assert x.endpoint.failing_for(time.monotonic()) == 0.0


@pytest.mark.parametrize("noted", ["at once", "at the end of its worker"])
async def test_a_success_whose_worker_has_ended_counts(database: Database, noted: str) -> None:
    await add(database, "acme")
    await database.execute("update inboxd.endpoints set disable_after = '2 seconds'")
    async with daemon_pool(database) as pool:
        x, y = Knowing(pool), Knowing(pool)
        await x.turn()
        await y.turn()
        if noted == "at the end of its worker":  # what follows is within a minute of this one
            y.succeeded()
            await y.turn()
        x.failed()
        y.succeeded()
        await (y.turn() if noted == "at once" else y.finish())
        await x.writes("failing")
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
