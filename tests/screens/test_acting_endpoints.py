"""Endpoints are added, changed and removed from the screens; a secret is shown once."""

import re
from collections.abc import AsyncIterator

import httpx
import orjson
import pytest

from inboxd.model.endpoints import secret_problem
from tests.screens.confirming import Asked, act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import HOSTILE, audit
from tests.screens.visiting import SAME, Visited, sign_in, user, visiting
from tests.support import Database

pytestmark = pytest.mark.anyio

ACME = """
insert into inboxd.endpoints (name, url, types, secrets)
values ('acme', 'https://one.example/hooks', '{user.*}', '[{"secret": "whsec_canary"}]')
"""
# Deliveries: 2001 succeeded, 2002 was replayed as another row, 2003 is a dead letter, 2004 waits.
DELIVERED = """
insert into inboxd.commands_history (id, command_id, queue, type, schema_version, payload, priority,
  status, attempts, crashes, fence, run_at, cancel_requested, origin_kind, created_at, updated_at,
  finished_at, awaited)
select id, gen_random_uuid(), 'webhooks.acme', 'webhook.deliver', 1, '{"id": "msg_1"}', 0, status,
  1, 0, 1, now(), false, 'api', now(), now(), now(), false
  from (values (2001, 'succeeded'), (2002, 'failed')) as row(id, status);
insert into inboxd.commands (id, queue, type, payload, status)
overriding system value values
  (2003, 'webhooks.acme', 'webhook.deliver', '{"id": "msg_2"}', 'failed'),
  (2004, 'webhooks.acme', 'webhook.deliver', '{"id": "msg_3"}', 'pending');
"""


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    await database.execute(ACME)
    users = [user("ada", "admin"), user("olga", "operator")]
    async with visiting(database, users=users) as site:
        yield site


@pytest.fixture
async def ada(site: Visited) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        await sign_in(client, "ada")
        yield client


async def _secrets(database: Database, name: str) -> list[str]:
    """Return the secrets of an endpoint, newest first."""
    text = await database.fetchval(
        "select secrets::text from inboxd.endpoints where name = $1", name
    )
    return [each["secret"] for each in orjson.loads(text)]


async def _shown_secret(client: httpx.AsyncClient, asked: Asked, **typed: str) -> str:
    """Send a form that makes a secret; return the secret, which only its answer shows."""
    answer = await confirm(client, asked, **typed)
    assert answer.status_code == 200, Read(answer.text).text
    assert answer.headers["cache-control"] == "no-store"
    assert "inboxd_told" not in answer.headers.get("set-cookie", "")
    (secret,) = re.findall(r"whsec_[A-Za-z0-9+/=]+", answer.text)
    assert secret_problem(secret) is None
    again = await confirm(client, asked, **typed)
    assert (again.status_code, secret in again.text) == (409, False)
    return str(secret)


async def test_endpoint_is_added_and_its_secret_is_shown_once(
    database: Database, ada: httpx.AsyncClient
) -> None:
    assert "/act/endpoint/add" in (await ada.get("/endpoints")).text
    asked = await ask(ada, "/act/endpoint/add")
    assert "whsec_" not in asked.html
    typed = {"name": "crm", "url": "https://crm.example/in", "types": "user.*, order.paid"}
    more = {"ordered": "1", "rate": "60/m", "disable_after": "2d", "tenant": "acme"}
    secret = await _shown_secret(ada, asked, **typed, **more, reason="a new customer")
    assert await _secrets(database, "crm") == [secret]
    (row,) = await database.fetch(
        "select url, types, tenant, ordered, events, rate, concurrency,"
        " disable_after = interval '2 days' as after from inboxd.endpoints where name = 'crm'"
    )
    assert tuple(row) == (
        *("https://crm.example/in", ["user.*", "order.paid"], "acme", True, False, "60/m", None),
        True,
    )
    assert await audit(database) == [
        ("user ada", "add to crm.example", "endpoint crm", "a new customer", 1)
    ]
    for path in ("/endpoints/crm", "/endpoints", "/endpoints.json", "/audit", "/actions"):
        assert secret not in (await ada.get(path)).text
    for verb in ("change", "rotate", "remove", "disable"):
        assert secret not in (await ask(ada, f"/act/endpoint/{verb}?name=crm")).html


async def test_new_secret_is_shown_once_and_the_old_one_signs_for_a_while(
    database: Database, ada: httpx.AsyncClient
) -> None:
    path = "/act/endpoint/rotate?name=acme"
    assert path in (await ada.get("/endpoints/acme")).text
    asked, late = await ask(ada, path), await ask(ada, path)
    assert "canary" not in asked.html
    assert "inboxd endpoints rotate acme --keep 24h" in asked.text
    secret = await _shown_secret(ada, asked, keep="2h", reason="leaked")
    assert await _secrets(database, "acme") == [secret, "whsec_canary"]
    refused = await confirm(ada, late)
    assert (refused.status_code, "was changed meanwhile" in refused.text) == (409, True)
    asked = await ask(ada, path)
    wrong = await confirm(ada, asked, keep="soon")
    assert (wrong.status_code, "whsec_" in wrong.text) == (400, False)
    newer = await _shown_secret(ada, asked, keep="0s")
    assert await _secrets(database, "acme") == [newer]
    assert [line[1] for line in await audit(database)] == ["rotate", "rotate"]


async def test_endpoint_is_changed_by_the_fields_that_differ(
    database: Database, ada: httpx.AsyncClient
) -> None:
    path = "/act/endpoint/change?name=acme"
    asked = await ask(ada, path)
    assert asked.form.fields["url"] == "https://one.example/hooks"
    assert asked.form.fields["types"] == "user.*"
    same = await confirm(ada, asked)
    assert (same.status_code, "nothing would change" in same.text) == (400, True)
    told = await act(ada, path, rate="10/s", events="1", types="user.* order.paid", url="")
    assert told == "The endpoint acme is changed: events, rate, types."
    (row,) = await database.fetch("select url, types, events, rate from inboxd.endpoints")
    assert tuple(row) == ("https://one.example/hooks", ["user.*", "order.paid"], True, "10/s")
    late = await confirm(ada, asked, rate="5/s")
    assert (late.status_code, "was changed meanwhile" in late.text) == (409, True)
    told = await act(ada, path, rate="", url="http://127.0.0.1/in")
    assert told.startswith("The endpoint acme is changed: rate, url. But 127.0.0.1 is not a public")
    assert await database.fetchval("select rate from inboxd.endpoints") is None
    asked = await ask(ada, path)
    for typed, problem in (
        ({"url": "ftp://one.example"}, "must begin with https://"),
        ({"types": "us*"}, "must be a type such as"),
        ({"rate": "fast"}, "a rate is a number per"),
        ({"concurrency": "0"}, "must be at least 1"),
        ({"concurrency": "many"}, "must be a whole number"),
        ({"disable_after": "0s"}, "longer than 0s"),
        ({"url": HOSTILE}, "must begin with https://"),
    ):
        refused = await confirm(ada, asked, **typed)
        assert (refused.status_code, problem in refused.text) == (400, True), typed
        assert "<script>alert" not in refused.text
        assert " --" not in Read(refused.text).text.partition("On a terminal")[0]
    assert [line[1] for line in await audit(database)] == [
        "change to events, rate, types",
        "change to rate, url",
    ]


async def test_endpoint_is_removed_and_its_deliveries_stay(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await database.execute(DELIVERED)
    path = "/act/endpoint/remove?name=acme"
    assert path in (await ada.get("/endpoints/acme")).text
    assert "Deliveries that wait for it stay" in (await ask(ada, path)).text
    assert await act(ada, path, reason="they left") == "The endpoint acme is removed."
    assert await database.fetchval("select count(*) from inboxd.commands") == 2
    assert (await ada.get(path)).status_code == 404
    assert await audit(database) == [("user ada", "remove", "endpoint acme", "they left", 1)]


async def test_endpoint_of_the_settings_is_changed_there(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await database.execute("update inboxd.endpoints set managed_by = 'settings'")
    page = (await ada.get("/endpoints/acme")).text
    assert "/act/endpoint/disable" in page
    for verb in ("change", "rotate", "remove"):
        assert f"/act/endpoint/{verb}" not in page
        refused = await ada.get(f"/act/endpoint/{verb}?name=acme")
        assert (refused.status_code, "[endpoints.acme]" in refused.text) == (409, True)
    await database.execute("update inboxd.endpoints set undeclared_at = now()")
    assert await act(ada, "/act/endpoint/remove?name=acme") == "The endpoint acme is removed."


async def test_chosen_deliveries_are_resent_once_with_their_message_ids(
    database: Database, site: Visited, ada: httpx.AsyncClient
) -> None:
    await database.execute(DELIVERED)
    page = Read((await ada.get("/endpoints/acme")).text)
    boxes = {value for tag, name, value in page.attributes if (tag, name) == ("input", "value")} & {
        "2001",
        "2002",
        "2003",
        "2004",
    }
    assert boxes == {"2001", "2002", "2003"}, "a waiting delivery cannot be chosen"
    path = "/act/endpoint/resend?name=acme&id=2001&id=2003"
    asked, late = await ask(ada, path), await ask(ada, path)
    assert "Deliveries that are sent again: 2." in asked.text
    assert "inboxd endpoints resend acme 2001 2003" in asked.text
    assert (await confirm(ada, asked, reason="they lost it")).status_code == 303
    assert "Sent again: 2 deliveries." in (await ada.get("/endpoints/acme")).text
    rows = await database.fetch(
        "select replay_of, payload ->> 'id' as id from inboxd.commands where replay_of is not null"
        " order by 1"
    )
    assert [tuple(row) for row in rows] == [(2001, "msg_1"), (2003, "msg_2")]
    async with visiting(database, local_role="operator") as other, other.client() as client:
        again = await client.post(late.form.action, data=late.form.fields, headers=SAME)
    assert (again.status_code, "has done this meanwhile" in again.text) == (409, True)
    assert [line[1:] for line in await audit(database)] == [
        ("replay", "commands 2003", "they lost it", 1),
        ("resend", "commands 2001 of endpoint acme", "they lost it", 1),
    ]
    for ids, told in (
        ("id=2002", "2002 was replayed as another row"),
        ("id=2004", "2004 has not ended"),
    ):
        refused = await ada.get(f"/act/endpoint/resend?name=acme&{ids}")
        assert (refused.status_code, told in refused.text) == (409, True)
    assert (await ada.get("/act/endpoint/resend?name=acme&id=9999")).status_code == 404
    assert (await ada.get("/act/endpoint/resend?name=acme")).status_code == 400


async def test_dead_letter_that_changed_since_it_was_shown_is_not_resent(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await database.execute(DELIVERED)
    asked = await ask(ada, "/act/endpoint/resend?name=acme&id=2003")
    await database.execute("update inboxd.commands set updated_at = clock_timestamp()")
    refused = await confirm(ada, asked)
    assert (refused.status_code, "changed it meanwhile" in refused.text) == (409, True)
    assert await audit(database) == []


async def test_all_failed_deliveries_are_resent_by_an_admin_and_some_by_an_operator(
    database: Database, site: Visited, ada: httpx.AsyncClient
) -> None:
    await database.execute(DELIVERED)
    page = Read((await ada.get("/endpoints/acme")).text)
    (link,) = (each for each in page.links if each.startswith("/act/commands/replay-all"))
    asked = await ask(ada, link)
    assert "1 commands" in asked.text
    assert "--type webhook.deliver --queue webhooks.acme" in asked.text
    async with site.client() as olga:
        await sign_in(olga, "olga")
        offered = set(re.findall(r"/act/[a-z/-]+", (await olga.get("/endpoints/acme")).text))
        assert offered == {"/act/endpoint/disable", "/act/endpoint/resend"}
        assert "/act/" not in (await olga.get("/endpoints")).text
