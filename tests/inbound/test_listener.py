"""One connection of the listener: its requests, answers and end, over real sockets."""

from typing import Any

import anyio
import pytest
import structlog

from tests.inbound.listening import Echo, listening, one_answer, post, rest, status, statuses

pytestmark = pytest.mark.anyio


async def test_a_connection_serves_several_requests() -> None:
    async with listening() as on, await on.connect() as client:
        for body in (b"a", b"", b"c" * 300_000):
            await client.send(post(body))
            answer = await one_answer(client)
            assert status(answer) == 202
            assert b"connection" not in answer.lower()
            assert b"date: " in answer
        assert on.bodies == [b"a", b"", b"c" * 300_000]


async def test_a_request_may_arrive_byte_by_byte() -> None:
    async with listening() as on, await on.connect() as client:
        for byte in post(b"slow"):
            await client.send(bytes([byte]))
        assert status(await one_answer(client)) == 202
        assert on.bodies == [b"slow"]


async def test_http_1_0_is_answered_and_closed() -> None:
    async with listening() as on:
        answer = await on.ask(b"POST / HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi")
        assert status(answer) == 202
        assert on.bodies == [b"hi"]


async def test_connection_close_ends_the_connection() -> None:
    async with listening() as on:
        answer = await on.ask(post(b"x", b"Connection: close"))
        assert status(answer) == 202
        assert answer.lower().count(b"connection: close") == 1


async def test_a_client_that_shuts_its_writing_side_gets_the_answer() -> None:
    async with listening() as on, await on.connect() as client:
        await client.send(post())
        await client.send_eof()
        assert status(await rest(client)) == 202


async def test_100_continue_is_sent_only_for_a_wanted_body() -> None:
    echo = Echo()
    async with listening(echo) as on:
        async with await on.connect() as client:
            await client.send(post(b"hello", b"Expect: 100-continue").removesuffix(b"hello"))
            assert await client.receive() == b"HTTP/1.1 100 Continue\r\n\r\n"
            await client.send(b"hello")
            assert status(await one_answer(client)) == 202
        echo.early = 401
        async with await on.connect() as client:
            await client.send(post(b"hello", b"Expect: 100-continue").removesuffix(b"hello"))
            answer = await rest(client)
            assert status(answer) == 401
            assert b"connection: close" in answer
        assert on.bodies == [b"hello"]


@pytest.mark.parametrize("size", [100, 5_000_000])
async def test_an_early_answer_arrives_while_the_body_is_sent(size: int) -> None:
    async with listening(Echo(early=413)) as on, await on.connect() as client:
        head, body = post(b"x" * size).split(b"\r\n\r\n")
        await client.send(head + b"\r\n\r\n")
        answer = await one_answer(client)
        assert status(answer) == 413
        assert answer.lower().count(b"connection: close") == 1
        await client.send(body)  # without a reset
        assert await rest(client) == b""


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with listening() as on, await on.connect() as client:
        await client.send(post(b"1") + post(b"2") + post(b"3", b"Connection: close"))
        assert statuses(await rest(client)) == [202, 202, 202]
        assert on.bodies == [b"1", b"2", b"3"]


async def test_too_many_pipelined_requests_end_the_connection_after_their_answers() -> None:
    async with listening() as on, await on.connect() as client:
        await client.send(post(b"1") * 1000)
        assert set(statuses(await rest(client))) == {202}
        assert len(on.bodies) < 100
        assert "pipelined" in on.refused


async def test_an_offered_upgrade_is_ignored() -> None:
    headers = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")
    async with listening() as on, await on.connect() as client:
        await client.send(post(b"first", *headers))
        assert status(await one_answer(client)) == 202
        await client.send(post(b"second"))
        assert status(await one_answer(client)) == 202
        assert on.bodies == [b"first", b"second"]


async def test_a_failing_application_is_answered_500() -> None:
    class Failing(Echo):
        def take(self, _scope: Any, _body: bytes, _answer: Any) -> None:
            raise LookupError("on purpose")

    with structlog.testing.capture_logs() as logged:
        async with listening(Failing()) as on:
            for sent in (post(), post() * 3):
                answered = await on.ask(sent)
                assert statuses(answered) == [500]
                assert b"connection: close" in answered
                assert b"purpose" not in answered
            assert on.refused == []
    assert [line["log_level"] for line in logged] == ["error"] * 2


async def test_an_answer_during_a_drain_closes_the_connection() -> None:
    async with listening() as on, await on.connect() as busy, await on.connect() as idle:
        await busy.send(post())
        await one_answer(busy)
        await idle.send(post())
        await one_answer(idle)
        async with anyio.create_task_group() as group:
            group.start_soon(on.listener.drain, 5.0)
            await anyio.lowlevel.checkpoint()
            await busy.send(post())
            answer = await rest(busy)
            assert status(answer) == 202
            assert b"connection: close" in answer
            assert await rest(idle) == b""
            for client in (busy, idle):
                await client.aclose()
            with pytest.raises(OSError, match="connection"):
                await on.connect()
        assert on.listener.connections == 0
