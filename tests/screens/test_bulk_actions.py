"""Bulk actions from the screens: ordered by a form, shown, paused, resumed, undone."""

from collections.abc import AsyncIterator
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from tests.screens.confirming import act, ask, confirm
from tests.screens.reading import Read
from tests.screens.terminal import printed
from tests.screens.test_acting import audit
from tests.screens.visiting import Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.bulk_actions import step

pytestmark = pytest.mark.anyio

DEAD = (
    "insert into inboxd.commands (type, queue, tenant, status, attempts, errors, fingerprint)"
    " select $1, 'default', $2, 'failed', 1, '[{\"error\": \"E: it was down\"}]', 'f1'"
    " from generate_series(1, $3::int)"
)


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    users = [
        user("ada", "admin"),
        user("olga", "operator"),
        {**user("eve", "admin"), "tenants": ["acme"]},
    ]
    async with visiting(database, users=users) as site:
        yield site


@pytest.fixture
async def ada(site: Visited) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        await sign_in(client, "ada")
        yield client


async def _dead(database: Database, count: int, type_: str = "mail", tenant: str = "acme") -> None:
    await database.fetch(DEAD, type_, tenant, count)


async def _statuses(database: Database) -> dict[str, int]:
    rows = await database.fetch(
        "select status, count(*) from (select status from inboxd.commands"
        " union all select status from inboxd.commands_history) as c group by 1"
    )
    return {row["status"]: row["count"] for row in rows}


def _links(page: str) -> set[str]:
    return {part.partition('"')[0].replace("&amp;", "&") for part in page.split('href="')[1:]}


async def test_from_a_list_to_a_canary_that_stops_and_on_to_the_end(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _dead(database, 12)
    await _dead(database, 1, "post")
    listed = (await ada.get("/commands?type=mail&status=failed&error=down")).text
    (link,) = (each for each in _links(listed) if each.startswith("/act/commands/replay-all"))
    about = parse_qs(urlsplit(link).query)
    assert (about["type"], about["error"]) == (["mail"], ["down"])
    asked = await ask(ada, link)
    assert "12 commands" in asked.text
    assert "inboxd commands replay --type mail --error down --background" in asked.text
    answer = await confirm(ada, asked, reason="the server is back", rate="", delay="0s")
    assert answer.headers["location"] == "/actions/1"
    page = (await ada.get("/actions/1")).text
    assert "Ordered: action 1 starts at" in page
    assert "the server is back" in page
    assert await _statuses(database) == {"failed": 13}
    await step(database, 2)
    await database.execute(
        "update inboxd.commands set status = 'failed' where id ="
        " (select max(id) from inboxd.commands)"
    )
    await step(database)
    page = (await ada.get("/actions/1")).text
    assert "the canary failed: 1 of the first 10 did not succeed" in page
    assert 'value="0.8333' in page
    assert "/act/action/pause" not in page
    assert await act(ada, "/act/action/resume?action=1") == "Resumed."
    await step(database, 2)
    assert (await ada.get("/actions/1.json")).json()["status"] == "completed"
    assert (await ada.get("/actions/1.json")).json() == await printed(
        database, "actions", "show", 1
    )
    assert (await ada.get("/actions.json")).json() == await printed(database, "actions", "list")
    assert "/act/action/" not in (await ada.get("/actions/1")).text
    assert (await audit(database))[0] == (
        *("user ada", "replay", "commands type=mail error=down", "the server is back", 12),
    )


async def test_an_operator_undoes_pauses_and_ends_an_action(
    database: Database, site: Visited, ada: httpx.AsyncClient
) -> None:
    await _dead(database, 3)
    dismiss = "/act/commands/dismiss-all?group=f1"
    for _ in range(2):
        assert (await confirm(ada, await ask(ada, dismiss), rate="1")).status_code == 303
    async with site.client() as olga:
        await sign_in(olga, "olga")
        assert "/act/commands/replay-all" not in (await olga.get("/commands")).text
        assert (await olga.get(dismiss)).status_code == 403
        undone = await act(olga, "/act/action/abort?action=1", reason="the wrong ones")
        assert undone == "Undone: it had not begun, and nothing was changed."
        await step(database)
        paused = await act(olga, "/act/action/pause?action=2")
        assert paused == "Paused: 1 done, 0 left as they are."
        assert (await olga.get("/act/action/pause?action=2")).status_code == 409
        assert (await olga.get("/act/action/resume?action=2")).status_code == 403
        await step(database)
        ended = await act(olga, "/act/action/abort?action=2")
        assert ended == "Ended: 1 done, 0 left as they are."
        assert (await olga.get("/act/action/abort?action=2")).status_code == 409
        assert (await olga.get("/act/action/abort?action=9")).status_code == 404
    assert await _statuses(database) == {"failed": 2, "dismissed": 1}
    listed = Read((await ada.get("/actions")).text).text
    assert "dismiss commands aborted" in listed
    assert "It was undone before it began" in (await ada.get("/actions/1")).text


async def test_many_rows_are_confirmed_by_their_number_and_invalid_input_again(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _dead(database, 1_001)
    asked = await ask(ada, "/act/commands/replay-all?type=mail")
    for typed, told in (
        ({}, "type that number to confirm it"),
        ({"rows": "1000"}, "type that number to confirm it"),
        ({"rows": "1001", "rate": "0"}, "a rate of 0"),
        ({"rows": "1001", "delay": "soon"}, "soon"),
    ):
        again = await confirm(ada, asked, **typed)
        assert (again.status_code, told in again.text) == (400, True), typed
    assert await database.fetchval("select count(*) from inboxd.actions") == 0
    assert (await confirm(ada, asked, rows="1,001")).status_code == 303
    assert (await confirm(ada, asked, rows="1001")).status_code == 409, "sent twice"
    assert await database.fetchval("select count(*) from inboxd.actions") == 1


async def test_an_unsupported_filter_and_one_that_matches_nothing_are_refused(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _dead(database, 1)
    for query in ("payload=a%3D1", "status=pending", "by=failed"):
        assert (await ada.get(f"/act/commands/replay-all?{query}")).status_code == 400, query
        assert "/act/commands/replay-all" not in (await ada.get(f"/commands?{query}")).text
    assert (await ada.get("/act/events/replay-all?commands=failed")).status_code == 400
    assert (await ada.get("/act/commands/replay-all?entity=:")).status_code == 400
    asked = await ask(ada, "/act/commands/replay-all?type=none")
    assert "No row matches now" in asked.text
    assert (await confirm(ada, asked)).status_code == 404
    assert await audit(database) == []


async def test_moment_of_a_chart_is_replayed_as_a_whole(
    database: Database, ada: httpx.AsyncClient
) -> None:
    """The list of a chart's moment offers the action on all its rows, by the time of failure."""
    await _dead(database, 3)
    await database.execute(
        "update inboxd.commands set entity_type = 'order', entity_id = id::text, errors ="
        """ '[{"error": "E: it was down", "at": "2026-01-31T12:00:30Z"}]' where id <= 2"""
    )
    moment = "by=failed&since=2026-01-31T12:00Z&until=2026-01-31T12:01Z"
    links = _links((await ada.get(f"/commands?{moment}")).text)
    (link,) = (each for each in links if each.startswith("/act/commands/replay-all"))
    about = parse_qs(urlsplit(link).query)
    assert (about["by"], about["until"]) == (["failed"], ["2026-01-31T12:01Z"])
    assert "1 commands" in (await ask(ada, f"{link}&entity=order:2")).text
    asked = await ask(ada, link)
    assert "2 commands" in asked.text
    told = "--since 2026-01-31T12:00Z --until 2026-01-31T12:01Z --by failed --background"
    assert f"inboxd commands replay {told}" in asked.text
    assert (await confirm(ada, asked, canary="", delay="0s")).status_code == 303
    page = Read((await ada.get("/actions/1")).text).text
    assert "until: 2026-01-31 12:01:00 UTC" in page
    assert "by: failed" in page
    await step(database, 2)
    assert await _statuses(database) == {"failed": 3, "pending": 2}
    assert (await audit(database))[0][1:3] == (
        "replay",
        "commands since=2026-01-31 12:00:00+00:00 until=2026-01-31 12:01:00+00:00 by=failed",
    )


async def test_the_moment_of_a_relative_time_is_that_of_the_page(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await _dead(database, 1)
    await database.execute("update inboxd.commands set status = 'pending'")
    asked = await ask(ada, "/act/commands/reschedule-all?since=2h&until=0s")
    answer = await confirm(ada, asked, at="2100-01-01T00:00Z")
    assert answer.status_code == 303, answer.text
    selection = (await ada.get("/actions/1.json")).json()["selection"]
    assert selection["since"].startswith(asked.form.fields["since"][:19])
    assert selection["until"].startswith(asked.form.fields["until"][:19])
    asked = await ask(ada, "/act/commands/prioritize-all")
    assert "No filter is set" in asked.text
    assert (await confirm(ada, asked, priority="x")).status_code == 400
    assert (await confirm(ada, asked, priority="7")).status_code == 303
    await step(database, 4)
    row = await database.fetch("select priority, run_at from inboxd.commands")
    assert (row[0]["priority"], row[0]["run_at"].year) == (7, 2100)


async def test_a_visitor_of_certain_tenants_orders_and_sees_actions_on_their_rows(
    database: Database, site: Visited, ada: httpx.AsyncClient
) -> None:
    await _dead(database, 2, "mail", "acme")
    await _dead(database, 3, "mail", "zeta")
    assert (await confirm(ada, await ask(ada, "/act/commands/dismiss-all"))).status_code == 303
    async with site.client() as eve:
        await sign_in(eve, "eve")
        asked = await ask(eve, "/act/commands/dismiss-all?type=mail")
        assert "2 commands" in asked.text
        assert "zeta" not in asked.text
        assert (await confirm(eve, asked)).status_code == 303
        other = await ask(eve, "/act/commands/dismiss-all?tenant=zeta")
        assert (await confirm(eve, other)).status_code == 404
        assert [each["id"] for each in (await eve.get("/actions.json")).json()["actions"]] == [2]
        for path in ("/actions/1", "/act/action/abort?action=1"):
            assert (await eve.get(path)).status_code == 404
    await act(ada, "/act/action/abort?action=1")
    await step(database, 2)
    left = await database.fetch("select distinct tenant from inboxd.commands")
    assert [row["tenant"] for row in left] == ["zeta"]
    assert (await audit(database))[1][1:3] == ("dismiss", "commands type=mail tenants=acme")


async def test_an_order_covers_no_more_rows_than_were_shown(
    database: Database, ada: httpx.AsyncClient
) -> None:
    """Later rows are left out; a known row that matches only now refuses the form."""
    await _dead(database, 2)
    await database.execute("update inboxd.commands set status = 'pending' where id = 2")
    path = "/act/commands/replay-all?type=mail"
    asked = await ask(ada, path)
    await _dead(database, 3)
    assert (await confirm(ada, asked, canary="")).status_code == 303
    assert (await ada.get("/actions/1.json")).json()["counted"] == 1
    asked = await ask(ada, path)
    await database.execute("update inboxd.commands set status = 'failed' where id = 2")
    refused = await confirm(ada, asked)
    assert (refused.status_code, "rows match now, more than" in refused.text) == (409, True)
    assert await database.fetchval("select count(*) from inboxd.actions") == 1


async def test_an_action_on_uncounted_rows_is_confirmed_by_a_word(
    database: Database, ada: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.operations.bulk_orders.LOOKED_AT", 1)
    monkeypatch.setattr("inboxd.operations.bulk_orders.LOOK", 1)
    await _dead(database, 2, "other")
    await _dead(database, 1)
    await database.execute("update inboxd.commands set status = 'pending'")
    asked = await ask(ada, "/act/commands/cancel-all?type=mail")
    assert "0+ commands" in asked.text
    refused = await confirm(ada, asked)
    assert (refused.status_code, "could be counted" in Read(refused.text).text) == (400, True)
    assert (await confirm(ada, asked, rows="all")).status_code == 303


async def test_a_form_resumes_what_it_has_shown(database: Database, ada: httpx.AsyncClient) -> None:
    await _dead(database, 1)
    await confirm(ada, await ask(ada, "/act/commands/dismiss-all"))
    await act(ada, "/act/action/pause?action=1")
    asked = await ask(ada, "/act/action/resume?action=1")
    await database.execute("update inboxd.actions set note = 'the canary failed'")
    refused = await confirm(ada, asked)
    assert (refused.status_code, "now paused for another reason" in refused.text) == (409, True)
