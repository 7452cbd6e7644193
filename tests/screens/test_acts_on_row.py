"""Acts of operators on the page of the row that they name, for those who may see the audit."""

from datetime import UTC, datetime, timedelta

import pytest

from inboxd import operations
from inboxd.store.operator_sessions import open_session
from tests.screens.reading import Read, read
from tests.screens.visiting import sign_in, user, visiting
from tests.support import Database
from tests.support.rows import emit, send, settings_of

pytestmark = pytest.mark.anyio

HOSTILE = "\"'><img src=x onerror=alert(1)>"


@pytest.fixture(autouse=True)
async def acted(database: Database) -> None:
    """Twelve commands: all are rescheduled but 11, 1 also is prioritized and then cancelled."""
    await send(database, 12)
    await emit(database, 2)
    later = datetime.now(UTC) + timedelta(hours=1)
    ada, but_one = "ada@node-a", [*range(1, 11), 12]
    async with open_session(settings_of(database)) as session:
        await operations.reschedule(
            session, "commands", but_one, later, actor=ada, reason="after lunch"
        )
        await operations.prioritize(session, [1], 5, actor=ada, reason=HOSTILE)
        await operations.act(session, "commands", "cancel", [1], actor=ada)
    await database.execute(
        "insert into inboxd.audit (actor, action, target, count) values"
        " ('eve', 'view', 'commands 2', 1), ('rui', 'resend', 'commands 3, 2 of endpoint x', 2),"
        " ('rui', 'replay', 'commands of type 2, 12', 7)"
    )


def _acts(page: Read) -> list[str]:
    """The acts of a page, as `action by` or words of its section."""
    _, found, rest = page.text.partition("Acts of operators ")
    return rest.partition(" Acts on all rows")[0].split() if found else []


async def test_a_row_shows_who_acted_on_it(database: Database) -> None:
    async with visiting(database, users=[user("eve")]) as site, site.client() as client:
        await sign_in(client, "eve")
        first = await read(client, "/commands/1")
        words = _acts(first)
        assert words[0] == "3"
        verbs = [word for word in words if word in ("cancel", "prioritize", "reschedule")]
        assert verbs == ["cancel", "prioritize", "reschedule"], "the newest first"
        assert words.count("ada@node-a") == 3
        assert "after lunch" in first.text
        assert HOSTILE in first.text
        (entry,) = [link for link in first.links if link.startswith("/audit?below=4")]
        assert "cancel" in (await read(client, entry)).text
        second = _acts(await read(client, "/commands/2"))
        assert second[0] == "2"
        assert "resend" in second
        assert "view" not in second
        for path in ("/commands/11", "/events/1", "/events/2"):
            assert _acts(await read(client, path)) == [], path
        assert _acts(await read(client, "/commands/12"))[0] == "1", "the second number is its own"


async def test_visitors_of_certain_tenants_see_no_acts(database: Database) -> None:
    await database.execute("update inboxd.commands set tenant = 'acme'")
    users = [{**user("tom", "admin"), "tenants": ["acme"]}]
    async with visiting(database, users=users) as site, site.client() as client:
        await sign_in(client, "tom")
        assert (await client.get("/audit")).status_code == 403
        page = await read(client, "/commands/2")
        assert "ada@node-a" not in page.text
        assert _acts(page) == []


async def test_an_act_is_on_the_page_at_once(database: Database) -> None:
    users = [user("ada", "admin")]
    async with visiting(database, users=users) as site, site.client() as client:
        await sign_in(client, "ada")
        assert _acts(await read(client, "/commands/4"))[0] == "1"
        async with open_session(settings_of(database)) as session:
            await operations.prioritize(session, [4], 1, actor="bob")
        assert _acts(await read(client, "/commands/4"))[0] == "2"


async def test_a_page_says_how_far_the_audit_was_searched(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.operations.audit.LOOKED_AT_FOR_A_ROW", 3)
    async with visiting(database, users=[user("eve")]) as site, site.client() as client:
        await sign_in(client, "eve")
        page = await read(client, "/commands/5")
        assert "Acts of operators 0" in page.text
        assert "Searched back to" in page.text
