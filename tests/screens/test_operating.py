"""Operating pages: with and without rows, equal to the command line, and bounded."""

import io
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import redirect_stdout, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import asyncpg
import httpx
import orjson
import pytest
from starlette.datastructures import QueryParams
from starlette.routing import compile_path

from inboxd.admin.screens.pages import SCREENS
from inboxd.admin.screens.roles import Role, Visitor
from inboxd.admin.screens.screen import PageVisit, ScreenPage
from inboxd.admin.screens.shared import SharedReadings
from inboxd.admin.screens.snapshot import Snapshot
from inboxd.errors import InboxdError
from inboxd.main import main
from inboxd.operations import Tenants
from inboxd.settings import Settings
from inboxd.store.operator_sessions import Looks, open_looks
from tests.browser import school
from tests.screens.reading import read
from tests.support import Database
from tests.support.rows import no_bounds, settings_of

pytestmark = pytest.mark.anyio

GROUP = "5be2077d41aa"
# Path of each operating page, and arguments of the command line that print the same document.
PAGES: dict[str, tuple[str, ...] | None] = {
    "/failures": ("failures", "list"),
    f"/failures/{GROUP}": ("failures", "show", GROUP),
    "/queues": ("queues", "list"),
    "/queues/grading": ("queues", "show", "grading", "--limit", "50"),
    "/topics": ("topics", "list"),
    "/topics/default": ("topics", "show", "default"),
    "/types": None,
    "/types/command/school.send_email": None,
    "/schedules": ("schedules", "list"),
    "/breakers": ("breakers", "list"),
    "/endpoints": ("endpoints", "list"),
    "/endpoints/acme": ("endpoints", "show", "acme"),
    "/sources": None,
    "/spools": None,
    "/workers": ("workers",),
    "/history": ("history", "list"),
    "/statement": ("statement",),
    "/doctor": ("doctor",),
    "/audit": ("audit",),
}
HOSTILE = (
    "<script>alert(1)</script>",
    "\"'><img src=x onerror=alert(2)>",
    "{{7*7}}{% raw %}{0}",
    "</main></title><iframe srcdoc='x'>",
    "../../etc/passwd?a=b#c%00",
)
SECRET = "whsec_" + "c2VjcmV0IG9mIGFuIGVuZHBvaW50IQ=="
# Keys whose values change with the time between two readings.
_CHANGING = frozenset(
    {
        "oldest",
        "seconds",
        "rate",
        "silence",
        "age",
        "rest",
        "blocked_for",
        "behind",
        "bytes",
        "figure",
        "found",
        "remedy",
    }
)


@pytest.fixture
async def filled(database: Database) -> None:
    """The school of the browser tests, with the rows of operating.sql."""
    await school.fill(database)
    await database.execute(Path(__file__).with_name("operating.sql").read_text())


@pytest.fixture
async def looks(database: Database) -> AsyncIterator[Looks]:
    async with open_looks(settings_of(database), "test", 3, timedelta(seconds=2)) as found:
        yield found


Reading = Callable[..., Awaitable[tuple[ScreenPage, list[str]]]]


@pytest.fixture
async def reading(database: Database, looks: Looks) -> Reading:
    """A function that reads the page of a path and returns the statements that it ran."""
    settings = Settings(database=settings_of(database))
    snapshot = Snapshot(settings, lambda: looks.look(2))
    shared = SharedReadings()

    async def ask(
        path: str, role: Role = Role.ADMIN, tenants: Any = None
    ) -> tuple[ScreenPage, list[str]]:
        path, _, query = path.partition("?")
        screen, given = next(
            (screen, match.groupdict())
            for screen in SCREENS
            if (match := compile_path(screen.path)[0].match(path))
        )
        await snapshot.seen()
        asked: list[str] = []
        async with looks.look(2) as session:
            listen = lambda record: asked.append(record.query)  # noqa: E731
            connection: asyncpg.Connection = session.connection
            connection.add_query_logger(listen)
            visitor = Visitor("eva", role, "eva", tenants)
            visit = PageVisit(
                session,
                settings,
                Tenants(settings.tenants),
                visitor,
                snapshot,
                shared,
                given,
                QueryParams(query),
            )
            try:
                page = await screen.read(visit)
            finally:
                connection.remove_query_logger(listen)
        assert isinstance(page, ScreenPage)
        return page, [each for each in asked if not _is_frame(each)]

    return ask


def _is_frame(statement: str) -> bool:
    return statement.lstrip().upper().startswith(("BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT"))


def _stable(value: Any) -> Any:
    if isinstance(value, dict) and "verdict" in value:
        return [(each["group"], each["subject"], each["verdict"]) for each in value["findings"]]
    if isinstance(value, dict):
        return {key: _stable(each) for key, each in value.items() if key not in _CHANGING}
    if isinstance(value, list):
        return [_stable(each) for each in value]
    return f"{value:.6g}" if isinstance(value, float) else value  # a sum depends on its order


async def _printed(*arguments: str) -> Any:
    """The command line's JSON document, by a thread: one process for each would take longer."""

    def run() -> str:
        out = io.StringIO()
        with redirect_stdout(out), suppress(SystemExit):
            main([*arguments, "--json"])
        return out.getvalue()

    return orjson.loads(await anyio.to_thread.run_sync(run))


async def _both(screens: httpx.AsyncClient, path: str, arguments: tuple[str, ...]) -> list[Any]:
    """The documents of the page and of the command line, without values that change."""
    answer = await screens.get(f"{path}.json")
    assert answer.status_code == 200, answer.text
    return [_stable(answer.json()), _stable(await _printed(*arguments))]


@pytest.mark.usefixtures("filled")
async def test_pages_have_the_documents_of_the_command_line(
    screens: httpx.AsyncClient, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INBOXD_DATABASE__DSN", database.dsn)
    # Without a sample both count the rows; and no command falls due between the readings.
    await database.execute("delete from inboxd.newest_sample")
    await database.execute(
        "update inboxd.commands set run_at = now() + interval '1 h' where run_at > now()"
    )
    for path, arguments in PAGES.items():
        if arguments is None:
            continue
        shown, told = await _both(screens, path, arguments)
        if shown != told:  # a new minute may have begun between the readings
            shown, told = await _both(screens, path, arguments)
        assert shown == told, path
    by_header = await screens.get("/audit", headers={"accept": "application/json"})
    assert by_header.json() == (await screens.get("/audit.json")).json()


@pytest.mark.usefixtures("filled")
async def test_pages_show_the_rows_of_a_school(screens: httpx.AsyncClient) -> None:
    shown = {
        "/failures": ("TimeoutError", "11", "Send e-mail"),
        f"/failures/{GROUP}": ("TimeoutError", "aurora", "Refused", f"replay --group {GROUP}"),
        "/queues": ("grading", "paused", "email"),
        "/queues/grading": ("the rubric is being changed", "inboxd resume queue grading", "p95"),
        "/topics": ("points", "sequential"),
        "/topics/points": ("answer.given", "Wait", "5s"),
        "/types": ("Send e-mail", "school.send_email", "Answer given"),
        "/types/command/school.send_email": ("Send one e-mail to", "5 of 6 calls failed", "p99"),
        "/schedules": ("Every night", "0 3 * * *"),
        "/breakers": ("mail", "open", "5 of 6 calls failed"),
        "/endpoints": ("acme", "failing", "answered 500"),
        "/endpoints/acme": ("user.created", "https://acme.example/hooks", "Active secrets 1"),
        "/sources": ("bank", "door", "the disk is full"),
        "/spools": ("door", "node-c", "the disk is full"),
        "/workers": ("school-1", "node-b", "811"),
        "/history": ("events_history", "the day is not over"),
        "/statement": ("2026-01-31", "shop", "events are missing", "ana@node-a", "1,234"),
        "/doctor": ("breaker", "Remedy"),
        "/audit": ("ana@node-a", "the rubric is being changed", "queue grading"),
    }  # fmt: skip
    for path, texts in shown.items():
        page = await read(screens, path)
        for text in texts:
            assert text.casefold() in page.text.casefold(), (path, text, page.text)


async def test_an_empty_page_says_what_would_be_there(screens: httpx.AsyncClient) -> None:
    for path in PAGES:
        if path.count("/") > 1:
            continue
        answer = await screens.get(path)
        assert answer.status_code == 200, path
        if path not in ("/doctor", "/topics", "/queues"):
            assert 'class="empty"' in answer.text, path
    for path in ("/queues/default", "/topics/default"):
        await read(screens, path)
    assert "No schedule yet." in (await read(screens, "/schedules")).text
    looked_for = (await read(screens, "/schedules?q=night")).text
    assert "No schedule has this in its name." in looked_for


async def test_a_queue_or_topic_has_a_page_as_soon_as_it_has_a_row(
    database: Database, screens: httpx.AsyncClient
) -> None:
    """Even if the screens counted a moment ago, when it had none."""
    for path in ("/queues/x", "/topics/x"):
        assert (await screens.get(path)).status_code == 404, path
    await database.execute("select inboxd.send_command('a.b', queue => 'x')")
    await database.execute("select inboxd.emit_event('a.b', topic => 'x')")
    for path in ("/queues/x", "/topics/x"):
        await read(screens, path)


async def test_an_unknown_name_is_a_sentence(screens: httpx.AsyncClient) -> None:
    for path, told in (
        ("/failures/abc", "no dead letter is in group 'abc'"),
        ("/queues/emial", "there is no queue 'emial'"),
        ("/topics/x", "there is no topic 'x'"),
        ("/types/event/x", "there is no event type 'x'"),
        ("/types/batch/x", "'batch' is not a kind of type"),
        ("/endpoints/x", "there is no endpoint 'x'"),
    ):
        answer = await screens.get(path, headers={"accept": "text/html"})
        assert answer.status_code == 404, path
        assert told[0].upper() + told[1:] in answer.text.replace("&#39;", "'"), path
        assert (await screens.get(f"{path}.json")).json()["detail"].startswith(told)
    for path in (
        "/queues/default?span=week",
        "/audit?below=x",
        "/audit?limit=1000000",
        "/audit?action=fly",
    ):
        assert (await screens.get(path)).status_code == 400, path


@pytest.mark.usefixtures("filled")
async def test_a_page_takes_few_statements(reading: Reading, database: Database) -> None:
    most: dict[str, int] = {}
    for sampled in (True, False):
        if not sampled:
            await database.execute("delete from inboxd.newest_sample")
        for path in (
            *PAGES,
            "/topics/points",
            "/types/event/answer.given",
            "/queues/email?span=day",
        ):
            await reading(path)  # the first visitor reads what visitors share
            _, statements = await reading(path)
            most[path] = max(len(statements), most.get(path, 0))
    del most["/doctor"]  # the doctor runs many checks, and has a bound in time
    assert {path: count for path, count in most.items() if count > 8} == {}


@pytest.mark.usefixtures("filled")
async def test_no_secret_is_on_any_page(screens: httpx.AsyncClient, database: Database) -> None:
    password = re.findall(r"://[^:/@]*:([^@]+)@", database.dsn)
    for path in PAGES:
        for accept in ("text/html", "application/json"):
            text = (await screens.get(path, headers={"accept": accept})).text
            assert SECRET not in text
            assert SECRET.removeprefix("whsec_") not in text
            assert database.dsn not in text, path
            assert not any(each in text for each in password if len(each) > 3), path


@pytest.mark.usefixtures("filled")
async def test_a_visitor_with_fewer_rights_sees_less(reading: Reading) -> None:
    page, _ = await reading("/endpoints/acme", Role.VIEWER)
    assert (page.document["url"], page.document["last_failure"]) == (None, None)
    for path in PAGES:
        with pytest.raises(InboxdError, match="certain tenants only"):
            await reading(path, tenants=frozenset({"malta"}))


async def test_names_of_any_kind_have_pages(screens: httpx.AsyncClient, database: Database) -> None:
    names = (*HOSTILE, "a/b", "a%2Fb", "a b+c", "ação", "x?y=1#z", "%", "a//b", ".hidden")
    async with no_bounds(database):
        for name in names:
            await database.execute(
                "insert into inboxd.events (topic, type, payload) values ($1, $1, '{}')", name
            )
            await database.execute(
                "insert into inboxd.commands (queue, type, payload, status, attempts, fingerprint,"
                """ errors) values ($1, $1, '{}', 'failed', 1, $1, '[{"error": "E"}]')""",
                name,
            )
    for name in names:
        part = quote(name, safe="")
        for path in (
            f"/queues/{part}",
            f"/topics/{part}",
            f"/types/event/{part}",
            f"/failures/{part}",
        ):
            answer = await screens.get(path, headers={"accept": "text/html"})
            assert answer.status_code == 200, path
    for path in ("/queues", "/topics", "/types", "/failures"):
        page = await read(screens, path)
        met = 0
        for link in page.links:
            if link.startswith((f"{path}/", "/types/")):
                await read(screens, link)
                met += 1
        assert met >= len(names), path
        for name in names[:3]:
            assert " ".join(name.split()) in page.text, (path, name)
        assert not {"script", "iframe", "img"} & set(page.tags)


@pytest.mark.usefixtures("filled")
async def test_links_lead_to_pages(screens: httpx.AsyncClient) -> None:
    links: set[str] = set()
    for path in PAGES:
        links.update(
            link if not link.startswith("?") else f"{path.partition('?')[0]}{link}"
            for link in (await read(screens, path)).links
        )
    assert len(links) > 60
    for link in sorted(links):
        await read(screens, link.partition("#")[0])


@pytest.mark.usefixtures("filled")
async def test_a_schedule_of_an_undeclared_type_links_to_its_rows(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await database.execute("update inboxd.schedules set type = 'gone.away' where name = 'nightly'")
    page = await read(screens, "/schedules")
    assert "/commands?type=gone.away" in page.links
    for link in page.links:
        await read(screens, link)


@pytest.mark.usefixtures("filled")
async def test_the_first_page_names_the_types_that_wait_for_an_open_breaker(
    screens: httpx.AsyncClient,
) -> None:
    page = await read(screens, "/")
    assert "Waiting for it: command school.send_email" in page.text


@pytest.mark.usefixtures("filled")
async def test_a_dead_letter_links_to_its_group_and_names_the_replay(
    screens: httpx.AsyncClient, database: Database
) -> None:
    dead = await database.fetchval(
        "select min(id) from inboxd.commands where fingerprint = $1", GROUP
    )
    page = await read(screens, f"/commands/{dead}")
    assert f"/failures/{GROUP}" in page.links
    assert f"inboxd commands replay {dead}" in page.text
    assert "not yet" not in page.text


@pytest.mark.usefixtures("filled")
async def test_the_progress_of_a_command_is_shown(
    screens: httpx.AsyncClient, database: Database
) -> None:
    running = await database.fetchval(
        "select min(id) from inboxd.commands where status = 'running' and progress is not null"
    )
    assert "30 of 100" in (await read(screens, f"/commands/{running}")).text
    first = (await read(screens, "/")).text
    assert "30 %" in first
    assert "running for" in first


async def test_lists_continue_on_further_pages(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await database.execute(
        "insert into inboxd.commands (queue, type, payload)"
        " select 'q' || lpad(n::text, 3, '0'), 't', '{}' from generate_series(1, 130) n"
    )
    await database.execute(
        "insert into inboxd.audit (actor, action, target, count)"
        " select 'ana', 'pause', 'queue ' || n, 0 from generate_series(1, 45) n"
    )
    seen: list[str] = []
    path = "/queues?limit=50"
    while path:
        found = (await screens.get(path, headers={"accept": "application/json"})).json()
        seen += [row["queue"] for row in found["queues"]]
        page = await read(screens, path)
        path = next((f"/queues{link}" for link in page.links if "after=" in link), "")
        assert len(seen) <= 130
    assert seen == [f"q{n:03}" for n in range(1, 131)]
    first = (await screens.get("/audit.json")).json()
    second = (await screens.get(f"/audit.json?below={first['next']}")).json()
    third = (await screens.get(f"/audit.json?below={second['next']}")).json()
    targets = [row["target"] for each in (first, second, third) for row in each["audit"]]
    assert targets == [f"queue {n}" for n in range(45, 0, -1)]
    assert third["next"] is None
    found = (await screens.get("/queues.json?q=q13")).json()
    assert [row["queue"] for row in found["queues"]] == ["q130"]
    assert (await screens.get("/audit.json?actor=nobody")).json()["audit"] == []


@pytest.mark.usefixtures("filled")
async def test_rows_of_a_group_continue_on_further_pages(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await database.execute(
        "insert into inboxd.commands (queue, type, payload, status, attempts, fingerprint, errors,"
        """ tenant) select 'email', 'school.send_email', '{}', 'failed', 1, 'many',"""
        """ '[{"error": "E", "process": "node-z:1"}]', 'malta'"""
        " from generate_series(1, 45) n"
    )
    wanted = {
        row["id"]
        for row in await database.fetch("select id from inboxd.commands where fingerprint = 'many'")
    }
    seen: set[int] = set()
    path = "/failures/many?limit=20"
    while path:
        page = await read(screens, path)
        rows = {
            int(link.rpartition("/")[2])
            for link in page.links
            if re.fullmatch(r"/commands/\d+", link)
        }
        seen |= rows
        path = next((f"/failures/many{link}" for link in page.links if "after=" in link), "")
    assert seen == wanted
    assert "node-z 45" in (await read(screens, "/failures/many")).text


async def test_dead_letters_without_a_group_have_a_page(
    screens: httpx.AsyncClient, database: Database
) -> None:
    await database.execute(
        "insert into inboxd.events (type, payload, status, attempts)"
        " values ('t', '{}', 'failed', 1)"
    )
    listed = await read(screens, "/failures")
    assert "/failures/-" in listed.links
    page = await read(screens, "/failures/-")
    assert "/events?status=failed&type=t" in page.links


@pytest.mark.usefixtures("filled")
async def test_pages_show_the_age_of_a_sample(screens: httpx.AsyncClient) -> None:
    page = await read(screens, "/queues/email")
    assert "Counted by the leader" in page.text
    assert (await screens.get("/queues.json")).json()["counted_to"] > 10_000
    assert (await screens.get("/topics.json")).json()["counted_to"] > 10_000


async def test_the_doctor_stops_in_time_and_says_so(
    screens: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.admin.screens.pages.doctor._MOST_SECONDS", 0.0)
    page = await read(screens, "/doctor")
    assert "was stopped" in page.text
    monkeypatch.undo()
    assert "was stopped" in (await read(screens, "/doctor")).text, "visitors share the examination"
