"""A worker in the test's event loop, with a broker in memory."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from inboxd import Event, EventContext, Handlers
from inboxd.brokers import kinds
from inboxd.daemon import worker
from inboxd.settings import Settings
from tests.support import Database
from tests.support.memory_broker import MemoryBroker

Run = Callable[..., AbstractAsyncContextManager[None]]


@pytest.fixture
def broker(monkeypatch: pytest.MonkeyPatch) -> MemoryBroker:
    """A broker in memory, which replaces every kind of broker."""
    found = MemoryBroker()
    monkeypatch.setattr(kinds, "consumer_of", lambda _: found.open_consumer)
    return found


@pytest.fixture
def run(database: Database, broker: MemoryBroker) -> Run:
    """Runs a worker that reads the source `results`; arguments are settings of the source."""

    @asynccontextmanager
    async def running(
        kind: str = "nats",
        *,
        dsn: str | None = None,
        statement_timeout: str = "30s",
        **source: Any,
    ) -> AsyncIterator[None]:
        given = {"broker": "memory", "type": "match.result", "page_rows": 10, "prefetch": 20}
        own: dict[str, dict[str, Any]] = {
            "nats": {"nats_stream": "results"},
            "kafka": {"kafka_topics": ["results"]},
            "rabbitmq": {"rabbitmq_queue": "results"},
        }
        settings = Settings.model_validate(
            {
                "database": {
                    "dsn": dsn or database.dsn,
                    "statement_timeout": statement_timeout,
                },
                "worker": {"heartbeat_interval": "1s", "poll_interval": "1s", "lease": "6s"},
                "brokers": {"memory": {"kind": kind, "servers": ["127.0.0.1:1"]}},
                "inbound": {"messages": {"results": {**given, **own[kind], **source}}},
            }
        )
        async with worker(settings, handlers=[_plugin()]):
            yield

    return running


def _plugin() -> Handlers:
    handlers = Handlers("reader")

    @handlers.event("nothing.of.it")
    async def pass_by(event: Event[Any], ctx: EventContext) -> None:
        """Handle a type that no test sends, so that all events stay unsettled."""

    return handlers
