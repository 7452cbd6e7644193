"""The HTTP server of metrics and health, over real sockets."""

import select
import signal
import socket
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx
import pytest
from anyio.abc import TaskGroup

from inboxd.admin import server
from inboxd.admin.http import application
from inboxd.admin.server import HealthPart, serve
from inboxd.telemetry.metrics import Metrics
from tests.support import eventually
from tests.support.waiting import bounded, patient

pytestmark = pytest.mark.anyio


@dataclass
class Told:
    """Health that a test sets."""

    alive: list[HealthPart] = field(
        default_factory=lambda: [HealthPart("lease", ok=True, detail="2 s old")]
    )
    works: list[HealthPart] = field(default_factory=lambda: [HealthPart("database", ok=True)])

    def live(self) -> list[HealthPart]:
        return self.alive

    def ready(self) -> list[HealthPart]:
        return self.works


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def metrics() -> Metrics:
    return Metrics("1.2.3")


async def started(group: TaskGroup, metrics: Metrics, told: Told) -> int:
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    await group.start(serve, [listener], application(metrics, told))
    assert isinstance(port, int)
    return port


@pytest.fixture
async def client(metrics: Metrics, told: Told) -> AsyncIterator[httpx.AsyncClient]:
    async with anyio.create_task_group() as group:
        port = await started(group, metrics, told)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=patient()
        ) as client:
            yield client
        group.cancel_scope.cancel()


async def test_silent_connections_do_not_block_a_probe(
    client: httpx.AsyncClient,
) -> None:
    port = client.base_url.port
    silent = [socket.create_connection(("127.0.0.1", port)) for _ in range(300)]
    try:
        for each in silent[::2]:
            each.sendall(b"GET /healthz HTTP/1.1\r\nX: ")  # an unfinished head

        async def is_answered() -> bool:
            return (await client.get("/healthz")).status_code == 200

        await eventually(is_answered)

        async def are_closed() -> bool:
            return all(_is_closed(each) for each in silent)

        await eventually(are_closed)
    finally:
        for each in silent:
            each.close()


async def test_too_many_connections_do_not_block_a_probe(
    client: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """New connections come faster than silent ones time out."""
    monkeypatch.setattr(server, "_HEAD_SECONDS", 3600)
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 32)
    port = client.base_url.port
    silent: list[socket.socket] = []
    try:
        for _ in range(4):
            for _ in range(40):
                each = socket.create_connection(("127.0.0.1", port))
                each.sendall(b"GET /healthz HTTP/1.1\r\n")  # an unfinished head
                silent.append(each)
            answer = await asked_anew(port)
            assert answer.status_code == 200

        async def gave_way() -> bool:
            return sum(not _is_closed(each) for each in silent) <= 32

        await eventually(gave_way)
        assert _is_closed(silent[0]), "the oldest connection is closed first"
        assert not _is_closed(silent[-1])
    finally:
        for each in silent:
            each.close()


async def test_unread_answers_do_not_block_a_probe(
    client: httpx.AsyncClient, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their clients never read, so they fill the kernel's buffers and would wait forever."""
    parts = list(told.alive)
    told.alive.append(HealthPart("much", ok=True, detail="x" * 16_000_000))
    monkeypatch.setattr(server, "_MAX_CONNECTIONS", 4)
    port = client.base_url.port
    unread = [socket.create_connection(("127.0.0.1", port)) for _ in range(4)]
    try:
        for each in unread:
            each.sendall(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")

        async def have_begun() -> bool:
            return len(select.select(unread, [], [], 0)[0]) == len(unread)

        await eventually(have_begun)
        told.alive = parts
        assert (await asked_anew(port)).status_code == 200, "an unread connection was closed for it"
        monkeypatch.setattr(server, "_ALL_SECONDS", 0)

        async def are_closed() -> bool:
            return all(_has_ended(each) for each in unread)

        await eventually(are_closed)
    finally:
        for each in unread:
            each.close()


async def asked_anew(port: int | None) -> httpx.Response:
    """Send a request on a new connection."""
    async with httpx.AsyncClient(trust_env=False, timeout=patient()) as client:
        return await client.get(f"http://127.0.0.1:{port}/healthz")


def _has_ended(connection: socket.socket) -> bool:
    """Read all that arrived; whether the server has closed the connection."""
    connection.setblocking(False)
    try:
        while connection.recv(1 << 20):
            pass
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True
    return True


def _is_closed(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionResetError:
        return True


async def test_metrics_as_text(client: httpx.AsyncClient, metrics: Metrics) -> None:
    metrics.tally.add("event", "a.b", "succeeded", 0.1, 0.1)
    answer = await client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    assert 'inboxd_events_total{outcome="succeeded",type="a.b"} 1.0' in answer.text


async def test_only_the_metrics_that_are_named(client: httpx.AsyncClient, metrics: Metrics) -> None:
    metrics.tally.add("event", "a.b", "succeeded", 0.1, 0.1)
    names = (
        *("inboxd_events_total", "inboxd_handler_duration_seconds_count"),
        *("inboxd_dedup_forgotten_created", "nothing"),  # the page lacks both
    )
    answer = await client.get("/metrics", params={"name[]": names})
    samples = [line for line in answer.text.splitlines() if not line.startswith("#")]
    assert samples == [
        'inboxd_events_total{outcome="succeeded",type="a.b"} 1.0',
        'inboxd_handler_duration_seconds_count{kind="event",type="a.b"} 1.0',
    ]


async def test_metrics_as_openmetrics(client: httpx.AsyncClient) -> None:
    accept = {"accept": "application/openmetrics-text; version=1.0.0"}
    answer = await client.get("/metrics", headers=accept)
    assert answer.headers["content-type"].startswith("application/openmetrics-text")
    assert answer.text.endswith("# EOF\n")


@pytest.mark.parametrize(("path", "parts"), [("/healthz", "alive"), ("/readyz", "works")])
async def test_health_is_200_or_503_with_the_reason(
    client: httpx.AsyncClient, told: Told, path: str, parts: str
) -> None:
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["ok"]) == (200, True)
    getattr(told, parts).append(HealthPart("schema", ok=False, detail="run `inboxd migrate`"))
    answer = await client.get(path)
    assert (answer.status_code, answer.json()["ok"]) == (503, False)
    assert answer.headers["cache-control"] == "no-store"
    wanted = {"name": "schema", "ok": False, "detail": "run `inboxd migrate`"}
    assert answer.json()["parts"][-1] == wanted


async def test_only_get_and_head(client: httpx.AsyncClient) -> None:
    head = await client.head("/healthz")
    assert (head.status_code, head.content) == (200, b"")
    answer = await client.post("/healthz", content=b"x" * 100_000)
    assert answer.status_code == 405
    assert "GET" in answer.headers["allow"]


async def test_unknown_path_lists_the_known(client: httpx.AsyncClient) -> None:
    answer = await client.get("/admin")
    assert answer.status_code == 404
    assert answer.json()["paths"] == ["/metrics", "/healthz", "/readyz"]


async def test_health_that_raises_is_a_500_and_the_next_answer_is_fine(
    client: httpx.AsyncClient, told: Told
) -> None:
    parts, told.alive = told.alive, None  # type: ignore[assignment]
    assert (await client.get("/healthz")).status_code == 500
    told.alive = parts
    assert (await client.get("/healthz")).status_code == 200


async def test_signals_stay_the_daemons(client: httpx.AsyncClient) -> None:
    # The server runs: uvicorn's own handler would be here by now.
    assert (await client.get("/healthz")).status_code == 200
    assert "uvicorn" not in repr(signal.getsignal(signal.SIGTERM))


async def test_cancelled_server_has_closed_everything(metrics: Metrics, told: Told) -> None:
    with bounded():
        async with anyio.create_task_group() as group:
            port = await started(group, metrics, told)
            stream: Any = await anyio.connect_tcp("127.0.0.1", port)
            await stream.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
            assert b"200 OK" in await stream.receive()
            group.cancel_scope.cancel()
        async with stream:
            with pytest.raises(anyio.EndOfStream):
                await stream.receive()
        with pytest.raises(OSError, match=r"failed|refused"):
            await anyio.connect_tcp("127.0.0.1", port)


async def test_accepted_connections_are_answered_at_shutdown(metrics: Metrics, told: Told) -> None:
    """No client notices that one of several processes stops while its request is on its way."""
    with bounded():
        async with anyio.create_task_group() as group:
            port = await started(group, metrics, told)
            early: Any = await anyio.connect_tcp("127.0.0.1", port)
            async with httpx.AsyncClient(trust_env=False) as client:
                # Its answer shows that the server has accepted `early`, which came first.
                await client.get(f"http://127.0.0.1:{port}/healthz")
            group.cancel_scope.cancel()
            with anyio.CancelScope(shield=True):
                await refused(port)
                async with early:
                    await early.send(b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n")
                    assert b"200 OK" in await early.receive()


async def refused(port: int) -> None:
    """Wait until the port accepts no connection."""

    async def is_refused() -> bool:
        try:
            await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
        except OSError:
            return True
        return False

    await eventually(is_refused)
