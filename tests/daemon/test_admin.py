"""The admin API of a real daemon: access, answers, actions, faults, start and stop."""

import json
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from inboxd.embedded import Server
from inboxd.main import main
from tests.daemon.inbox import Inbox
from tests.support import Config, StartWorker, Worker, eventually
from tests.support.certificates import write_certificate
from tests.support.databases import Database
from tests.support.ports import held_port
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

_ADA = "a-token-of-ada-with-full-access"
_BOB = "a-token-of-bob-who-may-look"
_TYPE = "test.misbehave"


def _admin(port: int, **more: Any) -> Config:
    tokens = [
        {"name": "ada", "token": _ADA, "access": "full"},
        {"name": "bob", "token": _BOB},
    ]
    return {"admin": {"enabled": True, "port": port, "tokens": tokens, **more}}


@pytest.fixture(scope="module")
def admin_port() -> Any:
    with held_port() as held:
        yield held.getsockname()[1]


@pytest.fixture(scope="module")
def worker_config(admin_port: int) -> Config:
    return _admin(admin_port)


@asynccontextmanager
async def _client(
    port: int, token: str | None = _ADA, **more: Any
) -> AsyncIterator[httpx.AsyncClient]:
    headers = {} if token is None else {"authorization": f"Bearer {token}"}
    url = f"{'https' if more else 'http'}://127.0.0.1:{port}/api"
    async with httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, **more) as client:
        yield client


@pytest.fixture
async def ada(inbox: Inbox, admin_port: int) -> AsyncIterator[httpx.AsyncClient]:
    async with _client(admin_port) as client:
        yield client


def _problem(answer: httpx.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["status"] == status
    return str(answer.json()["detail"])


async def _dead(inbox: Inbox, kind: Any = "command", **payload: Any) -> int:
    row_id = await inbox.write(kind, _TYPE, {"how": "reject", **payload})
    await inbox.dead(kind, row_id)
    return row_id


@pytest.mark.parametrize(
    "token", [None, "x", "a-token-of-ada-with-full-acces", f"{_ADA}x", "é" * 20]
)
async def test_requests_without_a_valid_token_get_401(
    inbox: Inbox, admin_port: int, token: str | None
) -> None:
    row_id = await _dead(inbox)
    async with _client(admin_port, None) as client:
        sent = {} if token is None else {b"authorization": f"Bearer {token}".encode()}
        for method, path in (
            ("GET", f"/commands/{row_id}"),
            ("POST", f"/commands/{row_id}/replay"),
            ("GET", "/commands/nonsense"),
            ("GET", "/openapi.json"),
        ):
            answer = await client.request(method, path, headers=sent)
            detail = _problem(answer, 401)
            assert detail == "send a valid token: `Authorization: Bearer TOKEN`"
            assert answer.headers["www-authenticate"] == "Bearer"
    row = await inbox.hot("command", row_id)
    assert row is not None
    assert row["status"] == "failed"


@pytest.mark.parametrize("kind", ["event", "command"])
async def test_a_row_is_shown_as_the_command_line_shows_it(
    inbox: Inbox, ada: httpx.AsyncClient, kind: str, capsys: Any, monkeypatch: Any
) -> None:
    row_id = await _dead(inbox, kind, text="x" * 100)
    monkeypatch.setenv("INBOXD_DATABASE__DSN", inbox.database.dsn)
    for flags, query in (([], ""), (["--payload"], "?payload=true")):
        answer = await ada.get(f"/{kind}s/{row_id}{query}")
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        capsys.readouterr()
        with pytest.raises(SystemExit):
            await anyio.to_thread.run_sync(
                main, [f"{kind}s", "show", str(row_id), "--json", *flags]
            )
        assert answer.json() == json.loads(capsys.readouterr().out)
        assert ("payload" in answer.json()) == bool(flags)
    whole = (await ada.get(f"/{kind}s/{row_id}?payload=true")).json()
    assert (await ada.get(f"/{kind}s/{whole[f'{kind}_id']}?payload=1")).json() == whole


async def test_answers_are_closed_to_other_pages_and_to_caches(
    ada: httpx.AsyncClient, inbox: Inbox
) -> None:
    answers = [
        await ada.get(f"/commands/{await _dead(inbox)}", headers={"origin": "https://evil.test"}),
        await ada.get("/commands/1"),
        await ada.get("/nowhere"),
        await ada.put("/commands/1"),
        await ada.request("OPTIONS", "/commands/1", headers={"origin": "https://evil.test"}),
    ]
    assert [each.status_code for each in answers] == [200, 404, 404, 405, 405]
    for each in answers:
        assert each.headers["cache-control"] == "no-store"
        assert each.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in each.headers["content-security-policy"]
        assert not [name for name in each.headers if name.startswith("access-control")]
        assert "server" not in each.headers


async def test_a_replay_runs_once_and_is_in_the_audit(
    inbox: Inbox, ada: httpx.AsyncClient, admin_port: int
) -> None:
    row_id = await _dead(inbox)
    path = f"/commands/{row_id}/replay"
    async with _client(admin_port, _BOB) as bob:
        assert (await bob.get(f"/commands/{row_id}")).status_code == 200
        assert "may only read" in _problem(await bob.post(path), 403)
    answers: list[httpx.Response] = []

    async def replay() -> None:
        answers.append(await ada.post(path, json={"reason": "the shop is back"}))

    async with anyio.create_task_group() as group:
        for _ in range(6):
            group.start_soon(replay)
    done = [each for each in answers if each.status_code == 200]
    assert len(done) == 1, [each.text for each in answers]
    [pair] = done[0].json()["replayed"]
    assert pair["old_id"] == row_id
    for each in answers:
        if each is not done[0]:
            assert "only failed can be replayed" in _problem(each, 409)
    again = await inbox.dead("command", pair["new_id"])
    assert again["attempts"] == 1
    entries = await inbox.database.fetch(
        "select actor, action, reason, count from inboxd.audit where target = $1",
        f"commands {row_id}",
    )
    assert [tuple(each) for each in entries] == [("token ada", "replay", "the shop is back", 1)]


async def test_dismiss_and_cancel(inbox: Inbox, ada: httpx.AsyncClient) -> None:
    event = await _dead(inbox, "event")
    assert (await ada.post(f"/events/{event}/dismiss")).json() == {"dismissed": [event]}
    assert (await inbox.settled("event", event))["status"] == "dismissed"
    [running] = await inbox.write_many("command", "test.wait", [{"wait": 60}])
    await inbox.running(running)
    answer = await ada.post(f"/commands/{running}/cancel", content=b"  ")
    assert answer.json() == {"cancelled": [], "requested": [running]}
    assert (await inbox.settled("command", running))["status"] == "cancelled"
    other = await _dead(inbox, "event")
    assert "it is a fact" in _problem(await ada.post(f"/events/{other}/cancel"), 400)


async def test_bad_requests_get_the_messages_of_the_command_line(ada: httpx.AsyncClient) -> None:
    said = _problem(await ada.get("/commands/999999999999"), 404)
    assert said.startswith("there is no command 999999999999: look the id up with")
    said = _problem(await ada.post("/events/999999999999/replay"), 404)
    assert "there is no event 999999999999; nothing was changed" in said
    assert "is not a row number or a uuid" in _problem(await ada.get("/events/x"), 400)
    assert "is not a row number" in _problem(await ada.get(f"/events/{'9' * 5000}"), 400)
    assert "payload must be true or false" in _problem(await ada.get("/events/1?payload=2"), 400)
    assert "raw is for events" in _problem(await ada.get("/commands/1?raw=true"), 400)
    assert "no such action" in _problem(await ada.post("/commands/1/drop"), 404)
    for body in (b"{", b"[]", b'{"why": 1}', b'{"reason": 1}', b'{"reason": "\\u0000"}'):
        assert _problem(await ada.post("/commands/1/replay", content=body), 400)
    large = b'{"reason": "' + b"x" * 20_000 + b'"}'
    assert "more than 16384" in _problem(await ada.post("/commands/1/replay", content=large), 413)


async def test_a_big_payload_is_shown_whole(inbox: Inbox, ada: httpx.AsyncClient) -> None:
    text = "é" * 2_000_000
    row_id = await _dead(inbox, text=text)
    answer = await ada.get(f"/commands/{row_id}?payload=true", timeout=patient())
    assert answer.json()["payload"]["text"] == text


async def test_the_openapi_document_lists_all_paths(ada: httpx.AsyncClient) -> None:
    paths = (await ada.get("/openapi.json")).json()["paths"]
    assert {f"{method} {path}" for path, each in paths.items() for method in each} == {
        "get /api/events",
        "get /api/commands",
        "get /api/events/{id}",
        "post /api/events/{id}/replay",
        "post /api/events/{id}/dismiss",
        "get /api/commands/{id}",
        "post /api/commands/{id}/replay",
        "post /api/commands/{id}/dismiss",
        "post /api/commands/{id}/cancel",
    }


async def test_requests_during_an_outage_get_503_and_the_worker_stays(
    restartable_server: Server, restartable_database: Database, start_worker: StartWorker
) -> None:
    with held_port() as held:
        port = held.getsockname()[1]
        worker = await start_worker(_admin(port))
        async with _client(port) as ada:
            assert (await ada.get("/events/1")).status_code == 404
            await restartable_database.end_sessions()
            with restartable_server.outage():
                answer = await ada.get("/events/1")
                assert _problem(answer, 503)
                assert answer.headers["retry-after"] == "5"

            async def answers() -> bool:
                return (await ada.get("/events/1")).status_code == 404

            await eventually(answers)
        assert worker.process.poll() is None


async def test_with_a_certificate_the_api_is_encrypted(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    files = write_certificate(tmp_path, "localhost")
    token = tmp_path / "token"
    token.write_text(f"{_ADA}\n")
    everywhere = {"host": "0.0.0.0", "tokens": [{"name": "ada", "token_file": str(token)}]}  # noqa: S104
    with held_port() as held:
        port = held.getsockname()[1]
        worker = await start_worker(_admin(port, **everywhere, **files))
        context = ssl.create_default_context(cafile=files["certificate"])
        context.check_hostname = False
        async with _client(port, verify=context) as ada:
            assert (await ada.get("/events/1")).status_code == 404
        assert '"https://0.0.0.0:' in worker.output()


async def test_a_stop_waits_for_open_requests(own: Inbox, start_worker: StartWorker) -> None:
    with held_port() as held:
        port = held.getsockname()[1]
        worker = await start_worker(_admin(port))
        row_id = await _dead(own)
        async with _client(port) as ada, anyio.create_task_group() as group:
            answers: list[httpx.Response] = []

            async def replay() -> None:
                answers.append(await ada.post(f"/commands/{row_id}/replay", timeout=patient()))

            async with own.database.connect() as connection, connection.transaction():
                await connection.execute(
                    "select from inboxd.commands where id = $1 for update", row_id
                )
                group.start_soon(replay)
                await _locked(own)
                worker.process.terminate()
                await worker.logged("draining")
                assert '"admin_requests":1' in worker.output()
        assert [each.status_code for each in answers] == [200]
        assert await worker.wait() == 0


@pytest.mark.long
@pytest.mark.own_interpreter
async def test_several_processes_share_one_port(own: Inbox, tmp_path: Path) -> None:
    with held_port() as held:
        port = held.getsockname()[1]
        command = ["run", "--processes", "2"]
        worker = Worker(tmp_path, own.database.dsn, _admin(port), forked=False, command=command)
        try:
            await worker.ready()
            async with _client(port) as ada:
                assert (await ada.get("/events/1")).status_code == 404
            assert await worker.stop() == 0
        finally:
            worker.kill()
    assert worker.output().count("serving the screens and the admin API") == 2


async def _locked(inbox: Inbox) -> None:
    async def waits() -> bool:
        return bool(
            await inbox.database.fetchval(
                "select count(*) from pg_stat_activity"
                " where application_name like '%admin%' and wait_event_type = 'Lock'"
            )
        )

    await eventually(waits)


def _refused(settings: Config, tmp_path: Path, dsn: str) -> str:
    folder = tmp_path / "refused"
    folder.mkdir(exist_ok=True)
    worker = Worker(folder, dsn, settings)
    try:
        assert worker.process.wait(patient()) == 78
    finally:
        worker.kill()
    return worker.output()


async def test_unsafe_settings_prevent_the_start(database: Database, tmp_path: Path) -> None:
    bare = {"admin": {"enabled": True, "port": 0, "host": "0.0.0.0"}}  # noqa: S104
    said = _refused(bare, tmp_path, database.dsn)
    problem = "[admin]: host '0.0.0.0' can be reached from other machines, and no login is required"
    assert problem in said
    open_to_all = _admin(0, host="0.0.0.0")  # noqa: S104
    said = _refused(open_to_all, tmp_path, database.dsn)
    assert "[admin]: host '0.0.0.0' can be reached from other machines" in said
    assert _ADA not in said
    short = tmp_path / "short"
    short.write_text("guess\n")
    tokens = [{"name": "ada", "token_file": str(short)}]
    said = _refused(
        {"admin": {"enabled": True, "port": 0, "tokens": tokens}}, tmp_path, database.dsn
    )
    assert "could be guessed" in said
    assert "guess\n" not in said
