"""Hidden values are on no page, in no JSON and in no form; the command line shows them."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from pydantic import BaseModel, Field, SecretStr

from inboxd.api.context import CommandContext, EventContext
from inboxd.api.handlers import Handlers
from inboxd.api.messages import Event
from inboxd.daemon.declaring import WorkerDeclaration
from inboxd.model.masking import redact
from inboxd.registry.plugins import build_registry, judged
from inboxd.settings import Settings
from tests.screens.confirming import ReadForm, ask, confirm
from tests.screens.terminal import printed
from tests.screens.visiting import ADA, SAME, TOKENS, sign_in, user, visiting
from tests.support import Database
from tests.support.receipts import receipt, receive
from tests.support.rows import daemon_session, settings_of

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
        # Workers redact errors before they store them.
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


class _Member(BaseModel):
    pin: SecretStr = Field(alias="memberPin")
    note: str


def _plugin() -> Handlers:
    handlers = Handlers("members")

    @handlers.event("member.joined")
    async def greet(event: Event[list[_Member]], ctx: EventContext) -> None: ...

    @handlers.command("member.check")
    async def look(command: _Member, ctx: CommandContext) -> None: ...

    return handlers


async def _declare(database: Database) -> None:
    """Store the declarations of a worker that has this plugin."""
    settings = Settings(database=settings_of(database))
    registry, _ = judged(build_registry([("dist", _plugin())]), settings, whole=False)
    async with daemon_session(database) as session, session.transaction():
        await WorkerDeclaration(settings, registry).make(session)


async def _fill(database: Database) -> None:
    """Write dead events and commands with canaries, of two types; one type is hidden whole."""
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


async def test_secrets_in_a_raw_webhook_are_hidden(database: Database) -> None:
    given = receipt()
    given.body = json.dumps({"password": CANARY}).encode()
    given.headers = json.dumps({"authorization": CANARY, "x": SHOWN})
    await receive(database, given)
    id_ = await database.fetchval("select max(id) from inboxd.events")
    async with _site(database, "viewer") as client:
        client.headers["authorization"] = f"Bearer {ADA}"
        found = await client.get(f"/api/events/{id_}?raw=true")
        assert SHOWN in _clean(found)


async def test_hidden_values_cannot_be_guessed_by_a_filter(database: Database) -> None:
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


async def test_no_form_shows_hidden_values(database: Database) -> None:
    """A form would store the hidden value, so the page names the command line instead."""
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


async def test_a_secret_that_a_handler_declares_is_hidden(database: Database) -> None:
    """Hidden only in the handler's type, under each name of the field, at each depth."""
    await _declare(database)
    member = {"memberPin": CANARY, "note": SHOWN}
    for table, type_, payload in (
        ("events", "member.joined", [member, {"deep": json.dumps({"pin": CANARY})}]),
        ("commands", "member.check", member),
        ("commands", "another.type", member),
    ):
        await database.execute(
            f"insert into inboxd.{table} (type, payload) values ($1, $2::text::jsonb)",
            *(type_, json.dumps(payload)),
        )
    async with _site(database, "admin") as client:
        for path in ("events/1", "commands/1"):
            for query in PAYLOADS:
                text = _clean(await client.get(f"/{path}{query}"))
                assert SHOWN in text
                assert "********" in text
        assert CANARY in (await client.get("/commands/2.json?payload=1")).text
        for query in ("type=member.check&payload=memberPin%3Dx", "payload=pin%3Dx"):
            assert (await client.get(f"/commands?{query}")).status_code == 403, query
        for query in ("type=another.type&payload=pin%3Dx", "payload=note%3Dx"):
            assert (await client.get(f"/commands?{query}")).status_code == 200, query
        edited = _clean(await client.get("/act/commands/edit?id=1"))
        assert "edit it on a terminal" in edited
        client.headers["authorization"] = f"Bearer {ADA}"
        for path in ("events/1", "commands/1"):
            assert SHOWN in _clean(await client.get(f"/api/{path}?payload=true"))
        refused = await client.get("/api/commands?payload=pin%3Dx")
        assert (refused.status_code, "the type's handlers" in refused.text) == (403, True)


async def test_the_form_of_an_edit_shows_no_hidden_values(database: Database) -> None:
    """Time and priority can be edited; the payload stays as it is."""
    await database.execute(
        "insert into inboxd.commands (type, payload, run_at) select type, $1::text::jsonb,"
        " '2030-01-01T03:00:00Z' from unnest(array['a.b', 'payment.made']) type",
        json.dumps({"plain": SHOWN, "password": CANARY}),
    )
    async with _site(database, "admin") as client:
        for id_ in (1, 2):
            asked = await ask(client, f"/act/commands/edit?id={id_}")
            assert SHOWN not in asked.html
            assert CANARY not in asked.html
            assert "payload" not in asked.form.fields
            shown = await confirm(client, asked, priority="7", payload='{"plain": "other"}')
            form = ReadForm(_clean(shown))
            done = await client.post(form.action, data=form.fields, headers=SAME)
            assert done.headers["location"] == f"/commands/{id_}"
    rows = await database.fetch("select priority, payload ->> 'password' from inboxd.commands")
    assert [tuple(each) for each in rows] == [(7, CANARY), (7, CANARY)]
