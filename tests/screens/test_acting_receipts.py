"""A stored webhook is sent again from the screens: once, to allowed addresses, without secrets."""

import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from inboxd.model.receipt import Receipt
from inboxd.signatures import Key, SignedRequest, verifier
from tests.cli.answering import Answering, answering
from tests.screens.confirming import act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit
from tests.screens.visiting import SAME, sign_in, user, visiting
from tests.support import Database
from tests.support.receipts import receipt, receive
from tests.support.rows import emit

pytestmark = pytest.mark.anyio

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
TOKEN = "production-token-of-thirty-characters"
BODY = b'{ "n" : 1 }\n'
LOCAL = {"webhooks": {"allow": ["127.0.0.1/32"]}}


@pytest.fixture
def target() -> Iterator[Answering]:
    """The server that receives the request."""
    with answering() as server:
        yield server


@pytest.fixture
async def stored(database: Database) -> Receipt:
    """A stored request with an old signature."""
    made = receipt(source="bank")
    made.body = BODY
    made.headers = (
        '{"webhook-id": "msg_1", "webhook-timestamp": "1", "webhook-signature": "v1,old", '
        '"x-request-id": "r"}'
    )
    await receive(database, made)
    return made


@asynccontextmanager
async def _ada(
    database: Database, outbound: Any = LOCAL, admin: Any = None, **bank: Any
) -> AsyncIterator[httpx.AsyncClient]:
    """An admin; the settings have the source `bank`, with these further settings."""
    source = {"type": "a", "keys": [{"secret": SECRET}], **bank}
    sections = {"inbound": {"webhooks": {"bank": source}}, "outbound": outbound}
    users = [user("ada", "admin")]
    async with (
        visiting(database, users=users, sections=sections, **(admin or {})) as site,
        site.client() as client,
    ):
        await sign_in(client, "ada")
        yield client


async def _result(client: httpx.AsyncClient, path: str, **typed: str) -> str:
    """The HTML of the result of an action."""
    done = await confirm(client, await ask(client, path), **typed)
    page = await client.get(done.headers["location"])
    return page.text.partition('<p class="told')[2].partition("</p>")[0]


def _looks(result: str) -> str:
    """The look of a result; its class, its icon and its role agree."""
    look, _, more = result.lstrip().partition('"')
    assert f"#icon-{look}" in more
    assert ('role="status"' in more) == (look == "good")
    return look


def _path(stored: Receipt) -> str:
    return f"/act/webhooks/replay?id={stored.receipt_id}"


async def test_stored_webhook_is_sent_again_once_and_signed_anew(
    database: Database, stored: Receipt, target: Answering
) -> None:
    event = await database.fetchval("select id from inboxd.events")
    url = f"{target.url}/x?token=t"
    async with _ada(database) as ada:
        page = Read((await ada.get(f"/events/{event}")).text)
        (link,) = (each for each in page.links if each.startswith("/act/webhooks/replay"))
        assert "/act/webhooks/replay" in (await ada.get(f"/story/receipt/{stored.receipt_id}")).text
        asked, late = await ask(ada, link), await ask(ada, link)
        assert "It is signed anew" in asked.text
        assert f"inboxd webhooks replay {stored.receipt_id} --url" in asked.text
        done = await confirm(ada, asked, url=url, reason="they lost it")
        assert done.headers["location"] == f"/events/{event}"
        told = (await ada.get(f"/events/{event}")).text
        assert "Sent again: 127.0.0.1 answered 202." in told
        refused = await confirm(ada, late, url=url)
        assert (refused.status_code, "has done this meanwhile" in refused.text) == (409, True)
    async with visiting(database, local_role="admin") as other, other.client() as client:
        again = await client.post(
            late.form.action, data={**late.form.fields, "url": url}, headers=SAME
        )
        assert again.status_code == 409
    (came,) = target.came
    assert (came.path, came.body) == ("/x?token=t", BODY)
    assert came.headers["content-type"] == "application/json"
    assert (came.headers["webhook-id"], came.headers["x-request-id"]) == ("msg_1", "r")
    verify = verifier("standard_webhooks", [Key("1", SECRET.encode())], tolerance=300).verify
    assert verify(SignedRequest(came.headers, came.body), time.time()) == "1"
    target_of = f"receipt {stored.receipt_id}"
    assert await audit(database) == [
        ("user ada", "send to 127.0.0.1", target_of, "they lost it", 1)
    ], "the path may be a secret"


async def test_headers_go_as_they_came_if_that_is_chosen(
    database: Database, stored: Receipt, target: Answering
) -> None:
    target.status = 503
    event = await database.fetchval("select id from inboxd.events")
    async with _ada(database) as ada:
        path = f"/act/webhooks/replay?id={event}"
        told = await act(ada, path, url=target.url, original="1")
        assert told == "Sent again: 127.0.0.1 answered 503."
        assert _looks(await _result(ada, path, url=target.url)) == "error"
        target.status = 200
        assert _looks(await _result(ada, path, url=target.url)) == "good"
        target.closes = True
        assert _looks(await _result(ada, path, url=target.url)) == "error", "no answer"
    came = target.came[0]
    assert (came.headers["webhook-signature"], came.headers["webhook-timestamp"]) == ("v1,old", "1")


async def test_secret_that_a_signature_would_show_is_not_sent(
    database: Database, stored: Receipt, target: Answering
) -> None:
    keys = [{"secret": TOKEN}]
    async with _ada(database, scheme="bearer", keys=keys, admin={"redact_keys": []}) as ada:
        asked = await ask(ada, _path(stored))
        assert "a new signature would show the secret" in asked.text
        assert 'name="original"' not in asked.html
        assert (await confirm(ada, asked, url=target.url)).status_code == 303
    (came,) = target.came
    assert TOKEN not in str(came.headers)
    assert "authorization" not in came.headers


async def test_addresses_that_deliveries_may_not_reach_are_refused(
    database: Database, stored: Receipt, target: Answering
) -> None:
    async with _ada(database, outbound={}) as ada:
        told = await act(ada, _path(stored), url=target.url)
        assert told.startswith("Nothing was sent: 127.0.0.1:")
        assert "not of the public internet" in told
        assert _looks(await _result(ada, _path(stored), url=target.url)) == "error"
        await database.execute("delete from inboxd.audit where id > 1")
        asked = await ask(ada, _path(stored))
        for url in ("", "example.com", "ftp://example.com/", "https://me:pw@example.com/"):
            refused = await confirm(ada, asked, url=url)
            assert refused.status_code == 400, url
            assert len(await audit(database)) == 1
    strict = {"webhooks": {**LOCAL["webhooks"], "require_https": True}}
    async with _ada(database, outbound=strict) as ada:
        refused = await confirm(ada, await ask(ada, _path(stored)), url=target.url)
        assert (refused.status_code, "require_https" in refused.text) == (400, True)
    assert target.came == []


@pytest.mark.parametrize(
    ("body", "admin"),
    [
        (b'{"user": {"password": "canary"}}', {}),
        (b"\xff\xfe", {}),
        (b'{"n": 1}', {"hidden_types": ["bet.*"]}),
        (b'{"n": 1}', {"redact_keys": ["request"]}),
    ],
)
async def test_request_of_which_the_screens_hide_a_part_is_left_to_the_terminal(
    database: Database, target: Answering, body: bytes, admin: dict[str, Any]
) -> None:
    """The visitor chooses the address, and could read there what the screens hide."""
    made = receipt(source="bank")
    made.body, made.headers = body, '{"webhook-id": "msg_1", "x-request-id": "r"}'
    await receive(database, made)
    async with _ada(database, admin=admin) as ada:
        refused = await ada.get(_path(made))
        told = Read(refused.text).text
        assert (refused.status_code, "is hidden on the screens" in told) == (409, True), told
        assert "canary" not in refused.text
        fields = {"once": str(made.receipt_id), "seen": "0", "url": target.url}
        sent = await ada.post(_path(made), data=fields, headers=SAME)
        assert sent.status_code == 409
    assert target.came == []
    assert await audit(database) == []


async def test_unknown_requests_and_rows_without_a_webhook_are_named(
    database: Database, stored: Receipt
) -> None:
    (other,) = await emit(database, 1)
    async with _ada(database) as ada:
        for id_, told in (
            ("0193a5f2-7c1e-7000-8000-5f2c1e0d9a7b", "there is no receipt and no event"),
            (other, "did not come as a webhook"),
        ):
            answer = await ada.get(f"/act/webhooks/replay?id={id_}")
            assert (answer.status_code, told in answer.text.lower()) == (404, True)
        assert "/act/webhooks" not in (await ada.get(f"/events/{other}")).text
