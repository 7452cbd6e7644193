"""What the settings hide is on no page, in no JSON and in no form; the command line has it."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from inboxd.model.masking import redact
from tests.screens.terminal import printed
from tests.screens.visiting import ADA, TOKENS, sign_in, user, visiting
from tests.support import Database
from tests.support.receipts import receipt, receive

pytestmark = pytest.mark.anyio

CANARY = "canary-4711"
SHOWN = "not-hidden-4712"
CONTENTS = {
    "note": SHOWN,
    "user": {"Password": CANARY, "cards": [{"no": CANARY}]},
    "sent": f"authorization: Bearer {CANARY}",
    "json": json.dumps({"api_key": CANARY}),
}
ERRORS = [
    {
        "attempt": 1,
        # As workers store it.
        "error": redact(f"ValidationError: input {{'token': '{CANARY}'}}"),
        "traceback": redact(f"password={CANARY}"),
        "answer": {"status": 401, "body": json.dumps({"secret": CANARY})},
    }
]
PAGES = (
    *("/", "/events", "/commands", "/events?status=failed&error=Validation", "/failures"),
    *("/failures/f", "/queues/default", "/topics/default", "/types/command/a.b", "/find?q=a.b"),
    *("/events/1", "/events/2", "/commands/1", "/commands/2", "/story/event/1", "/audit"),
    *("/schedules", "/endpoints", "/sources", "/history", "/workers", "/doctor"),
)
ROLES = ("viewer", "reader", "operator", "admin")
PAYLOADS = ("?payload=1", ".json?payload=1")


async def _fill(database: Database) -> None:
    """An event and a command with canaries, dead; one of each that is hidden whole."""
    contents, errors = json.dumps(CONTENTS), json.dumps(ERRORS)
    whole = json.dumps({"plain": CANARY})
    for type_, payload in (("a.b", contents), ("payment.made", whole)):
        await database.execute(
            "insert into inboxd.events (type, payload, headers, status, attempts, errors,"
            " fingerprint) values ($1, $2::text::jsonb, $2::text::jsonb, 'failed', 1,"
            " $3::text::jsonb, 'f')",
            *(type_, payload, errors),
        )
        await database.execute(
            "insert into inboxd.commands (type, queue, payload, status, attempts, errors,"
            " fingerprint, result) values ($1, 'default', $2::text::jsonb, 'failed', 1,"
            " $3::text::jsonb, 'f', $2::text::jsonb)",
            *(type_, payload, errors),
        )


@asynccontextmanager
async def _site(database: Database, role: str) -> AsyncIterator[httpx.AsyncClient]:
    users = [user("ada", role)]
    admin = {"users": users, "hidden_types": ["payment.*"], "tokens": TOKENS}
    async with visiting(database, **admin) as site, site.client() as client:
        await sign_in(client, "ada")
        yield client


def _clean(answer: httpx.Response) -> str:
    assert CANARY not in answer.text, f"{answer.url}: {answer.text}"
    return answer.text


@pytest.mark.parametrize("role", ROLES)
async def test_no_canary_is_on_any_page(database: Database, role: str) -> None:
    await _fill(database)
    async with _site(database, role) as client:
        for path in PAGES:
            for accept in ("text/html", "application/json"):
                answer = await client.get(path, headers={"accept": accept}, follow_redirects=True)
                assert answer.is_success, path
                _clean(answer)
        for table in ("events", "commands"):
            for id_ in (1, 2):
                _clean(await client.get(f"/{table}/{id_}.json"))
                for query in PAYLOADS:
                    answer = await client.get(f"/{table}/{id_}{query}")
                    assert answer.is_success == (role != "viewer")
                    text = _clean(answer)
                    if answer.is_success:
                        assert "********" in text
                        assert (SHOWN in text) == (id_ == 1)


async def test_the_api_hides_the_same(database: Database) -> None:
    await _fill(database)
    async with _site(database, "viewer") as client:
        client.headers["authorization"] = f"Bearer {ADA}"
        for table in ("events", "commands"):
            for id_ in (1, 2):
                found = await client.get(f"/api/{table}/{id_}?payload=true")
                assert found.is_success
                assert "********" in _clean(found)
                whole: Any = await printed(database, table, "show", id_, "--payload")
                assert CANARY in json.dumps(whole["payload"])
                assert found.json().keys() == whole.keys()


async def test_the_webhook_as_it_came_is_looked_into(database: Database) -> None:
    given = receipt()
    given.body = json.dumps({"password": CANARY}).encode()
    given.headers = json.dumps({"authorization": CANARY, "x": SHOWN})
    await receive(database, given)
    id_ = await database.fetchval("select max(id) from inboxd.events")
    async with _site(database, "viewer") as client:
        client.headers["authorization"] = f"Bearer {ADA}"
        found = await client.get(f"/api/events/{id_}?raw=true")
        assert SHOWN in _clean(found)


async def test_what_is_hidden_is_not_guessed_by_a_filter(database: Database) -> None:
    await _fill(database)
    async with _site(database, "reader") as client:
        for query in (
            "payload=user.Password%3Dcanary-4711",
            'payload={"user": {"Password": "x"}}',
            "payload=plain%3Dx&type=payment.made",
        ):
            refused = await client.get(f"/events?{query}")
            assert (refused.status_code, "hide here" in refused.text) == (403, True), query
        assert (await client.get("/events?payload=note%3Dx")).status_code == 200


async def test_no_form_shows_what_is_hidden(database: Database) -> None:
    """What it shows would be stored: so the way is told that shows all."""
    await _fill(database)
    await database.execute(
        "insert into inboxd.schedules (name, source, cron, zone, missed, kind, type,"
        " schema_version, lane, priority, payload, next_at, added_at) values ('nightly', 'ada',"
        " '0 3 * * *', 'UTC', 'skip', 'command', 'a.b', 1, 'default', 0, $1::text::jsonb,"
        " now() + interval '1 day', now())",
        json.dumps(CONTENTS),
    )
    async with _site(database, "admin") as client:
        for path, command in (
            ("/act/commands/replay-with?id=1", "inboxd commands replay-with 1"),
            ("/act/commands/replay-with?id=2", "inboxd commands replay-with 2"),
            ("/act/schedules/change?schedule=nightly", "inboxd schedules change nightly"),
        ):
            refused = await client.get(path)
            assert refused.status_code == 409
            assert command in _clean(refused)
