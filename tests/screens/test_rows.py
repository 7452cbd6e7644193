"""Lists and details of events and commands: filters, how far was searched, what is hidden."""

from datetime import UTC, datetime, timedelta
from typing import Any

import httpx
import orjson
import pytest
from starlette.requests import Request

from inboxd.admin.screens.access import Everybody
from inboxd.admin.screens.application import Screens
from inboxd.admin.screens.pages import SCREENS
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.operations import finding
from inboxd.settings import Settings
from inboxd.store.operator_sessions import open_looks
from tests.browser import school
from tests.screens.reading import document, read
from tests.screens.terminal import printed
from tests.support import Database
from tests.support.history import make_day, settle
from tests.support.rows import settings_of

pytestmark = pytest.mark.anyio

HOSTILE = [
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'-alert(1)-'",
    "{{ 7 * 7 }}{% raw %}",
    "javascript:alert(1)",
    "\u202egnp.exe \U0001f642 ../../..",
]


@pytest.mark.parametrize("table", ["events", "commands"])
async def test_lists_and_details_are_the_command_lines(
    screens: httpx.AsyncClient, database: Database, table: str
) -> None:
    await school.fill(database)
    await database.execute("analyze")
    for query, options in (
        ("", ()),
        ("?status=pending&limit=50", ("--status", "pending", "--limit", 50)),
        ("?tenant=malta&since=2h", ("--tenant", "malta", "--since", "2h")),
        ("?below=9", ("--after", 9)),
    ):
        found = await document(screens, f"/{table}{query}")
        assert found == await printed(database, table, "list", *options), query
    ids = await database.fetch(
        f"(select id from inboxd.{table} order by id limit 1)"
        f" union all (select id from inboxd.{table}_history order by id limit 1)"
    )
    for row in ids:
        for query, option in (("", []), ("?payload=1", ["--payload"])):
            found = _without_rest(await document(screens, f"/{table}/{row['id']}{query}"))
            assert found == _without_rest(
                await printed(database, table, "show", row["id"], *option)
            )


def _without_rest(row: Any) -> Any:
    """The row without the values that change with time."""
    for breaker in row["breakers"]:
        breaker.pop("rest")
    return row


async def _emit(database: Database, **values: Any) -> int:
    columns = ", ".join(values)
    marks = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    id_: int = await database.fetchval(
        f"insert into inboxd.events ({columns}) values ({marks}) returning id", *values.values()
    )
    return id_


async def _ids(screens: httpx.AsyncClient, query: str, table: str = "events") -> list[int]:
    found: Any = await document(screens, f"/{table}?{query}")
    return [row["id"] for row in found[table]]


async def test_every_filter_of_events(screens: httpx.AsyncClient, database: Database) -> None:
    """Requirement R2.24: the filters, named as the command line's options."""
    now = datetime.now(UTC)
    error = orjson.dumps([{"attempt": 1, "error": "TimeoutError: no answer"}]).decode()
    wanted = await _emit(
        database,
        type="order.created",
        tenant="malta",
        topic="orders",
        entity_type="order",
        entity_id="17",
        payload=orjson.dumps({"customer": {"id": 17}}).decode(),
        created_at=now - timedelta(hours=1),
        status="failed",
        attempts=3,
        errors=error,
    )
    other = await _emit(database, type="order.paid", created_at=now - timedelta(days=2))
    await database.execute(
        "insert into inboxd.commands (type, queue, causation_id, origin_kind, origin_id, status)"
        " select 'ship', 'default', event_id, 'event', id, 'failed'"
        " from inboxd.events where id = $1",
        wanted,
    )
    assert await _ids(screens, "") == [other, wanted]
    for query in (
        "status=failed",
        "status=failed&status=succeeded",
        "type=order.created",
        "tenant=malta",
        "topic=orders",
        "since=3h",
        "entity=order",
        "entity=order%3A17",
        "error=no+answer",
        "payload=customer.id%3D17",
        "commands=failed",
        "type=order.created&tenant=&topic=&since=&error=",
        f"below={other}",
    ):
        assert await _ids(screens, query) == [wanted], query
    assert await _ids(screens, "until=1d") == [other]
    for query in ("entity=order%3A18", "commands=succeeded", "status=dismissed", "type=none"):
        assert await _ids(screens, query) == [], query


async def test_every_filter_of_commands(screens: httpx.AsyncClient, database: Database) -> None:
    wanted = await database.fetchval(
        "insert into inboxd.commands (type, queue, tenant) values ('mail', 'email', 'malta')"
        " returning id"
    )
    await database.execute("insert into inboxd.commands (type, queue) values ('ship', 'default')")
    for query in ("type=mail", "queue=email", "tenant=malta", "queue=email&status=pending"):
        assert await _ids(screens, query, "commands") == [wanted], query


@pytest.mark.parametrize(
    "query",
    [
        "status=none",
        "since=yesterday",
        "limit=101",
        "limit=0",
        "limit=000100000000",
        "limit=x",
        "below=-1",
        "payload=x",
        "span=year",
    ],
)
async def test_an_invalid_query_is_refused(screens: httpx.AsyncClient, query: str) -> None:
    answer = await screens.get(f"/events?{query}")
    assert answer.status_code == 400
    assert "Bad Request" in answer.text


async def test_a_list_says_how_far_it_looked_and_goes_on(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rare row is found on a later page; each page says how far back it searched."""
    await database.execute(
        "insert into inboxd.events (type) select case n when 1 then 'rare' else 'common' end"
        " from generate_series(1, 400) n"
    )
    defaults = finding.find.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "look", 150)
    path, pages = "/events?type=rare", 0
    while True:
        page = await read(screens, path)
        pages += 1
        further = [link for link in page.links if "below=" in link]
        if "Rare" in page.text:
            break
        assert "Searched back to" in page.text
        assert "(150 rows): 0 found" in page.text
        (path,) = set(further)
    assert pages == 3


async def test_a_search_for_dead_letters_that_is_not_over_leads_to_failures(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The dead letter is older than all rows that the search has looked at."""
    await database.execute(
        "insert into inboxd.commands (type, queue, status, attempts) select 'mail', 'email',"
        " case n when 1 then 'failed' else 'pending' end, 1 from generate_series(1, 400) n"
    )
    assert "/failures" not in (await read(screens, "/commands?status=failed")).links
    defaults = finding.find.__kwdefaults__
    assert defaults is not None
    monkeypatch.setitem(defaults, "look", 150)
    page = await read(screens, "/commands?status=failed")
    assert "(150 rows): 0 found" in page.text
    assert "/failures" in page.links


async def test_pages_continue_after_the_last_row(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await database.execute(
        "insert into inboxd.events (type) select 'a' from generate_series(1, 45)"
    )
    path, seen = "/events?type=a", []
    while path:
        page = await read(screens, path)
        seen += [link for link in page.links if link.startswith("/events/")]
        on = [link for link in page.links if "below=" in link and "chosen=" not in link]
        path = next(iter(on), "")
    assert len(set(seen)) == 45


async def test_an_event_has_an_icon_for_each_command_at_most_ten(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """Requirement R2.24: an icon shows its command's status; other events' commands have none."""
    many, few, none = [await _emit(database, type="e") for _ in range(3)]
    children = (
        "insert into inboxd.commands (type, queue, causation_id, origin_kind, origin_id, status)"
        " select 'ship', 'default', event_id, 'event', id, $3"
        " from inboxd.events, generate_series(1, $2) where id = $1"
    )
    await database.execute(children, many, 12, "pending")
    await database.execute(children, few, 1, "failed")
    await database.execute(children, few, 1, "pending")
    page = await read(screens, "/events")
    commands = [link for link in page.links if link.startswith("/commands/")]
    assert len(commands) == 10 + 2
    assert page.text.count("ship 13: failed") == 1
    assert page.links.count(f"/events/{many}") == 3, "a link to all commands follows the tenth"
    assert none not in (many, few)


async def test_totals_link_to_the_rows_that_they_count(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """Requirement R2.22: five totals, each with a link to its rows."""
    await school.fill(database)
    page = await read(screens, "/commands?tenant=malta")
    for title in ("Total", "Pending", "Running", "Failed", "Succeeded"):
        assert title in page.text
    assert "/commands?tenant=malta&status=failed" in page.links
    found: Any = await document(screens, "/commands?tenant=malta&status=failed&limit=100")
    assert f"Failed {len(found['commands'])} " in page.text


async def test_figures_are_drawn_and_lead_to_types(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """Requirement R2.23: charts of the newest events and of their types."""
    await school.fill(database)
    for span in ("hour", "day"):
        page = await read(screens, f"/events?span={span}")
        assert "By type" in page.text
        assert "Answer given" in page.text
        assert any("type=answer.given" in link for link in page.links)
        assert page.tags.count("svg") > 2


async def test_values_are_text_wherever_they_stand(
    screens: httpx.AsyncClient, database: Database
) -> None:
    paths, seen = ["/events", "/commands"], ""
    for text in HOSTILE:
        error = orjson.dumps([{"attempt": 1, "error": text, "traceback": text, "process": text}])
        id_ = await _emit(
            database,
            type=text,
            tenant=text,
            topic=text,
            source=text,
            ordering_key=text,
            entity_type=text,
            entity_id=text,
            correlation_id=text,
            payload=orjson.dumps({text: text}).decode(),
            headers=orjson.dumps({"x": text}).decode(),
            status="failed",
            attempts=1,
            errors=error.decode(),
        )
        paths += [f"/events/{id_}", f"/events/{id_}?payload=1", f"/story/event/{id_}"]
        for name in ("type", "tenant", "topic", "entity", "error"):
            paths.append(str(httpx.URL("/events", params={name: text})))
        paths.append(str(httpx.URL("/find", params={"q": text})))
    for path in paths:
        page = await read(screens, path)
        assert "script" not in page.tags, path
        assert "img" not in page.tags, path
        names = {name for _, name, _ in page.attributes}
        assert not {name for name in names if name.startswith("on") or name == "style"}, path
        for tag, name, value in page.attributes:
            if name in ("href", "src", "action"):
                assert (value or "").startswith(("/", "#")), (tag, value)
        seen += page.text
    for text in HOSTILE:
        assert " ".join(text.replace("\u202e", "").split())[:12] in seen.replace("\u202e", ""), text


async def test_payloads_are_shown_on_request_and_no_more_than_64_kilobytes_of_them(
    screens: httpx.AsyncClient, database: Database
) -> None:
    secret = "canary-4711"
    id_ = await _emit(
        database, type="e", payload=orjson.dumps({"a": secret + "x" * 90_000}).decode()
    )
    plain = await screens.get(f"/events/{id_}")
    assert secret not in plain.text
    shown = await screens.get(f"/events/{id_}?payload=1")
    assert secret in shown.text
    assert "Only the beginning is shown" in shown.text
    assert len(shown.text) < 64 * 1024 + 30_000
    assert secret not in (await screens.get("/events")).text


async def test_a_uuid_leads_to_the_number(screens: httpx.AsyncClient, database: Database) -> None:
    id_ = await _emit(database, type="e")
    uuid = await database.fetchval("select event_id from inboxd.events where id = $1", id_)
    answer = await screens.get(f"/events/{uuid}")
    assert (answer.status_code, answer.headers["location"]) == (307, f"/events/{id_}")


async def test_an_empty_list_says_what_would_be_there(screens: httpx.AsyncClient) -> None:
    assert "There is nothing here yet" in (await read(screens, "/events")).text
    nothing = await read(screens, "/events?type=nobody")
    assert "Nothing matches this filter. All rows were looked at." in nothing.text
    assert "the event type 'nobody' is not declared" in nothing.text


async def test_history_long_ago_is_listed_too(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await make_day(database, 40)
    await settle(database, 40, 3, "old.type")
    found: Any = await document(screens, "/events?type=old.type")
    assert [row["type"] for row in found["events"]] == ["old.type"] * 3


async def test_a_viewer_sees_no_payload(database: Database) -> None:
    """JSON refuses a payload as well; the page names the role that may see it."""
    id_ = await _emit(database, type="e", payload='{"a": "canary-4711"}')
    settings = Settings(database=settings_of(database))
    async with open_looks(settings.database, "screens", 2, timedelta(seconds=2)) as looks:
        application = Screens(settings, looks, _Viewers(), SCREENS).application()
        transport = httpx.ASGITransport(application)
        async with httpx.AsyncClient(transport=transport, base_url="http://screens") as viewer:
            page = await read(viewer, f"/events/{id_}")
            assert "Payloads are shown to visitors with the role reader" in page.text
            assert not [link for link in page.links if "payload" in link]
            for path in (f"/events/{id_}?payload=1", f"/events/{id_}.json?payload=1"):
                refused = await viewer.get(path)
                assert refused.status_code == 403
                assert "canary" not in refused.text
            # A filter on contents would let a viewer guess them letter by letter.
            guessed = await viewer.get("/events?payload=a%3Dcanary-4711")
            assert guessed.status_code == 403


class _Viewers(Everybody):
    """All visitors have the role viewer."""

    async def visitor(self, request: Request) -> Visitor:  # noqa: ARG002 - always the same
        return Visitor("ana", Role.VIEWER, "ana")


async def test_a_replayed_dead_letter_names_its_new_row(
    screens: httpx.AsyncClient, database: Database
) -> None:
    """A page offers nothing for it that would be refused; an open dead letter has a command."""
    ids = [
        row["id"]
        for row in await database.fetch(
            "insert into inboxd.commands (type, queue, status, attempts, errors) select 'mail',"
            " 'email', 'failed', 1, '[{\"error\": \"no answer\"}]' from generate_series(1, 2)"
            " returning id"
        )
    ]
    new = await database.fetchval(
        "select new_id from inboxd.replay_commands($1, 'me', null)", ids[:1]
    )
    listed = await read(screens, "/commands")
    assert f"failed replayed as {new}" in listed.text
    chosen = [value for tag, name, value in listed.attributes if (tag, name) == ("input", "value")]
    assert {str(new), str(ids[1])} <= set(chosen)
    assert str(ids[0]) not in chosen
    old = await read(screens, f"/commands/{ids[0]}")
    assert "was replayed as another row: command" in old.text
    assert f"/commands/{new}" in old.links
    assert "To replay it:" not in old.text
    assert "To replay it:" in (await read(screens, f"/commands/{ids[1]}")).text
