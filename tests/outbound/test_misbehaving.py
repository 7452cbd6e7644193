"""Misbehaving targets: a request ends in time, within bounds, and its error names the cause."""

import asyncio
import contextlib
import socket
import subprocess
import sys
import time
import tracemalloc
from collections.abc import AsyncIterator

import orjson
import pytest

from inboxd.errors import TargetUnreachable
from inboxd.outbound.client import TargetClient
from tests.outbound.asking import an_ask
from tests.support.http_target import Target
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with Target() as target:
        yield target


@pytest.fixture
async def client() -> AsyncIterator[TargetClient]:
    async with TargetClient(connect_timeout=10) as client:
        yield client


@pytest.mark.parametrize(
    "path", ["/silent", "/slow", "/drip", "/drip/head", "/endless", "/endless/length"]
)
async def test_a_request_ends_in_time(target: Target, client: TargetClient, path: str) -> None:
    began = time.monotonic()
    with bounded(), pytest.raises(TargetUnreachable, match=r"^127.0.0.1 did not answer within 1 s"):
        await client.ask(an_ask(target.url(path), timeout=1, most_answer=10**12))
    assert time.monotonic() - began > 0.9
    await target.until(lambda: target.open == 0)


async def test_informational_answers_are_not_the_answer(
    target: Target, client: TargetClient
) -> None:
    with pytest.raises(TargetUnreachable):
        await client.ask(an_ask(target.url("/informational"), timeout=0.3))
    await target.until(lambda: target.open == 0)


@pytest.mark.parametrize("path", ["/endless", "/endless/length"])
async def test_an_endless_answer_takes_bounded_memory(
    target: Target, client: TargetClient, path: str
) -> None:
    tracemalloc.start()
    try:
        answer = await client.ask(an_ask(target.url(path), most_answer=1_000_000))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (answer.cut, len(answer.body)) == (True, 1_000_000)
    assert peak < 8_000_000, "the answer, its pieces, and data in transit"
    await target.until(lambda: target.open == 0)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("/reset", "closed the connection without an answer|was lost"),
        ("/reset/head", "closed the connection without an answer|was lost|not valid HTTP"),
        ("/reset/body", "within its answer|was lost"),
        ("/close", "it closed the connection without an answer"),
        ("/short", "it closed the connection within its answer"),
        ("/garbage", "its answer is not valid HTTP"),
        ("/garbage/chunks", "within its answer|not valid HTTP"),
        ("/headers", "or has too many or too long headers"),
        ("/headers/long", "or has too many or too long headers"),
    ],
)
async def test_a_broken_answer_is_a_temporary_failure_with_its_cause(
    target: Target, client: TargetClient, path: str, reason: str
) -> None:
    with pytest.raises(TargetUnreachable, match=reason) as caught:
        await client.ask(an_ask(target.url(path)))
    assert "secret-of-the-server" not in str(caught.value)
    await target.until(lambda: target.open == 0)


async def test_bytes_behind_an_answer_are_not_the_next_answer(
    target: Target, client: TargetClient
) -> None:
    assert (await client.ask(an_ask(target.url("/long")))).body == b"ok"
    assert (await client.ask(an_ask(target.url("/ok?body=next")))).body == b"next"
    assert target.connections == 2


async def test_a_port_without_a_listener_is_unreachable(client: TargetClient) -> None:
    async with Target() as target:
        url = target.url()
    with pytest.raises(TargetUnreachable, match="the connection failed"):
        await client.ask(an_ask(url))


async def test_a_listener_that_does_not_accept_is_unreachable() -> None:
    listening = socket.socket()
    fillers = []
    with contextlib.closing(listening):
        listening.bind(("127.0.0.1", 0))
        listening.listen(0)
        for _ in range(3):  # the queue is full: further connections get no reply
            fillers.append(filler := socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listening.getsockname())
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        async with TargetClient(connect_timeout=0.2) as client:
            with (
                bounded(),
                pytest.raises(TargetUnreachable, match=r"accepted no connection within 0\.[23]"),
            ):
                await client.ask(an_ask(url, timeout=3600))
        for filler in fillers:
            filler.close()


@pytest.mark.parametrize("method", ["POST", "PATCH"])
@pytest.mark.parametrize("path", ["/close", "/reset", "/short"])
async def test_a_post_is_sent_once(
    target: Target, client: TargetClient, method: str, path: str
) -> None:
    await client.ask(an_ask(target.url()))
    with pytest.raises(TargetUnreachable):  # on the reused connection
        await client.ask(an_ask(target.url(path), method=method))
    assert [each.method for each in target.seen] == ["POST", method]
    assert [each.connection for each in target.seen] == [1, 1]


async def test_an_idempotent_method_is_sent_at_most_twice(
    target: Target, client: TargetClient
) -> None:
    with pytest.raises(TargetUnreachable):
        await client.ask(an_ask(target.url("/close"), method="PUT"))
    assert len(target.seen) == 2
    target.plan.extend(["/close", "/ok"])
    assert (await client.ask(an_ask(target.url("/x"), method="GET", body=b""))).status == 200


async def test_a_target_that_closes_after_each_answer_is_asked_again(
    target: Target, client: TargetClient
) -> None:
    for number in range(1, 6):
        assert (await client.ask(an_ask(target.url("/close/after")))).status == 200
        await target.until(lambda: target.open == 0)
        await asyncio.sleep(0)  # the loop reads the end of the connection
        assert len(target.seen) == number


async def test_the_test_target_also_runs_as_a_process(client: TargetClient) -> None:
    process = subprocess.Popen(  # noqa: ASYNC220 - it is there at once
        [sys.executable, "-m", "tests.support.http_target"], stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        ports = orjson.loads(process.stdout.readline())
        reader, writer = await asyncio.open_connection("127.0.0.1", ports["control"])
        writer.write(b'{"plan": ["/status/503?retry-after=7"]}\n')
        await reader.readline()
        url = f"http://127.0.0.1:{ports['port']}/a"
        assert (await client.ask(an_ask(url))).headers["retry-after"] == "7"
        assert (await client.ask(an_ask(url))).status == 200
        writer.write(b'{"down": true}\n')
        told = orjson.loads(await reader.readline())
        assert [each["path"] for each in told["seen"]] == ["/a", "/a"]
        with pytest.raises(TargetUnreachable):
            await client.ask(an_ask(url))
        writer.close()
    finally:
        process.terminate()
        process.communicate()
