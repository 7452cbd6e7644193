"""Actions on the screens: confirmation, effect, audit entry, and the second of two operators."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.screens.confirming import ReadForm, act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_batches import NOOP, send_batch
from tests.screens.visiting import SAME, Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.rows import emit, send

pytestmark = pytest.mark.anyio

HOSTILE = """"><script>alert(1)</script>' {{7*7}} {n} `x` \u202e é"""


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    users = [user("ada", "admin"), user("bob", "operator")]
    async with visiting(database, users=users) as site:
        yield site


@pytest.fixture
async def ada(site: Visited) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        await sign_in(client, "ada")
        yield client


async def fail(database: Database, table: str) -> None:
    """Make all rows of the table dead letters."""
    await database.execute(
        f"update inboxd.{table} set status = 'failed', updated_at = clock_timestamp(),"
        """ errors = '[{"error": "gone wrong", "attempt": 3}]'"""
    )


async def audit(database: Database) -> list[tuple[object, ...]]:
    """All audit entries, oldest first: actor, action, target, reason, count."""
    rows = await database.fetch(
        "select actor, action, target, reason, count from inboxd.audit order by id"
    )
    return [tuple(row) for row in rows]


async def test_a_dead_letter_is_replayed(database: Database, ada: httpx.AsyncClient) -> None:
    await send(database, 1)
    await fail(database, "commands")
    page = await ada.get("/commands/1")
    assert 'href="/act/commands/replay?id=1"' in page.text
    asked = await ask(ada, "/act/commands/replay?id=1")
    assert "A new row takes its place and runs" in asked.text
    assert "inboxd commands replay 1" in asked.text
    told = await act(ada, "/act/commands/replay?id=1", reason=HOSTILE)
    assert told == "Replayed: 1 runs again as 2."
    assert await audit(database) == [
        ("user ada", "replay", "commands 1", HOSTILE, 1),
    ]


async def test_the_confirmation_shows_the_consequences(
    database: Database, ada: httpx.AsyncClient
) -> None:
    """Covers a batch that heals, waiting rows, a taken unique key, and a kept place in the line."""
    await send_batch(database, "mails", 1)
    await database.execute(
        "select inboxd.send_after(command_id, $1) from inboxd.commands where status = 'pending'",
        '{"type": "teacher.told"}',
    )
    await database.execute(
        "insert into inboxd.commands (type, unique_key, ordering_key, status, line_at) values"
        " ('keyed', 'k', null, 'failed', null), ('ordered', null, 'o', 'failed', now())"
    )
    await database.execute("update inboxd.commands set status = 'failed' where status = 'pending'")
    await database.execute(
        "insert into inboxd.commands (type, unique_key, ordering_key, status)"
        " values ('keyed', 'k', null, 'pending'), ('ordered', null, 'o', 'waiting')"
    )
    rows = await database.fetch("select type, id from inboxd.commands where status = 'failed'")
    ids = {row["type"]: row["id"] for row in rows}
    told = {
        (type_, action): (await ask(ada, f"/act/commands/{action}?id={id_}")).text
        for type_, id_ in ids.items()
        for action in ("replay", "dismiss")
    }
    member = NOOP["type"]
    assert "heals if this succeeds and nothing else in it failed: mails." in told[member, "replay"]
    assert "are released when it succeeds: 1." in told[member, "replay"]
    assert "counts it as cancelled: mails." in told[member, "dismiss"]
    assert "Those that need its success end as skipped" in told[member, "dismiss"]
    assert "holds its unique key" in told["keyed", "replay"]
    assert "runs again in its own place in the line" in told["ordered", "replay"]
    assert "continue after it: 1." in told["ordered", "dismiss"]
    taken = await confirm(ada, await ask(ada, f"/act/commands/replay?id={ids['keyed']}"))
    assert (taken.status_code, "holds its unique key" in taken.text) == (409, True)


@pytest.mark.parametrize("action", ["replay", "dismiss"])
async def test_the_second_of_two_operators_is_refused(
    database: Database, site: Visited, ada: httpx.AsyncClient, action: str
) -> None:
    await send(database, 1)
    await fail(database, "commands")
    path = f"/act/commands/{action}?id=1"
    async with site.client() as bob:
        await sign_in(bob, "bob")
        seen = await ask(bob, path)
        await act(ada, path)
        second = await confirm(bob, seen)
    assert second.status_code == 409
    assert "nothing was changed" in Read(second.text).text
    assert 'href="/commands/1"' in second.text
    assert len(await audit(database)) == 1


async def test_a_row_that_failed_again_since_it_was_shown_is_not_replayed(
    database: Database, ada: httpx.AsyncClient
) -> None:
    """An event keeps its id and status when it fails again; only the failure is another one."""
    await emit(database, 1)
    await fail(database, "events")
    asked = await ask(ada, "/act/events/replay?id=1")
    await fail(database, "events")
    refused = await confirm(ada, asked)
    assert (refused.status_code, "changed it meanwhile" in refused.text) == (409, True)
    assert await audit(database) == []


async def test_a_form_that_is_sent_twice_counts_once(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await send(database, 1)
    asked = await ask(ada, "/act/pause?kind=queue&name=default")
    assert (await confirm(ada, asked)).status_code == 303
    await act(ada, "/act/resume?kind=queue&name=default")
    again = await confirm(ada, asked)
    assert (again.status_code, "confirmed before" in again.text) == (409, True)
    assert [line[1] for line in await audit(database)] == ["pause", "resume"]


async def test_a_command_is_replayed_with_another_payload(
    database: Database, ada: httpx.AsyncClient
) -> None:
    """Changes are shown first; the old row keeps its payload, and the new row names the old one."""
    await send(database, 1, told="canary")
    await fail(database, "commands")
    path = "/act/commands/replay-with?id=1"
    assert path in (await ada.get("/commands/1")).text
    asked = await ask(ada, path)
    assert "canary" in asked.form.fields["payload"]
    wrong = await confirm(ada, asked, payload='{"n": ')
    assert (wrong.status_code, "is not valid JSON" in wrong.text) == (400, True)
    assert ReadForm(wrong.text).fields["payload"].strip() == '{"n":'
    shown = await confirm(ada, asked, payload='{"n": 2, "at": "<b>"}')
    assert shown.status_code == 200
    assert "<del>-   &#34;told&#34;: &#34;canary&#34;" in shown.text
    assert "<ins>+   &#34;at&#34;: &#34;&lt;b&gt;&#34;" in shown.text
    assert await database.fetchval("select count(*) from inboxd.commands_history") == 0
    form = ReadForm(shown.text)
    other = form.fields | {"payload": '{"n": 3}'}  # a payload that the page has not shown
    again = await ada.post(form.action, data=other, headers=SAME)
    assert (again.status_code, "Changes" in again.text) == (200, True)
    done = await ada.post(form.action, data=form.fields | {"reason": "mended"}, headers=SAME)
    assert done.headers["location"] == "/commands/2"
    rows = await database.fetch(
        "select id, replay_of, payload::text, status from inboxd.commands union all"
        " select id, replay_of, payload::text, status from inboxd.commands_history order by id"
    )
    assert [tuple(row) for row in rows] == [
        (1, None, '{"n": 1, "told": "canary"}', "failed"),
        (2, 1, '{"n": 2, "at": "<b>"}', "pending"),
    ]
    assert await audit(database) == [
        ("user ada", "replay to another payload", "commands 1", "mended", 1)
    ]


async def test_only_commands_without_a_key_get_another_payload(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await emit(database, 1)
    await database.execute(
        "insert into inboxd.commands (type, ordering_key, status) values ('a.b', 'k', 'failed')"
    )
    ordered = await ada.get("/act/commands/replay-with?id=1")
    assert (ordered.status_code, "has an ordering key" in ordered.text) == (409, True)
    assert (await ada.get("/act/events/replay-with?id=1")).status_code == 404
    assert "replay-with" not in (await ada.get("/events/1")).text
    changed = await database.fetchval("select inboxd.replace_payload(1, '{}')")
    assert changed is None, "command 1 is not a replay"
    await database.execute("update inboxd.commands set ordering_key = null")
    [new] = [
        row["new_id"]
        for row in await database.fetch("select * from inboxd.replay_commands('{1}', 'me', null)")
    ]
    assert await database.fetchval("select inboxd.replace_payload($1, '{}')", new) is None


async def test_rows_that_are_chosen_are_acted_on_together_or_not_at_all(
    database: Database, ada: httpx.AsyncClient
) -> None:
    ids = await send(database, 4)
    await fail(database, "commands")
    page = (await ada.get("/commands?chosen=all")).text
    assert len(re.findall(r'name="id"[^>]* checked>', page)) == 4
    chosen = "&".join(f"id={each}" for each in ids[:3])
    path = f"/act/commands/dismiss?{chosen}&to=/commands%3Fstatus%3Dfailed"
    asked = await ask(ada, path)
    assert "3 commands" in asked.text
    await act(ada, f"/act/commands/replay?id={ids[1]}")
    refused = await confirm(ada, asked)
    assert (refused.status_code, f"{ids[1]} was replayed as" in refused.text) == (409, True)
    assert await database.fetchval("select count(*) from inboxd.commands_history") == 1
    both = path.replace(f"id={ids[1]}&", "")
    assert await act(ada, both, reason="by hand") == "Dismissed: 2."
    assert (await audit(database))[-1] == (
        "user ada",
        "dismiss",
        f"commands {ids[0]}, {ids[2]}",
        "by hand",
        2,
    )
