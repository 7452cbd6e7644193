"""A publisher to NATS JetStream: which messages arrive, are confirmed, or refused, and why."""

import functools

import anyio
import nats.errors
import pytest
from nats.aio.msg import Msg
from nats.js import JetStreamContext

from inboxd.brokers.contract import OutgoingMessage
from inboxd.brokers.nats import publisher as module
from inboxd.brokers.nats.connection import NatsConnection
from inboxd.errors import BrokerUnavailable
from inboxd.settings import Broker
from tests.brokers.nats.conftest import Stream, broker_at, make_stream
from tests.brokers.nats.publishing import Told, a_message, publisher_at, some_messages
from tests.support import eventually
from tests.support.nats import NatsServer, nats_client, nats_server
from tests.support.ports import held_port
from tests.support.verdicts import safety
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


async def test_a_page_is_in_the_stream_in_its_order_when_all_of_it_is_confirmed(
    broker: Broker, stream: Stream
) -> None:
    told = Told()
    async with publisher_at(broker) as publisher:
        page = some_messages(f"{stream.prefix}.a", 1000, body=b"x" * 200)
        await publisher.publish(page, told)
        with safety():
            assert told.confirmed == list(range(1000))
            assert await stream.count() == 1000
            subscription = await stream.js.subscribe(f"{stream.prefix}.a", ordered_consumer=True)
            for message in page:
                came = await subscription.next_msg()
                assert came.headers is not None
                assert came.headers["Nats-Msg-Id"] == f"{message.id}@{message.to}"
        await subscription.unsubscribe()


async def test_a_message_has_its_headers_and_is_a_cloud_event(
    broker: Broker, stream: Stream
) -> None:
    message = a_message(
        f"{stream.prefix}.a",
        body=b'{"a": 1}',
        headers={"traceparent": "00-1-2-03", "lineage": "zwölf"},
        attributes={"source": '/bets "ä" 100%'},
    )
    async with publisher_at(broker) as publisher:
        await publisher.publish([message], Told())
    came = await stream.js.get_msg(stream.name, 1)
    assert came.data == b'{"a": 1}'
    # nats-py reads the headers of requested messages like those of an e-mail.
    assert {name: str(value) for name, value in (came.headers or {}).items()} == {
        "Nats-Msg-Id": f"{message.id}@{message.to}",
        "content-type": "application/json",
        "traceparent": "00-1-2-03",
        "lineage": came.headers["lineage"] if came.headers else "",
        "ce-specversion": "1.0",
        "ce-id": "1",
        "ce-source": "/bets%20%22%C3%A4%22%20100%25",
        "ce-type": "t",
    }


async def test_a_repetition_is_confirmed_and_in_the_stream_once(
    broker: Broker, stream: Stream
) -> None:
    page = some_messages(f"{stream.prefix}.a", 3)
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, Told())
        told = Told()
        await publisher.publish(page, told)
    with safety():
        assert told.confirmed == [0, 1, 2]
        assert await stream.count() == 3


async def test_an_event_that_several_relays_publish_is_in_their_stream_once_for_each(
    broker: Broker, stream: Stream
) -> None:
    """A stream recognises repetitions by their id alone, whatever the subject."""
    copies = [
        a_message(f"{stream.prefix}.{to}", attributes={"id": "7"})._replace(id="7") for to in "ab"
    ]
    told, again = Told(), Told()
    async with publisher_at(broker) as publisher:
        await publisher.publish(copies[:1], told)
    async with publisher_at(broker) as publisher:
        await publisher.publish(copies, again)
    with safety():
        assert (told.confirmed, again.confirmed) == ([0], [0, 1])
        assert await stream.count() == 2
        came = [await stream.js.get_msg(stream.name, position) for position in (1, 2)]
        assert [each.subject for each in came] == [copy.to for copy in copies]
        assert [(each.headers or {})["ce-id"] for each in came] == ["7", "7"]


async def test_a_subject_that_no_stream_takes_is_refused_alone(
    broker: Broker, stream: Stream
) -> None:
    page = some_messages(f"{stream.prefix}.a", 5)
    page[2] = a_message("nobody.takes.this")
    told = Told()
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, told)
        with safety():
            assert told.confirmed == [0, 1, 3, 4]
        assert str(told.refused(2)) == (
            "no stream takes the subject 'nobody.takes.this': make one that does, or correct `to` "
            "of the relay."
        )
        assert not told.refused(2).for_good
        await publisher.publish(page[:1], Told())  # the publisher can still be used


async def test_a_stream_that_does_not_answer_makes_the_broker_unavailable(
    broker: Broker, stream: Stream, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream without a leader, or a server that stops, refuses nothing: no attempt is spent."""

    async def taker(_connection: NatsConnection, subject: str) -> str | None:
        return "RESULTS" if subject == "results.a" else None

    monkeypatch.setattr(module, "stream_that_takes", taker)
    page = [a_message("results.a"), a_message(f"{stream.prefix}.a"), a_message("nobody.takes.this")]
    told = Told()
    async with publisher_at(broker) as publisher:
        with pytest.raises(BrokerUnavailable, match=r"stream RESULTS does not answer .*results\.a"):
            await publisher.publish(page, told)
        with safety():
            assert told.confirmed == [1]
            assert told.refused(2).unroutable
            assert 0 not in told.errors
        with pytest.raises(BrokerUnavailable):  # the connection is cut, so nothing is sent later
            await publisher.publish(page, Told())


async def test_many_subjects_are_asked_about_side_by_side(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    asking, most = 0, 0
    all_ask = anyio.Event()

    async def taker(_connection: NatsConnection, _subject: str) -> None:
        nonlocal asking, most
        asking += 1
        most = max(most, asking)
        if asking == 20:
            all_ask.set()
        await all_ask.wait()
        asking -= 1

    monkeypatch.setattr(module, "stream_that_takes", taker)
    told = Told()
    async with publisher_at(broker) as publisher:
        with bounded():
            await publisher.publish([a_message(f"nobody.{n}") for n in range(50)], told)
    assert most == 20
    assert all(told.refused(place).unroutable for place in range(50))


async def test_subjects_without_a_stream_are_refused_and_unanswered_ones_spend_no_attempt(
    server: NatsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def taker(_connection: NatsConnection, subject: str) -> None:
        if subject == "slow.a":
            await anyio.sleep_forever()

    monkeypatch.setattr(module, "stream_that_takes", taker)
    page = [a_message("slow.a"), *(a_message(f"nobody.{number}") for number in range(30))]
    told = Told()
    broker = broker_at(server.address, connect_timeout="1s")
    async with publisher_at(broker) as publisher:
        with (
            bounded(),
            pytest.raises(BrokerUnavailable, match=r"not answer within 1 s which .* 'slow\.a'"),
        ):
            await publisher.publish(page, told)
    with safety():
        assert sorted(told.errors) == [*range(1, 31)]
    assert all(told.refused(place).unroutable for place in range(1, 31))


async def test_an_account_without_jetstream_reaches_the_streams_of_another() -> None:
    accounts = (
        "accounts { OWNER { jetstream: enabled, users: [{ user: owner, password: pw }], exports: "
        '[{ service: "orders.>" }] }, RELAY { users: [{ user: relay, password: pw }], imports: '
        '[{ service: { account: OWNER, subject: "orders.>" } }] } }'
    )
    told = Told()
    with nats_server(accounts) as server:
        async with nats_client(server, user="owner", password="pw") as owner:
            await owner.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
            broker = broker_at(server.address, user="relay", password="pw")
            async with publisher_at(broker) as publisher:
                await publisher.publish([a_message("orders.a"), a_message("others.a")], told)
            info = await owner.jetstream().stream_info("ORDERS")
    with safety():
        assert told.confirmed == [0]
        assert info.state.messages == 1
    assert told.refused(1).unroutable


async def test_missing_answers_beyond_leaf_nodes_are_an_error_with_a_remedy() -> None:
    """An account with leaf nodes and without JetStream leaves the answer to its leaf nodes."""
    with held_port() as held:
        port = held.getsockname()[1]
        users = (
            "{ user: relay, password: pw }, { user: careful, password: pw, permissions: "
            '{ publish: { deny: ["$JS.API.STREAM.NAMES"] } } }'
        )
        hub = (
            f"leafnodes {{ host: 127.0.0.1, port: {port} }}\n"
            f"accounts {{ RELAY {{ users: [{users}] }} }}"
        )
        leaf = (
            "accounts { EDGE { users: [{ user: edge, password: pw }] } }\n"
            "leafnodes { remotes: [{ account: EDGE, "
            f'url: "nats://relay:pw@127.0.0.1:{port}" }}] }}'
        )
        with nats_server(hub) as server, nats_server(leaf):
            await eventually(functools.partial(_is_silent, server))
            told = Told()
            broker = broker_at(server.address, user="relay", password="pw", connect_timeout="1s")
            with pytest.raises(BrokerUnavailable, match="deny the user"):
                async with publisher_at(broker) as publisher:
                    await publisher.publish([a_message("nobody.a")], told)
            with safety():
                assert not told.errors, "an outage is possible, so no attempt may be spent"
            broker = broker_at(server.address, user="careful", password="pw")
            async with publisher_at(broker) as publisher:
                await publisher.publish([a_message("nobody.a")], told)
    assert told.refused(0).unroutable


async def _is_silent(server: NatsServer) -> bool:
    """Whether the leaf node has connected: before, the server answers that JetStream is missing."""
    async with nats_client(server, user="relay", password="pw") as client:
        try:
            await client.request("$JS.API.INFO", b"", timeout=0.5)
        except nats.errors.TimeoutError:
            return True
    return False


async def test_a_user_without_the_right_to_list_streams_gets_the_refusal_at_once() -> None:
    users = (
        "authorization { users: [{ user: relay, password: pw, permissions: { publish: "
        '["mine.>"] } }] }'
    )
    told, again = Told(), Told()
    with nats_server(users) as server:
        broker = broker_at(server.address, user="relay", password="pw", connect_timeout="1h")
        async with publisher_at(broker) as publisher:
            with bounded():
                await publisher.publish([a_message("mine.a")], told)
                await publisher.publish([a_message("mine.a", 2)], again)
    assert "no stream takes the subject" in str(told.refused(0))
    assert "no stream takes the subject" in str(again.refused(0))


async def test_a_full_stream_refuses_messages_for_now(broker: Broker, js: JetStreamContext) -> None:
    stream = await make_stream(js, max_msgs=2, discard="new")
    told = Told()
    async with publisher_at(broker) as publisher:
        await publisher.publish(some_messages(f"{stream.prefix}.a", 3), told)
    with safety():
        assert told.confirmed == [0, 1]
    assert str(told.refused(2)) == (
        f"stream {stream.name} refuses the message: maximum messages exceeded."
    )
    assert not told.refused(2).for_good


async def test_a_message_too_large_for_the_stream_is_refused_for_good(
    broker: Broker, js: JetStreamContext
) -> None:
    stream = await make_stream(js, max_msg_size=1000)
    told = Told()
    async with publisher_at(broker) as publisher:
        page = some_messages(f"{stream.prefix}.a", 2)
        await publisher.publish([a_message(f"{stream.prefix}.a", 9, body=b"x" * 2000), *page], told)
    with safety():
        assert told.confirmed == [1, 2]
    assert str(told.refused(0)) == (
        f"stream {stream.name} refuses the message: message size exceeds maximum allowed."
    )
    assert told.refused(0).for_good


async def test_a_message_too_large_for_the_server_is_refused_for_good_unsent(
    broker: Broker, stream: Stream
) -> None:
    told = Told()
    page = [
        a_message(f"{stream.prefix}.a", 1, body=b"x" * 2**20),  # too large only with its headers
        a_message(f"{stream.prefix}.a", 2, body=b"x" * (2**20 - 1000)),
    ]
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, told)
    with safety():
        assert told.confirmed == [1]
    assert str(told.refused(0)).endswith(
        "bytes with its headers, and the server takes 1048576: make it smaller, or raise "
        "max_payload there."
    )
    assert told.refused(0).for_good


@pytest.mark.parametrize(
    "subject",
    [
        "",
        ".",
        "a..b",
        ".a",
        "a.",
        "a b",
        "a\tb",
        "a.*",
        "a.>",
        "*",
        "a\r\nPUB b 0\r\n\r\n",
        "$JS.API.STREAM.DELETE.X",
        "_INBOX.a.1",
        "\ud800",
        "a" * 4000,
    ],
)
async def test_an_invalid_subject_is_refused_for_good_alone(
    broker: Broker, stream: Stream, subject: str
) -> None:
    told = Told()
    async with publisher_at(broker) as publisher:
        await publisher.publish([a_message(subject), a_message(f"{stream.prefix}.a")], told)
    with safety():
        assert told.confirmed == [1]
    assert "is not a valid NATS subject" in str(told.refused(0))
    assert told.refused(0).for_good


@pytest.mark.parametrize(
    "headers",
    [{"a b": "c"}, {"a:b": "c"}, {"": "c"}, {"ä": "c"}, {"a": "b\r\nNats-Rollup: all"}],
)
async def test_an_invalid_header_is_refused_for_good(
    broker: Broker, stream: Stream, headers: dict[str, str]
) -> None:
    told = Told()
    page = [a_message(f"{stream.prefix}.a", 1, headers=headers), a_message(f"{stream.prefix}.a", 2)]
    async with publisher_at(broker) as publisher:
        await publisher.publish(page, told)
    with safety():
        assert told.confirmed == [1]
    assert told.refused(0).for_good


async def test_no_header_of_an_event_instructs_the_server(
    broker: Broker, js: JetStreamContext
) -> None:
    stream = await make_stream(js, allow_rollup_hdrs=True)
    await stream.fill(3)
    headers = {"Nats-Rollup": "all", "nats-msg-id": "1", "Content-Type": "a", "kept": "b"}
    async with publisher_at(broker) as publisher:
        await publisher.publish([a_message(f"{stream.prefix}.a", headers=headers)], Told())
    with safety():
        assert await stream.count() == 4
    came = await js.get_msg(stream.name, 4)
    assert came.headers is not None
    assert [name for name in came.headers if not name.startswith("ce-")] == [
        "Nats-Msg-Id",
        "content-type",
        "kept",
    ]


async def test_an_invalid_content_type_is_refused_for_good(broker: Broker, stream: Stream) -> None:
    told = Told()
    message = OutgoingMessage(
        to=f"{stream.prefix}.a", key=None, id="1", body=b"", content_type="a\r\nNats-Rollup: all"
    )
    async with publisher_at(broker) as publisher:
        await publisher.publish([message], told)
    assert told.refused(0).for_good


@pytest.mark.parametrize("answer", [b"thanks", b'{"ok": true}', b"7"])
async def test_an_answer_of_another_service_does_not_confirm(
    broker: Broker, js: JetStreamContext, answer: bytes
) -> None:
    answered = anyio.Event()

    async def respond(message: Msg) -> None:
        await js._nc.publish(message.reply, answer)
        await js._nc.flush()
        answered.set()

    subscription = await js._nc.subscribe("a.service", cb=respond)
    await js._nc.flush()
    told = Told()
    async with publisher_at(broker) as publisher, anyio.create_task_group() as all_:
        all_.start_soon(publisher.publish, [a_message("a.service")], told)
        await answered.wait()
        await publisher._connection.flush()  # the answer above has been read
        with safety():
            assert told.errors == {}
        all_.cancel_scope.cancel()
    await subscription.unsubscribe()


async def test_a_subject_that_the_user_may_not_publish_to_is_refused_alone() -> None:
    users = (
        "authorization { users: [{ user: relay, password: pw, permissions: { publish: "
        '["Mine.>", "$JS.API.>"] } }] }'
    )
    told = Told()
    with nats_server(users) as server:
        broker = broker_at(server.address, user="relay", password="pw")
        async with publisher_at(broker) as publisher:
            page = [a_message("Theirs.a"), a_message("Mine.a"), a_message("Theirs.a", 2)]
            await publisher.publish(page, told)
    assert str(told.refused(0)) == str(told.refused(2))
    assert str(told.refused(0)) == (
        'permissions violation for publish to "theirs.a": '
        "allow the broker's user to publish to it."
    )
    assert "no stream" in str(told.refused(1))
