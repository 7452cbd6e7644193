"""Each action once, with its audit entry; then hostile names, secrets, and a prefix."""

import re
from collections.abc import AsyncIterator

import httpx
import pytest

from inboxd.admin.screens.actions import ACTIONS
from tests.screens.confirming import act, ask, confirm
from tests.screens.reading import Read
from tests.screens.test_acting import HOSTILE, audit, fail
from tests.screens.visiting import SAME, Visited, sign_in, user, visiting
from tests.support import Database
from tests.support.rows import emit, send

pytestmark = pytest.mark.anyio

SETTING = """
insert into inboxd.topics (name, mode, source) values ('few', 'batch', 'plugin');
insert into inboxd.subscriptions (topic, type, undeclared_at) values ('few', 'old.type', now());
insert into inboxd.declared_types (kind, type) values ('event', 'a.happened'), ('command', 'a.do');
insert into inboxd.schedules (name, source, cron, zone, missed, kind, type, schema_version, lane,
  priority, payload, next_at)
values ('nightly', 'plugin', '0 3 * * *', 'UTC', 'skip', 'command', 'a.do', 1, 'default', 0, '{}',
  now() + interval '1 hour');
insert into inboxd.schedules (name, source, cron, zone, missed, kind, type, schema_version, lane,
  priority, payload, next_at, added_at)
values ('by-hand', 'ada', '0 3 * * *', 'UTC', 'skip', 'command', 'a.do', 1, 'default', 0, '{}',
  '2030-01-01T03:00:00Z', now());
insert into inboxd.breakers (name) values ('brevo');
insert into inboxd.endpoints (name, url, types, secrets)
values ('acme', 'https://one.example/canary', '{*}', '[{"secret": "canary"}]');
insert into inboxd.receivers (id, name, host, pid, version, sources, state, beat_at)
values (gen_random_uuid(), 'door', 'node', 7, '1', '{hook}', 'running', now());
insert into inboxd.events (topic, type, tenant) values ('few', 'old.type', 'acme');
insert into inboxd.commands (type, tenant) values ('a.do', 'acme'), ('a.do', 'acme');
"""
# Address, values typed, beginning of the result, audit entry (action, target, count).
EACH: list[tuple[str, dict[str, str], str, tuple[str, str, int]]] = [
    (
        "/act/commands/reschedule?id=1",
        {"at": "2030-01-01T00:00Z"},
        "Rescheduled to 2030-01-01 00:00:00 UTC: 1.",
        ("reschedule to 2030-01-01T00:00:00Z", "commands 1", 1),
    ),
    (
        "/act/commands/prioritize?id=1&id=2",
        {"priority": "-5"},
        "Priority -5: 2.",
        ("prioritize to -5", "commands 1, 2", 2),
    ),
    ("/act/commands/cancel?id=1", {}, "Cancelled: 1.", ("cancel", "commands 1", 1)),
    (
        "/act/pause?kind=queue&name=default",
        {},
        "Paused: queue default. Waiting rows: 1.",
        ("pause", "queue default", 1),
    ),
    (
        "/act/resume?kind=queue&name=default",
        {},
        "Resumed: queue default. Waiting rows: 1.",
        ("resume", "queue default", 1),
    ),
    (
        "/act/pause?kind=type&name=a.do",
        {},
        "Paused: type a.do. Waiting rows: 1.",
        ("pause", "type a.do", 1),
    ),
    (
        "/act/pause?kind=source&name=hook",
        {"mode": "refuse"},
        "Paused: source hook. Waiting rows: 0.",
        ("refuse", "source hook", 0),
    ),
    (
        "/act/pause?kind=schedule&name=nightly",
        {},
        "Paused: schedule nightly. Waiting rows: 0.",
        ("pause", "schedule nightly", 0),
    ),
    (
        "/act/schedules/add",
        {"name": "weekly", "type": "a.happened", "kind": "event", "cron": "0 4 1 1 *"},
        "Added: its first run is at",
        ("add to 0 4 1 1 * UTC", "schedule weekly", 1),
    ),
    (
        "/act/schedules/change?schedule=by-hand",
        {"payload": '{"n": 12345678901234567890123}'},
        "Changed: its next run is at 2030-01-01 03:00:00 UTC.",
        ("change to 0 3 * * * UTC", "schedule by-hand", 1),
    ),
    (
        "/act/schedules/remove?schedule=by-hand",
        {},
        "Removed: schedule by-hand.",
        ("remove", "schedule by-hand", 1),
    ),
    ("/act/run?schedule=nightly", {}, "Sent: the run of", ("run", "schedule nightly", 1)),
    ("/act/unsubscribe?topic=few", {}, "Unsubscribed: old.type.", ("unsubscribe", "topic few", 1)),
    (
        "/act/breaker?name=brevo&mode=open",
        {},
        "The breaker brevo is forced open.",
        ("force open", "breaker brevo", 1),
    ),
    (
        "/act/endpoint/disable?name=acme",
        {},
        "The endpoint acme is disabled.",
        ("disable", "endpoint acme", 1),
    ),
    (
        "/act/endpoint/enable?name=acme",
        {},
        "The endpoint acme is enabled.",
        ("enable", "endpoint acme", 1),
    ),
    (
        "/act/emit",
        {"type": "a.happened", "payload": '{"secret": "canary"}', "tenant": "zeta"},
        "Emitted: event 3.",
        ("emit to a.happened", "events 3", 1),
    ),
    (
        "/act/send?type=a.do",
        {"payload": "{}", "unique_key": "k"},
        "Sent: command 4.",
        ("send to a.do", "commands 4", 1),
    ),
    (
        "/act/erase?tenant=acme",
        {"unsettled": "1"},
        "Erased: 3 rows.",
        ("erase", "tenant=acme", 3),
    ),
]


@pytest.fixture
async def site(database: Database) -> AsyncIterator[Visited]:
    await database.execute(SETTING)
    async with visiting(database, users=[user("ada", "admin")]) as site:
        yield site


@pytest.fixture
async def ada(site: Visited) -> AsyncIterator[httpx.AsyncClient]:
    async with site.client() as client:
        await sign_in(client, "ada")
        yield client


async def test_each_action_does_what_it_says_and_is_in_the_audit(
    database: Database, ada: httpx.AsyncClient
) -> None:
    done = {path.partition("?")[0] for path, *_ in EACH}
    elsewhere = {"/act/flush"} | {
        f"/act/{table}/{verb}"
        for table in ("events", "commands")
        for verb in ("replay", "dismiss", "reschedule", "replay-with", "edit")
    }
    # test_acting_spools.py tests these.
    elsewhere |= {each.path for each in ACTIONS if each.path.startswith("/act/spool/")}
    # test_archived_failures.py tests these.
    elsewhere |= {each.path for each in ACTIONS if each.path.startswith("/act/failures/")}
    # test_bulk_actions.py tests these.
    elsewhere |= {
        each.path for each in ACTIONS if each.path.endswith("-all") or "/action/" in each.path
    }
    # test_acting_batches.py, _streams.py, _endpoints.py and _receipts.py test these.
    others = ("/act/batch/", "/act/workflow/", "/act/stream/", "/act/endpoint/", "/act/webhooks/")
    elsewhere |= {each.path for each in ACTIONS if each.path.startswith(others)}
    assert {each.path for each in ACTIONS} <= done | elsewhere
    for path, typed, told, (action, target, count) in EACH:
        assert (await act(ada, path, reason=HOSTILE, **typed)).startswith(told), path
        line = (await audit(database))[-1]
        assert line == ("user ada", action, target, HOSTILE, count), path
    assert len(await audit(database)) == len(EACH)
    for page in ("/audit", "/queues", "/schedules", "/breakers", "/endpoints", "/commands"):
        text = (await ada.get(page)).text
        assert "<script>alert" not in text
    assert HOSTILE in Read((await ada.get("/audit")).text).text


async def test_events_and_chunks_are_acted_on_the_same_way(
    database: Database, ada: httpx.AsyncClient
) -> None:
    ids = await emit(database, 2)
    at = await act(ada, f"/act/events/reschedule?id={ids[0]}", at="now")
    assert at.startswith("Rescheduled to ")
    await fail(database, "events")
    assert await act(ada, f"/act/events/replay?id={ids[0]}") == "Replayed: 1 run again."
    assert await act(ada, f"/act/events/dismiss?id={ids[1]}") == "Dismissed: 1."
    nothing = await confirm(ada, await ask(ada, "/act/flush?topic=few"))
    assert (nothing.status_code, "no chunk of" in nothing.text.lower()) == (404, True)


async def test_a_pause_and_a_flush_show_their_number_first(
    database: Database, ada: httpx.AsyncClient
) -> None:
    await database.execute(
        "insert into inboxd.events (type, topic, mode, ordering_key)"
        " select 'old.type', 'few', 'batch', n from unnest('{a,b,c}'::text[]) as key(n);"
        "update inboxd.events set position = 1, head = true, run_at = now() + interval '1 day'"
        " where ordering_key in ('a', 'b', 'c')"
    )
    for path, shown in (
        ("/act/pause?kind=queue&name=default", "Rows that wait there now: 2."),
        ("/act/flush?topic=few", "whatever they wait for: 3."),
        ("/act/flush?topic=few&key=b", "whatever they wait for: 1."),
    ):
        assert shown in (await ask(ada, path)).text, path


async def test_an_invalid_form_is_shown_again_with_its_input(
    database: Database, ada: httpx.AsyncClient
) -> None:
    for path, typed, told in (
        ("/act/send", {"type": "a.do", "payload": '{"half": "canary'}, "is not valid JSON"),
        ("/act/emit", {"type": " ", "payload": "{}"}, "the type is missing"),
        ("/act/commands/reschedule?id=1", {"at": "<b>soon"}, "&lt;b&gt;soon"),
        ("/act/commands/prioritize?id=1", {"priority": "99999"}, "priority 99999"),
    ):
        answer = await confirm(ada, await ask(ada, path), reason="kept", **typed)
        assert (answer.status_code, told in answer.text) == (400, True), answer.text
        assert 'role="alert"' in answer.text
        assert 'value="kept"' in answer.text
    unknown = await confirm(ada, await ask(ada, "/act/send"), type="a.typo", payload="{}")
    assert (unknown.status_code, "is not declared" in unknown.text.lower()) == (404, True)
    assert " --" not in Read(unknown.text).text, "options are for the command line"
    assert await audit(database) == []


async def test_a_row_by_hand_is_written_once_whichever_process_gets_the_form(
    database: Database, site: Visited, ada: httpx.AsyncClient
) -> None:
    asked = await ask(ada, "/act/send")
    typed = {"type": "a.do", "payload": '{"n": 1}'}
    assert (await confirm(ada, asked, **typed)).status_code == 303
    async with visiting(database, local_role="admin") as other, other.client() as client:
        again = await confirm(client, asked, **typed)
    assert (again.status_code, "exists already" in again.text) == (409, True)
    assert await database.fetchval("select count(*) from inboxd.commands") == 3
    assert len(await audit(database)) == 1


async def test_a_schedule_that_was_run_meanwhile_is_not_run_again(
    database: Database, ada: httpx.AsyncClient
) -> None:
    asked, late = [await ask(ada, "/act/run?schedule=nightly") for _ in range(2)]
    assert (await confirm(ada, asked)).status_code == 303
    refused = await confirm(ada, late)
    assert (refused.status_code, "ran meanwhile" in refused.text) == (409, True)
    row = await database.fetch("select origin_kind, correlation_id from inboxd.commands where id=3")
    assert row[0]["origin_kind"] == "schedule"
    await database.execute("update inboxd.schedules set undeclared_at = now()")
    gone = await ada.get("/act/run?schedule=nightly")
    assert (gone.status_code, "no living worker declares" in gone.text.lower()) == (409, True)


async def test_no_secret_is_on_a_page_of_an_action(
    database: Database, ada: httpx.AsyncClient
) -> None:
    """A payload shows only on the page that edits it."""
    await send(database, 1, "a.do", told="canary")
    await fail(database, "commands")
    for path, *_ in EACH:
        answer = await ada.get(path)
        assert "canary" not in answer.text, path
    for verb in ("replay", "dismiss"):
        assert "canary" not in (await ask(ada, f"/act/commands/{verb}?id=3")).html
    assert "canary" in (await ask(ada, "/act/commands/replay-with?id=3")).html


async def test_names_that_are_hostile_stay_text(database: Database, ada: httpx.AsyncClient) -> None:
    await database.execute(
        "insert into inboxd.commands (type, queue) values ($1, $1)",
        name := HOSTILE.replace("\u202e", "")[:60],
    )
    for kind in ("type", "queue"):
        asked = await ask(ada, str(httpx.URL("/act/pause", params={"kind": kind, "name": name})))
        assert "<script>" not in asked.html.replace("<script type", "")
        answer = await confirm(ada, asked)
        page = await ada.get(answer.headers["location"])
        assert page.status_code == 200
        assert "<script>alert" not in page.text
    unknown = await ada.get(f"/act/pause?kind=queue&name={httpx.QueryParams({'x': name})['x']}no")
    assert "<script>alert" not in unknown.text


async def test_under_a_prefix_nothing_leads_out_of_it(database: Database) -> None:
    await send(database, 1)
    settings = {"path": "/ops", "local_role": "admin"}
    async with visiting(database, **settings) as site, site.client() as client:
        page = await client.get("/ops/commands/1")
        assert 'href="/ops/act/commands/cancel?id=1"' in page.text
        asked = await ask(client, "/ops/act/commands/cancel?id=1")
        assert asked.form.action == "/ops/act/commands/cancel?id=1"
        paths = re.findall(r'(?:href|action|src)="([^"#]+)"', asked.html)
        assert {path for path in paths if not path.startswith("/ops")} == set()
        done = await confirm(client, asked)
        assert done.headers["location"] == "/ops/commands/1"
        assert "Path=/ops" in done.headers["set-cookie"]
        refused = await client.post("/ops/act/commands/cancel?id=1", data={}, headers=SAME)
        assert 'href="/ops/commands/1"' in refused.text
