"""Random bytes: the listener does not crash, and accepts whole requests only."""

import logging
from collections.abc import Iterator

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.inbound.listening import Echo, TakingEcho, bound, listening, post, rest, statuses

CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"
_FRAGMENTS = st.sampled_from(
    [
        *(b"POST / HTTP/1.1\r\n", b"GET ", b" HTTP/1.0\r\n", b"\r\n", b"\n", b"\r", b": ", b" "),
        *(b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Connection: close\r\n"),
        *(b"Upgrade: h2c\r\nConnection: Upgrade\r\n", b"Expect: 100-continue\r\n", b"0\r\n\r\n"),
        *(b"5\r\nhello\r\n", b"\x00", b"\xff" * 9, b"hello", b"ffffffff\r\n"),
    ]
)
_ECHOES = st.builds(Echo) | st.builds(TakingEcho)
_SENT = st.lists(st.one_of(_FRAGMENTS, st.binary(max_size=40)), max_size=12).map(b"".join)


@pytest.fixture
def errors(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    with caplog.at_level(logging.WARNING):
        yield caplog


def exchange(sent: bytes, parts: int, echo: Echo) -> tuple[bytes, list[bytes]]:
    """Send the bytes in parts, shut the writing side, and read to the end."""

    async def run() -> tuple[bytes, list[bytes]]:
        async with listening(echo, sockets=[bound()], body_timeout="50ms") as on:
            async with await on.connect() as client:
                step = max(1, len(sent) // parts)
                try:
                    for start in range(0, len(sent), step):
                        await client.send(sent[start : start + step])
                    await client.send_eof()
                except anyio.BrokenResourceError:
                    pass
                answered = await rest(client)
            async with await on.connect() as client:  # the listener still serves
                await client.send(post(b"after", b"Connection: close"))
                assert statuses(await rest(client)) == [202]
        return answered, echo.bodies[:-1]

    return anyio.run(run, backend_options={"use_uvloop": True})


@given(sent=_SENT, parts=st.integers(1, 5), echo=_ECHOES)
@settings(
    max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_random_bytes_never_crash_the_listener(
    errors: pytest.LogCaptureFixture, sent: bytes, parts: int, echo: Echo
) -> None:
    answered, bodies = exchange(sent, parts, echo)
    assert len([each for each in statuses(answered) if each == 202]) == len(bodies)
    assert set(statuses(answered)) <= {100, 202, 400, 408}
    if b" HTTP/1." not in sent:
        assert bodies == []
    assert errors.records == []


@given(
    whole=st.sampled_from([post(b"hello"), CHUNKED]),
    cut=st.integers(1, 60),
    parts=st.integers(1, 5),
    echo=_ECHOES,
)
@settings(max_examples=50, deadline=None)
def test_a_truncated_request_is_never_accepted(
    whole: bytes, cut: int, parts: int, echo: Echo
) -> None:
    answered, bodies = exchange(whole[:-cut], parts, echo)
    assert bodies == []
    assert 202 not in statuses(answered)
