"""A page says first what its database role lacks, with the GRANT that would help.

An erasure that runs out of time tells how many rows it erased, and continues when sent again.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from html import unescape
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import httpx
import pytest

from inboxd.admin.screens.actions import ACTIONS
from inboxd.admin.screens.host_spool import HostSpool
from tests.screens.confirming import ReadForm, act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import audit, fail
from tests.screens.test_acting_kinds import SETTING
from tests.screens.visiting import SAME, sign_in, user, visiting
from tests.support import Database
from tests.support.rows import send
from tests.support.spooled import APART, HOST, host_spool

pytestmark = pytest.mark.anyio

# Actions for which a database login of operators lacks a grant, with the values typed.
RESERVED = {
    "/act/emit": ("/act/emit", {"type": "a.happened", "payload": "{}"}),
    "/act/send": ("/act/send", {"type": "a.do", "payload": "{}"}),
    "/act/run": ("/act/run?schedule=nightly", {}),
    "/act/schedules/add": (
        "/act/schedules/add",
        {"name": "weekly", "type": "a.do", "cron": "0 4 1 1 *"},
    ),
    "/act/schedules/change": ("/act/schedules/change?schedule=by-hand", {"priority": "1"}),
    "/act/schedules/remove": ("/act/schedules/remove?schedule=by-hand", {}),
    "/act/endpoint/add": (
        "/act/endpoint/add",
        {"name": "crm", "url": "https://crm.example/in", "types": "user.*"},
    ),
    "/act/endpoint/change": ("/act/endpoint/change?name=acme", {"rate": "10/s"}),
    "/act/endpoint/rotate": ("/act/endpoint/rotate?name=acme", {"keep": "0s"}),
    "/act/endpoint/remove": ("/act/endpoint/remove?name=acme", {}),
    "/act/commands/replay-with": ("/act/commands/replay-with?id=1", {}),
    "/act/commands/edit": ("/act/commands/edit?id=2", {"priority": "7"}),
    "/act/spool/insert": (f"/act/spool/insert?host={HOST}&name={APART}", {}),
    "/act/spool/drain": (f"/act/spool/drain?host={HOST}", {}),
    "/act/erase": ("/act/erase?tenant=acme", {"unsettled": "1"}),
}
Become = Callable[[str], Awaitable[Database]]


@pytest.fixture
async def become(database: Database) -> AsyncIterator[Become]:
    """Give the database as a new login sees it that has one role of inboxd."""
    made = []

    async def as_role(role: str) -> Database:
        name = f"{database.name}_{role}"
        await database.execute(f"create role {name} login in role inboxd_{role}")
        made.append(name)
        parts = urlsplit(database.dsn)
        host = parts.netloc.rpartition("@")[2]
        return replace(database, dsn=urlunsplit(parts._replace(netloc=f"{name}@{host}")))

    yield as_role
    for name in made:
        await database.execute(f"drop owned by {name}")
        await database.execute(f"drop role {name}")


@asynccontextmanager
async def _ada(
    database: Database, spool: HostSpool | None = None
) -> AsyncIterator[httpx.AsyncClient]:
    async with (
        visiting(database, spool=spool, users=[user("ada", "admin")]) as site,
        site.client() as client,
    ):
        await sign_in(client, "ada")
        yield client


async def _fill(database: Database) -> None:
    await database.execute(SETTING)
    await fail(database, "commands")
    await database.execute("update inboxd.commands set status = 'pending' where id = 2")


def test_each_reserved_action_has_a_case() -> None:
    assert {each.path for each in ACTIONS if each.reserved} == set(RESERVED)


@pytest.mark.direct("the pooler knows one role")
async def test_a_refusal_of_an_operators_login_names_the_missing_grant(
    database: Database, become: Become, tmp_path: Path
) -> None:
    await _fill(database)
    role = await become("operator")
    form = {"once": "0189c0de-0000-7000-8000-000000000000", "seen": ""}
    async with _ada(role, host_spool(tmp_path / "spool")) as ada:
        for path, typed in RESERVED.values():
            told = ""
            for answer in (await ada.post(path, data=form, headers=SAME), await ada.get(path)):
                told = Read(answer.text).text
                assert answer.status_code == 403, (path, told)
                assert f"the database role {database.name}_operator lacks" in told, path
                assert "nothing was changed" in told.lower(), path
            if path.startswith("/act/erase"):
                assert "run inboxd erase as the schema's owner" in told
                continue
            await database.execute(_grants(answer.text))
            if path.startswith("/act/commands/"):
                shown = ReadForm((await confirm(ada, await ask(ada, path), **typed)).text)
                done = await ada.post(shown.action, data=shown.fields, headers=SAME)
                assert done.status_code == 303, Read(done.text).text
            else:
                await act(ada, path, **typed)
            if path.startswith("/act/spool"):
                rights = "execute on function inboxd.receive, inboxd.erased"
                await database.execute(f"revoke {rights} from {database.name}_operator")
    assert [line[1] for line in await audit(database)] == [
        *("emit to a.happened", "send to a.do", "run", "add to 0 4 1 1 * UTC"),
        *("change to 0 3 * * * UTC", "remove"),
        *("add to crm.example", "change to rate", "rotate", "remove"),
        *("replay to another payload", "edit to priority 7", "drain", "drain"),
    ]


@pytest.mark.direct("the pooler knows one role")
async def test_a_workers_login_does_all_but_erase(
    database: Database, become: Become, tmp_path: Path
) -> None:
    """The page refuses an erasure before it asks for the selection."""
    await _fill(database)
    async with _ada(await become("worker"), host_spool(tmp_path / "spool")) as ada:
        for path, typed in RESERVED.values():
            if not path.startswith(("/act/erase", "/act/commands")):
                await act(ada, path, **typed)
        assert (await ada.get("/act/commands/replay-with?id=1")).status_code == 200
        denied = await ada.get("/act/erase")
        assert denied.status_code == 403
        assert "lacks UPDATE on inboxd.events_history" in Read(denied.text).text
    assert len(await audit(database)) == 12


async def test_an_erasure_that_is_cut_off_says_so_and_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await send(database, 2)
    await database.execute("update inboxd.commands set tenant = 'acme'")
    path = "/act/erase?tenant=acme"
    async with _ada(database) as ada, database.connect() as other:
        waits = await confirm(ada, await ask(ada, path))
        assert (waits.status_code, "cancel them too" in waits.text) == (409, True)
        assert " --" not in Read(waits.text).text
        asked = await ask(ada, path)
        assert "the rows erased so far stay erased" in asked.text
        monkeypatch.setattr("inboxd.admin.screens.actions.erase._ERASE_SECONDS", 0.5)
        async with other.transaction():
            await other.execute("select from inboxd.commands where id = 2 for update")
            cut = await confirm(ada, asked, unsettled="1")
        assert cut.headers["location"] == path
        again = await ask(ada, path)
        assert "The time ran out" in again.html
        monkeypatch.undo()
        assert (await act(ada, path, unsettled="1")).startswith("Erased: 2 rows.")
        rows = "select count(*) from inboxd.commands_history where tenant is null"
        assert await database.fetchval(rows) == 2
    assert await database.fetchval("select sum(count) from inboxd.audit") == 2


async def test_an_erasure_covers_the_rows_that_were_shown(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.admin.screens.actions.bulk.TYPED_FROM", 1)
    await send(database, 2)
    await database.execute("update inboxd.commands set tenant = 'acme', status = 'failed'")
    path = "/act/erase?tenant=acme"
    async with _ada(database) as ada:
        asked = await ask(ada, path)
        assert "Dead letters are dismissed" in asked.text
        assert "Webhooks that brought the events lose their body" in asked.text
        refused = await confirm(ada, asked, rows="3")
        assert (refused.status_code, "this changes 2 rows" in refused.text) == (400, True)
        await send(database, 1)
        await database.execute("update inboxd.commands set tenant = 'acme', status = 'failed'")
        more = await confirm(ada, asked, rows="2")
        assert (more.status_code, "more than the 2 that were shown" in more.text) == (409, True)
        assert await audit(database) == []
        assert (await act(ada, path, rows="3")).startswith("Erased: 3 rows.")


async def test_counting_a_long_history_is_left_to_the_command_line(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.admin.screens.actions.erase._COUNT_SECONDS", 0.0)
    async with _ada(database) as ada:
        refused = await ada.get("/act/erase?tenant=acme")
        told = Read(refused.text).text
        assert (refused.status_code, "inboxd erase on a terminal" in told) == (409, True), told
        assert " --" not in told


def _grants(page: str) -> str:
    """The GRANT statements on the page."""
    found = re.search(r"<code>(GRANT .*?)</code>", page, re.DOTALL)
    assert found is not None, Read(page).text
    return unescape(found[1])
