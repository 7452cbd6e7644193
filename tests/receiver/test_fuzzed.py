"""Random requests over the wire: the receiver survives, and accepts authentic ones only.

Requests are drawn, and sent over a socket in pieces as drawn. In the end there are as many receipts
as 2xx answers, and the log has no traceback.
"""

import errno
import socket
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any
from uuid import uuid4

import anyio
import psycopg
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from inboxd.embedded import Server
from tests.support import Database, create, drop
from tests.support.http_wire import Answer, request
from tests.support.ports import held_port
from tests.support.receiver import TOPIC, Receiver, port_of
from tests.support.sender import SECRET, standard_webhooks

# A failing example has two lines of 70 kB; a warning about its length must not hide the failure.
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")

MOST = 100_000  # bytes of a body
_SIGN = standard_webhooks()
_OTHER = standard_webhooks("whsec_" + 43 * "A" + "=")

drawn = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@dataclass
class Target:
    """The receiver, its database, and the number of its answers by status."""

    receiver: Receiver
    connection: psycopg.Connection[tuple[Any, ...]]
    answers: Counter[int] = field(default_factory=Counter)

    def send(self, *pieces: bytes, within: float = 10) -> Answer | None:
        """Send on a new connection; returns the first answer, or None if it was closed."""
        with socket.create_connection(("127.0.0.1", self.receiver.port), within) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with _ignoring_a_closed_connection():
                for piece in pieces:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)  # so that the receiver need not wait
            answer = _read(connection)
        if answer is not None:
            self.answers[answer.status] += 1
        return answer

    def body_of(self, answer: Answer) -> bytes:
        """The stored body of the request with this answer."""
        found = self.connection.execute(
            "select body from inboxd.receipts where receipt_id = %s::uuid", [answer.json["receipt"]]
        )
        return bytes(found.fetchall()[0][0])


@contextmanager
def _ignoring_a_closed_connection() -> Iterator[None]:
    """Ignores that the other side has reset or closed the connection."""
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.EPIPE, errno.ECONNRESET, errno.ENOTCONN):
            raise


def _read(connection: socket.socket) -> Answer | None:
    response = HTTPResponse(connection)
    with _ignoring_a_closed_connection(), suppress(HTTPException, ConnectionError):
        response.begin()
        body = response.read()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, headers, body)
    return None


@pytest.fixture(scope="module")
def target(
    durable_server: Server, durable_template: Database, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Target]:
    """One receiver for all tests, which must be unchanged in the end."""
    database = create(durable_server, durable_template.name)
    anyio.run(database.execute, TOPIC)
    folder: Path = tmp_path_factory.mktemp("receiver")
    with held_port() as held:
        receiver = Receiver(
            folder,
            database.dsn,
            port_of(held),
            http={"header_timeout": "2s", "body_timeout": "2s"},
            source={"max_body": MOST},
            config={},
        )
        try:
            anyio.run(receiver.ready)
            with psycopg.connect(database.dsn, autocommit=True) as connection:
                found = Target(receiver, connection)
                yield found
                _hold(found)
        finally:
            receiver.kill()
    drop(durable_server, database)


def _hold(target: Target) -> None:
    target.receiver.holds()
    accepted = sum(count for status, count in target.answers.items() if 200 <= status < 300)
    found = target.connection.execute("select count(*) from inboxd.receipts")
    assert found.fetchall() == [(accepted,)]
    assert 500 not in target.answers


def signed(body: bytes, name: str | None = None) -> Mapping[str, str]:
    """The headers of an authentic request."""
    return _SIGN(body, name or f"msg_{uuid4().hex}")


def chunks(pieces: Sequence[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    sent = b"".join(b"%x%b\r\n%b\r\n" % (len(p), extension, p) for p in pieces if p)
    return sent + b"0\r\n" + trailer + b"\r\n"


def head(headers: Mapping[str, str], path: str = "/in/bets") -> bytes:
    """A request up to its body, without the body's length."""
    lines = [f"POST {path} HTTP/1.1", "host: test"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode("latin-1") + b"\r\n"


# ------------------------------------------------------------------------- authentic requests

bodies = st.one_of(
    st.binary(max_size=2000),
    st.binary(min_size=MOST - 1, max_size=MOST),
    st.text(max_size=500).map(str.encode),
    st.sampled_from([b"{}", b"[]", b"null", b"0", b'"\\u0000"', b'{"match":null}', b"1e999"]),
    st.integers(0, 20_000).map(lambda depth: b"[" * depth + b"]" * depth),
)


@given(body=bodies)
@drawn
def test_every_authentic_body_is_stored_unchanged(target: Target, body: bytes) -> None:
    answer = target.send(request("/in/bets", body, signed(body)))
    assert answer is not None
    assert answer.status == 202
    assert target.body_of(answer) == body


@given(body=st.binary(min_size=1, max_size=300), data=st.data())
@drawn
def test_an_authentic_body_may_come_in_chunks_and_in_pieces(
    target: Target, body: bytes, data: st.DataObject
) -> None:
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=6).map(sorted))
    parts = [body[low:high] for low, high in zip([0, *cuts], [*cuts, len(body)], strict=True)]
    extension = data.draw(st.sampled_from([b"", b";a=b", b' ; x="y"']))
    raw = (
        head({**signed(body), "transfer-encoding": "chunked"}) + b"\r\n" + chunks(parts, extension)
    )
    at = data.draw(st.lists(st.integers(0, len(raw)), max_size=8).map(sorted))
    pieces = [raw[low:high] for low, high in zip([0, *at], [*at, len(raw)], strict=True)]
    answer = target.send(*pieces)
    assert answer is not None
    # A parser may refuse an extension; an accepted body must be complete.
    assert answer.status == 202 or (extension and answer.status == 400)
    if answer.accepted:
        assert target.body_of(answer) == body


# ----------------------------------------------------------------------- forged requests


@given(body=st.binary(min_size=1, max_size=200), data=st.data())
@drawn
def test_a_changed_body_is_refused(target: Target, body: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(at, len(body)))
    other = body[:at] + data.draw(st.binary(max_size=20)) + body[end:]
    assume(other != body)
    answer = target.send(request("/in/bets", other, signed(body)))
    assert answer is not None
    assert answer.status == 401


# Without control characters, which have a test of their own.
_values = st.text(st.characters(min_codepoint=32, max_codepoint=255, exclude_characters="\x7f"))
_entries = st.one_of(
    st.sampled_from(["v1,", "v1a,", "v1", ",", "v1,AAAA", "v2,AAAA", "v1,=", " ", "v1,\u00e9"]),
    st.binary(max_size=40).map(lambda raw: f"v1,{raw.hex()}"),
    _values,
)


@given(
    body=st.binary(max_size=50),
    signature=st.lists(_entries, max_size=30).map(" ".join),
    data=st.data(),
)
@drawn
def test_an_invalid_signature_is_refused(
    target: Target, body: bytes, signature: str, data: st.DataObject
) -> None:
    headers = dict(signed(body))
    name = data.draw(st.sampled_from([*headers, ""]))
    right = headers["webhook-signature"]
    headers["webhook-signature"] = signature
    if name:
        headers[name] = data.draw(_values)
    assume(right not in headers["webhook-signature"])
    answer = target.send(request("/in/bets", body, headers))
    assert answer is not None
    assert answer.status in (400, 401, 431), answer


@given(body=st.binary(max_size=50), shift=st.integers(-(10**20), 10**20))
@drawn
def test_another_key_or_another_time_is_refused(target: Target, body: bytes, shift: int) -> None:
    answer = target.send(request("/in/bets", body, _OTHER(body, "msg_1")))
    assert answer is not None
    assert answer.status == 401
    assume(abs(shift) > 400)
    late = standard_webhooks(SECRET, now=lambda: time.time() + shift)
    answer = target.send(request("/in/bets", body, late(body, "msg_1")))
    assert answer is not None
    assert answer.status in (400, 401)


@given(
    missing=st.sets(
        st.sampled_from(["webhook-id", "webhook-timestamp", "webhook-signature"]), min_size=1
    )
)
@drawn
def test_a_signature_with_a_missing_part_is_refused(target: Target, missing: set[str]) -> None:
    headers = {name: value for name, value in signed(b"{}").items() if name not in missing}
    answer = target.send(request("/in/bets", b"{}", headers))
    assert answer is not None
    assert answer.status in (400, 401)


# ------------------------------------------------------------------------- invalid HTTP

_lines = st.one_of(
    st.sampled_from(
        [
            b"content-length: 5",
            b"content-length: -1",
            b"content-length: 99999999999999999999999",
            b"content-length: 5, 5",
            b"transfer-encoding: chunked",
            b"transfer-encoding: gzip, chunked",
            b"transfer-encoding: identity",
            b"connection: upgrade",
            b"upgrade: websocket",
            b"upgrade: h2c",
            b"expect: 100-continue",
            b"content-encoding: gzip",
            b" folded",
            b"x" * 70_000 + b": y",
            b": empty",
            b"a\0b: c",
        ]
    ),
    st.binary(max_size=50),
)
_starts = st.one_of(
    st.sampled_from(
        [
            b"POST /in/bets HTTP/1.1",
            b"POST /in/bets HTTP/1.0",
            b"POST /in/bets HTTP/2.0",
            b"GET /in/bets HTTP/1.1",
            b"CONNECT bets:443 HTTP/1.1",
            b"POST http://elsewhere/in/bets HTTP/1.1",
            b"POST /in/%62ets HTTP/1.1",
            b"POST /in/bets/../bets HTTP/1.1",
            b"POST //in/bets?x=1 HTTP/1.1",
            b"PRI * HTTP/2.0",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        ]
    ),
    st.binary(max_size=50),
)


@given(start=_starts, lines=st.lists(_lines, max_size=6), rest=st.binary(max_size=100))
@drawn
def test_malformed_http_is_never_accepted(
    target: Target, start: bytes, lines: list[bytes], rest: bytes
) -> None:
    answer = target.send(b"\r\n".join([start, b"host: test", *lines]) + b"\r\n\r\n" + rest)
    assert answer is None or 400 <= answer.status < 500, answer


@given(
    lines=st.lists(_lines, max_size=4),
    rest=st.one_of(st.binary(max_size=100), st.just(chunks([b"{}"])), st.just(b"{}")),
)
@drawn
def test_an_authentic_head_is_accepted_with_its_own_body_only(
    target: Target, lines: list[bytes], rest: bytes
) -> None:
    """Even with the two lengths of a smuggled request, only the signed body is accepted."""
    raw = head(signed(b"{}")) + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + rest
    answer = target.send(raw)
    if answer is not None and answer.accepted:
        assert target.body_of(answer) == b"{}"


def test_the_receiver_still_receives_after_the_fuzzing(target: Target) -> None:
    body = b'{"match": "m"}'
    answer = target.send(request("/in/bets", body, signed(body)))
    assert answer is not None
    assert answer.status == 202
