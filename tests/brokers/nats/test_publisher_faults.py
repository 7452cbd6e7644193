"""A publisher while NATS is away or hangs: each message arrives at least once, and none late."""

import json
from collections.abc import Iterator

import anyio
import pytest
from nats.aio.msg import Msg
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NatsTimeoutError

from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.nats import open_publisher
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker
from tests.brokers.nats.conftest import Stream, broker_at
from tests.brokers.nats.publishing import Told, publisher_at, some_messages
from tests.support import eventually
from tests.support.nats import NatsServer, jetstream, nats_client, nats_server
from tests.support.tcp_proxy import TcpProxy, tcp_proxy
from tests.support.verdicts import safety
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


@pytest.fixture
def proxy(server: NatsServer) -> Iterator[TcpProxy]:
    """A proxy before the server, whose connections a test can cut."""
    with tcp_proxy(server.host, server.port) as running:
        yield running


async def test_unconfirmed_messages_are_published_again_after_a_cut(
    proxy: TcpProxy, stream: Stream
) -> None:
    page = some_messages(f"{stream.prefix}.a", 100)
    told = Told()

    async def cut() -> None:
        await eventually(lambda: _has(stream, 100))
        proxy.cut()

    async with (
        publisher_at(broker_at(proxy.address)) as publisher,
        anyio.create_task_group() as all_,
    ):
        with proxy.hold("to_client"):
            all_.start_soon(cut)
            with pytest.raises(BrokerUnavailable, match="the connection is lost"):
                await publisher.publish(page, told)
        with pytest.raises(BrokerUnavailable):  # a publisher does not reconnect
            await publisher.publish(page, told)
    with safety():
        assert told.errors == {}
    async with publisher_at(broker_at(proxy.address)) as publisher:
        await publisher.publish(page, told)
    with safety():
        assert told.confirmed == list(range(100))
        assert await stream.count() == 100


async def test_a_server_restarted_under_load_has_all_messages_in_the_end() -> None:
    failures: list[str] = []
    pages: list[str] = []
    loaded, back = anyio.Event(), anyio.Event()

    async def publish(broker: Broker) -> None:
        after = 0
        while after < 3:
            pages.append(f"all.{len(pages)}")
            await publish_until_confirmed(broker, some_messages(pages[-1], 100), failures)
            after += back.is_set()
            if len(pages) == 5:
                loaded.set()

    with nats_server() as server:
        async with jetstream(server) as js:
            await js.add_stream(name="ALL", subjects=["all.>"])
        async with anyio.create_task_group() as all_:
            all_.start_soon(publish, broker_at(server.address))
            await loaded.wait()
            await anyio.to_thread.run_sync(server.stop)
            await eventually(lambda: _said(failures))
            await anyio.to_thread.run_sync(server.start)
            back.set()
        async with jetstream(server) as js:
            found = (await js.stream_info("ALL", subjects_filter=">")).state.subjects
    with safety():
        assert found is not None
        assert {page for page in pages if found.get(page, 0) < 100} == set()


async def test_a_server_that_hangs_gets_nothing_later(server: NatsServer, stream: Stream) -> None:
    page = some_messages(f"{stream.prefix}.a", 1000, body=b"x" * 50_000)  # larger than buffers
    publisher = await open_publisher("main", broker_at(server.address, connect_timeout="1h"))
    inbox = publisher._connection.inbox
    told = Told()
    with server.stopped():
        with anyio.move_on_after(0.3) as limit:
            await publisher.publish(page, told)
        assert limit.cancelled_caught
        with bounded():
            await publisher.close()
    await eventually(lambda: _connection_has_ended(stream, inbox))
    with safety():
        assert told.errors == {}
        # The data that the server's system had already received, and no more.
        assert await stream.count() < 500
    with pytest.raises(BrokerUnavailable):
        await publisher.publish(page, told)


async def test_a_page_that_was_cancelled_leaves_a_lost_connection(
    proxy: TcpProxy, stream: Stream
) -> None:
    page = some_messages(f"{stream.prefix}.a", 10)
    async with publisher_at(broker_at(proxy.address)) as publisher:
        with proxy.hold("to_client"), anyio.move_on_after(0.1):
            await publisher.publish(page, Told())
        await eventually(lambda: _none(proxy))
        with pytest.raises(BrokerUnavailable):
            await publisher.publish(page, Told())


@pytest.mark.parametrize("code", [10008, 10009, 10167])
async def test_an_error_that_passes_by_itself_is_no_refusal(
    server: NatsServer, stream: Stream, broker: Broker, code: int
) -> None:
    """A subscriber answers in place of a stream, as JetStream does while it elects a leader."""
    told, subject = Told(), f"passing.{code}"

    async def answer(message: Msg) -> None:
        error = {"code": 503, "err_code": code, "description": "try later"}
        await message.respond(json.dumps({"error": error, "stream": "S", "seq": 0}).encode())

    async with nats_client(server) as client, publisher_at(broker) as publisher:
        await client.subscribe(subject, cb=answer)
        await client.flush()
        page = [*some_messages(f"{stream.prefix}.a", 1), *some_messages(subject, 1)]
        with pytest.raises(BrokerUnavailable, match="S does not take messages now: try later"):
            await publisher.publish(page, told)
    with safety():
        assert told.errors == {0: None}


async def test_close_is_immediate_and_may_be_repeated(broker: Broker) -> None:
    publisher = await open_publisher("main", broker)
    await publisher.close()
    await publisher.close()
    with pytest.raises(BrokerUnavailable, match="it was closed"):
        await publisher.publish(some_messages("a", 1), Told())


async def publish_until_confirmed(
    broker: Broker, page: list[OutgoingMessage], failures: list[str]
) -> None:
    """Repeat unconfirmed messages over another connection, as a relay does."""
    told = Told()
    while len(told.confirmed) < len(page):
        left = [each for place, each in enumerate(page) if place not in told.errors]
        again = Told()
        try:
            async with publisher_at(broker) as publisher:
                await publisher.publish(left, again)
        except BrokerUnavailable as error:
            failures.append(str(error))
            await anyio.sleep(0.01)
        for place in again.confirmed:
            told(page.index(left[place]), None)


async def _has(stream: Stream, count: int) -> bool:
    return await stream.count() == count


async def _said(failures: list[str]) -> bool:
    return bool(failures)


async def _none(proxy: TcpProxy) -> bool:
    return not proxy.count()


async def _connection_has_ended(stream: Stream, inbox: str) -> bool:
    """Whether the server has read all data of that connection, and seen its end."""
    try:
        await stream.js._nc.request(f"{inbox}.0", timeout=0.2)
    except NoRespondersError:
        return True
    except NatsTimeoutError:
        return False
    return False
