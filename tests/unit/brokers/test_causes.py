"""Why a broker cannot be reached, in the system's words, on both event loops."""

import asyncio
import socket
from collections.abc import Callable

import pytest
import uvloop

from inboxd.brokers.causes import cause_of
from tests.support.ports import held_port


@pytest.mark.parametrize("loop", [asyncio.new_event_loop, uvloop.new_event_loop])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_has_the_same_cause_on_both_loops(
    loop: Callable[[], asyncio.AbstractEventLoop], host: str
) -> None:
    with (
        held_port() as held,
        asyncio.Runner(loop_factory=loop) as runner,
        pytest.raises(OSError) as told,  # noqa: PT011 - of any kind: its words are looked at
    ):
        runner.run(_connect(host, held.getsockname()[1]))
    assert cause_of(told.value) == "Connection refused"


async def _connect(host: str, port: int) -> None:
    await asyncio.open_connection(host, port)


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OSError(
                "Multiple exceptions: [Errno 111] Connect call failed ('::1', 1, 0, 0), "
                "[Errno 113] Connect call failed ('127.0.0.1', 1)"
            ),
            "Connection refused or No route to host",
        ),
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ConnectionResetError("it closed the connection"), "it closed the connection"),
        (TimeoutError(), "TimeoutError"),
    ],
)
def test_the_cause_of_an_error(error: OSError, told: str) -> None:
    assert cause_of(error) == told
