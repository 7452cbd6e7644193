"""A receiver without its database listens, and works as soon as the database is there."""

import pytest

from inboxd.embedded import Server
from tests.support import Database
from tests.support.received import verify
from tests.support.receiver import MakeProvider, StartReceiver

pytestmark = pytest.mark.anyio


async def _states(database: Database) -> list[str]:
    return [row["state"] for row in await database.fetch("select state from inboxd.receivers")]


async def test_a_receiver_without_a_database_listens_until_there_is_one(
    durable_server: Server,
    inbox: Database,
    start_receiver: StartReceiver,
    provider_of: MakeProvider,
) -> None:
    with durable_server.outage():
        receiver = await start_receiver(ready=False, http={"answer_within": "500ms"})
        await receiver.logged("receiving webhooks")
        assert (await receiver.get("/readyz"))[0] == 503
        assert (await receiver.get("/healthz"))[0] == 200
        provider = provider_of(receiver)
        entry = await provider.offer("a")
        [answer] = entry.answers
        assert answer.status == 503
        assert int(answer.headers["retry-after"]) > 0
    await receiver.ready()
    assert (await provider.offer("b")).accepted
    await verify(inbox, provider)
    assert await _states(inbox) == ["running"]


async def test_a_receiver_is_ready_after_an_outage(
    durable_server: Server,
    inbox: Database,
    start_receiver: StartReceiver,
    provider_of: MakeProvider,
) -> None:
    """Otherwise the first requests after an outage would wait for a probe."""
    receiver = await start_receiver()
    with durable_server.outage():
        await receiver.logged("the receiver cannot use the database")
        assert (await receiver.get("/readyz"))[0] == 200
    await receiver.logged("the receiver can use the database again")
    assert (await provider_of(receiver).offer("a")).accepted
    assert await _states(inbox) == ["running"]
