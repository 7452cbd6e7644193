"""Random requests: no fault, no 2xx without authentication, and authentic bodies are kept."""

import json
import time
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as profile
from hypothesis import strategies as st

from inboxd.inbound.compiling import compile_sources
from tests.inbound.calls import KEYS, call, receiving, settings
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio

_REFERENCES = st.sampled_from(["header:x-a", "pointer:/a", "pointer:/a/0", "pointer:"])
_SOURCES = st.fixed_dictionaries(
    {
        "scheme": st.just("github"),
        "keys": st.just(KEYS),
        "body": st.sampled_from(["json", "form", "text"]),
        "type": st.just("fuzzed"),
    },
    optional={
        "dedup_key": _REFERENCES | st.sampled_from(["", "body"]),
        "ordering_key": _REFERENCES,
        "tenant": _REFERENCES,
        "items": st.sampled_from(["", "/a", "/a/0"]),
        "topics": st.lists(st.sampled_from(["a", "b", "c"]), unique=True),
        "headers": st.lists(st.sampled_from(["x-a", "x-b"]), unique=True),
        "answer": st.sampled_from([200, 201, 202, 204]),
    },
)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc") | st.text(), inner),
    max_leaves=20,
)


@st.composite
def _bodies(draw: st.DrawFn) -> bytes:
    """JSON in some form, possibly with wrong bytes; or random bytes."""
    value = draw(_JSON)
    body = json.dumps(value, ensure_ascii=draw(st.booleans())).encode("utf-8", "surrogatepass")
    if draw(st.booleans()):
        at = draw(st.integers(0, len(body)))
        body = body[:at] + draw(st.binary(max_size=4)) + body[at:]
    return draw(st.sampled_from([body, draw(st.binary(max_size=200))]))


_HEADERS = st.lists(
    st.tuples(
        st.sampled_from(
            ["x-a", "x-b", "content-type", "traceparent", "content-length", "content-encoding",
             "x-hub-signature-256", "x-github-delivery", "x-forwarded-for", "forwarded", "cookie"]
        ),
        st.text(st.characters(max_codepoint=255), max_size=50),
    ),
    max_size=12,
)  # fmt: skip


@profile(max_examples=150)
@given(source=_SOURCES, body=_bodies(), cuts=st.lists(st.integers(0, 200), max_size=5))
async def test_an_authentic_body_is_stored_byte_by_byte(
    source: dict[str, Any], body: bytes, cuts: list[int]
) -> None:
    bounds = sorted({0, len(body), *(cut for cut in cuts if cut < len(body))})
    chunks = [body[at:to] for at, to in pairwise(bounds)] or [b""]
    async with receiving({"provider": source}) as received:
        answered = await received.post(body, chunks=chunks if cuts else None)
        [receipt] = received.written.receipts
    assert answered.status == source.get("answer", 202)
    assert receipt.body == body
    assert all(event.type and event.payload for event in receipt.events)
    assert receipt.events or source.get("items") is not None


@profile(max_examples=150)
@given(
    headers=_HEADERS,
    body=st.binary(max_size=100),
    method=st.sampled_from(["POST", "GET", "PURGE", ""]),
    path=st.sampled_from(["/in/provider", "/in/provider/", "/in/", "/in/%00", "*", ""]) | st.text(),
    chunks=st.none() | st.lists(st.binary(max_size=50), min_size=1, max_size=4),
)
async def test_a_request_without_authentication_is_never_accepted(
    headers: list[tuple[str, str]], body: bytes, method: str, path: str, chunks: list[bytes] | None
) -> None:
    source = {"scheme": "github", "keys": KEYS, "type": "fuzzed"}
    async with receiving({"provider": source}, {"trusted_proxies": ["192.0.2.0/24"]}) as received:
        answered = await call(
            received.app, path, body, method=method, headers=headers, chunks=chunks
        )
        assert received.written.receipts == []
        assert (received.app.in_flight.requests, received.app.in_flight.bytes) == (0, 0)
    assert 400 <= answered.status < 500


@profile(max_examples=50)
@given(body=st.binary(min_size=1, max_size=100), data=st.data())
async def test_a_changed_body_or_signature_is_refused(body: bytes, data: st.DataObject) -> None:
    source = {"scheme": "github", "keys": KEYS, "type": "fuzzed"}
    signed = compile_sources(settings({"provider": source}))["provider"].verifier.sign(
        body, "msg-1", time.time()
    )
    at = data.draw(st.integers(0, len(body) - 1))
    changed = body[:at] + bytes([body[at] ^ data.draw(st.integers(1, 255))]) + body[at + 1 :]
    async with receiving({"provider": source}) as received:
        with bounded():
            answered = await call(received.app, "/in/provider", changed, headers=signed)
    assert answered.status == 401
