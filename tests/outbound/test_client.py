"""Requests to a target: what is sent, what comes back, and that no state is kept between them."""

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from inboxd.errors import TargetRefused, TargetUnreachable
from inboxd.outbound.client import TargetClient
from tests.outbound.asking import an_ask
from tests.support.http_target import Target

pytestmark = pytest.mark.anyio


@pytest.fixture
async def target() -> AsyncIterator[Target]:
    async with Target() as target:
        yield target


@pytest.fixture
async def client() -> AsyncIterator[TargetClient]:
    async with TargetClient(connect_timeout=1) as client:
        yield client


async def test_an_answer_has_status_headers_and_body(target: Target, client: TargetClient) -> None:
    url = target.url("/status/404?x-one=1&X-Two=b&body=gone")
    answer = await client.ask(an_ask(url))
    assert (answer.status, answer.body, answer.cut) == (404, b"gone", False)
    assert answer.headers == {"content-length": "4", "x-one": "1", "x-two": "b"}
    assert 0 < answer.seconds < 5


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (b"text/\xff", "text/\ufffd"),
        (b"/caf\xe9", "/caf\ufffd"),
        ("/café".encode(), "/café"),
        (b"\xed\xa0\x80", "\ufffd\ufffd\ufffd"),
    ],
)
async def test_any_bytes_of_a_header_become_storable_text(
    client: TargetClient, raw: bytes, text: str
) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nx-a: %b\r\ncontent-length: 0\r\n\r\n" % raw)
        writer.close()
        await writer.wait_closed()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        answered = await client.ask(an_ask(f"http://127.0.0.1:{port}/", body=b""))
    assert answered.headers["x-a"] == text


async def test_a_request_is_sent_unchanged(target: Target, client: TargetClient) -> None:
    body = bytes(range(256))
    await client.ask(an_ask(target.url("/ok?a=%2F&b=1"), body=body, headers={"X-A": "1"}))
    (seen,) = target.seen
    assert (seen.method, seen.path, seen.body) == ("POST", "/ok?a=%2F&b=1", body)
    # Neither the type of the body nor an accepted encoding is added.
    assert set(seen.headers) == {"host", "accept", "x-a", "content-length"}


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS"])
async def test_each_method_is_sent(target: Target, client: TargetClient, method: str) -> None:
    path = "/status/204" if method == "HEAD" else "/ok"
    answer = await client.ask(an_ask(target.url(path), method=method, body=b""))
    assert answer.body == (b"" if method == "HEAD" else b"ok")
    assert target.seen[0].method == method


async def test_a_connection_is_reused(target: Target, client: TargetClient) -> None:
    for size in (0, 3, 100_000):
        answer = await client.ask(an_ask(target.url(f"/ok?size={size}")))
        assert len(answer.body) == size
    assert target.connections == 1


@pytest.mark.parametrize("most", [0, 1, 999_999])
async def test_a_too_long_answer_is_cut_and_its_connection_closed(
    target: Target, client: TargetClient, most: int
) -> None:
    answer = await client.ask(an_ask(target.url("/ok?size=5000000"), most_answer=most))
    assert (answer.status, answer.cut, answer.body) == (200, True, b"x" * most)
    await target.until(lambda: target.open == 0)
    assert not (await client.ask(an_ask(target.url()))).cut
    assert target.connections == 2


async def test_an_answer_of_exactly_the_maximum_is_whole(
    target: Target, client: TargetClient
) -> None:
    answer = await client.ask(an_ask(target.url("/ok?size=1000"), most_answer=1000))
    assert (len(answer.body), answer.cut) == (1000, False)


async def test_a_redirect_is_an_answer(target: Target, client: TargetClient) -> None:
    url = target.url("/status/307?location=http://169.254.169.254/latest/meta-data")
    answer = await client.ask(an_ask(url))
    assert (answer.status, answer.headers["location"]) == (
        307,
        "http://169.254.169.254/latest/meta-data",
    )
    assert len(target.seen) == 1


async def test_cookies_are_not_kept(target: Target, client: TargetClient) -> None:
    await client.ask(an_ask(target.url("/cookie", host="localhost")))
    await client.ask(an_ask(target.url("/ok", host="localhost")))
    assert "cookie" not in target.seen[1].headers


async def test_the_environment_is_not_used(
    target: Target, client: TargetClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login me password secret\n")
    netrc.chmod(0o600)
    monkeypatch.setenv("NETRC", str(netrc))
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("no_proxy", raising=False)
    assert (await client.ask(an_ask(target.url()))).status == 200
    assert "authorization" not in target.seen[0].headers
    assert os.environ["NETRC"] == str(netrc)


async def test_a_closed_client_has_no_connections_and_sends_nothing(target: Target) -> None:
    before = asyncio.all_tasks()
    client = TargetClient()
    await client.ask(an_ask(target.url()))
    await client.close()
    await client.close()
    with pytest.raises(TargetUnreachable, match="it sends no more requests"):
        await client.ask(an_ask(target.url()))
    del client
    gc.collect()  # an unclosed connection would warn here, which fails the test
    await target.until(lambda: target.open == 0)
    assert {task for task in asyncio.all_tasks() if not task.done()} <= before


async def test_a_request_in_progress_fails_when_the_client_closes(target: Target) -> None:
    client = TargetClient()
    asking = asyncio.create_task(client.ask(an_ask(target.url("/silent"))))
    await target.until(lambda: len(target.seen) == 1)
    await client.close()
    with pytest.raises(TargetUnreachable):
        await asking


async def test_a_cancelled_request_closes_its_connection(
    target: Target, client: TargetClient
) -> None:
    for path in ("/silent", "/drip"):
        target.seen.clear()
        asking = asyncio.create_task(client.ask(an_ask(target.url(path), timeout=60)))
        await target.until(lambda: len(target.seen) == 1)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await target.until(lambda: target.open == 0)


async def test_each_of_many_requests_gets_its_own_answer(target: Target) -> None:
    async with TargetClient() as client:
        answers = await asyncio.gather(
            *(client.ask(an_ask(target.url(f"/ok?body={number}"))) for number in range(50))
        )
    assert [int(answer.body) for answer in answers] == list(range(50))


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://example.org/", "file:///etc/passwd", "example.org", "", "http://", "//x/"),
        *("http://me:word@example.org/", "http://token@example.org/", "http://@/", "http:///x"),
        *("http://example.org/\r\nX: 1", "http://exa mple.org/", "http://x/\0", "http://[::1"),
        *("http://example.org:99999/", "http://example.org:x/", "https://e.org/" + "a" * 9000),
        *("unix:///run/x.sock", "http+unix://x/", "ws://example.org/", "tcp://127.0.0.1:1/"),
        f"http://{'a' * 64}.example/",
    ],
)
async def test_an_invalid_url_is_refused(client: TargetClient, url: str) -> None:
    with pytest.raises(TargetRefused) as caught:
        await client.ask(an_ask(url))
    assert "word" not in str(caught.value).replace("password", "")
    assert "token" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("X-A", "1\r\nX-B: 2"), ("X-A", "1\n2"), ("X-A", "\0"), ("X-A", "€"), ("X A", "1")),
        *(("", "1"), ("X:", "1"), ("X\r\nY", "1"), ("Host", "other"), ("content-length", "3")),
        *(("Transfer-Encoding", "chunked"), ("CONNECTION", "close"), ("Upgrade", "h2c")),
        *(("Expect", "100-continue"), ("TE", "trailers"), ("Proxy-Authorization", "Basic x")),
    ],
)
async def test_an_invalid_header_is_refused(
    target: Target, client: TargetClient, name: str, value: str
) -> None:
    with pytest.raises(TargetRefused):
        await client.ask(an_ask(target.url(), headers={name: value}))
    assert target.connections == 0


@pytest.mark.parametrize("method", ["CONNECT", "TRACE", "post", "GET / HTTP/1.1\r\nX:", ""])
async def test_an_invalid_method_is_refused(client: TargetClient, method: str) -> None:
    with pytest.raises(TargetRefused, match="The method"):
        await client.ask(an_ask("http://127.0.0.1/", method=method))


async def test_reprs_and_errors_have_no_secret(target: Target, client: TargetClient) -> None:
    ask = an_ask(
        target.url("/close?token=hidden"), headers={"Authorization": "hidden"}, body=b"hidden"
    )
    assert "hidden" not in repr(ask)
    with pytest.raises(TargetUnreachable) as caught:
        await client.ask(ask)
    assert "hidden" not in f"{caught.value}{caught.value.__cause__}"
    assert caught.value.__suppress_context__
    answer = await client.ask(an_ask(target.url("/echo"), headers={"X-Key": "hidden"}))
    assert "hidden" in orjson.loads(answer.body)["headers"]["x-key"]
    assert "hidden" not in repr(answer)
