"""`inboxd admin` as a process: alone, on a standby, without its database, revealing no secret."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit
from uuid import UUID

import httpx
import pytest

from inboxd.embedded import Server
from inboxd.errors import SettingsError
from inboxd.settings import load
from tests.screens.visiting import PASSWORD, SAME, hashed, sign_in, user
from tests.support import Config, Worker, eventually
from tests.support.clock import Clock
from tests.support.databases import Database
from tests.support.ports import held_port
from tests.support.rows import emit, send
from tests.support.waiting import patient

pytestmark = pytest.mark.anyio

_TOKEN = "canary-1-a-token-of-ada"
_PASSWORD = "canary-2-a-password"
_SECRET = "canary-3-of-the-session-file-of-32-bytes"
_OF_DATABASE = "canary-4-of-the-dsn"


@pytest.fixture
def port() -> Iterator[int]:
    with held_port() as held:
        yield held.getsockname()[1]


@asynccontextmanager
async def _serving(
    folder: Path, dsn: str, port: int, command: str = "admin", **admin: Any
) -> AsyncIterator[tuple[Worker, httpx.AsyncClient]]:
    config: Config = {
        "admin": {"port": port, "enabled": command == "run", **admin},
        "log": {"level": "debug", "format": "json"},
    }
    worker = Worker(folder, dsn, config, command=[command])
    try:
        await worker.ready()
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", trust_env=False, headers={"accept": "text/html"}
        ) as client:
            yield worker, client
    finally:
        worker.kill()
        sys.stdout.write(worker.output())


async def test_the_process_serves_screens_and_api_and_is_no_worker(
    database: Database, tmp_path: Path, port: int
) -> None:
    tokens = [{"name": "ada", "token": _TOKEN}]
    async with _serving(tmp_path, database.dsn, port, tokens=tokens, local_role="viewer") as (
        worker,
        client,
    ):
        await send(database, 1)
        page = await client.get("/commands")
        assert page.status_code == 200
        assert 'href="/commands/1"' in page.text
        told = {"authorization": f"Bearer {_TOKEN}"}
        assert (await client.get("/api/commands/1", headers=told)).json()["id"] == 1
        assert (await client.get("/api/commands/1")).status_code == 401
        assert "server" not in page.headers
        assert (await client.get(_style_sheet(page))).status_code == 200
        assert await database.fetchval("select count(*) from inboxd.workers") == 0
        assert await worker.stop() == 0
    assert await database.fetchval("select status from inboxd.commands") == "pending"


async def test_a_daemon_serves_the_screens_and_reloads_users(
    database: Database, tmp_path: Path, port: int
) -> None:
    async with _serving(tmp_path, database.dsn, port, "run", users=[user("ada")]) as (
        worker,
        client,
    ):
        assert (await client.get("/")).headers["location"] == "/sign-in"
        assert (await sign_in(client, "ada")).status_code == 303
        assert (await client.get("/events")).status_code == 200
        settings = worker.log.with_suffix(".toml")
        text = settings.read_text().replace(hashed(PASSWORD), hashed("another password"))
        settings.write_text(text)
        worker.process.send_signal(signal.SIGHUP)
        await worker.logged("settings are reloaded")
        assert "admin.users" in worker.output()
        assert (await client.get("/events")).status_code == 303
        assert (await sign_in(client, "ada", "another password")).status_code == 303


async def test_pages_take_the_time_of_the_database_where_the_host_s_clock_is_off(
    database: Database, tmp_path: Path, port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative times are calculated from `data-now`; the host's clock is three hours ahead."""
    for name, value in Clock(tmp_path, seconds=10_800).environment.items():
        monkeypatch.setenv(name, value)
    async with _serving(tmp_path, database.dsn, port, local_role="viewer") as (worker, client):
        told = [
            json.loads((await client.get(path)).text.partition(" data-now=")[2].partition(">")[0])
            for path in ("/", "/events")
        ]
        now = await database.fetchval("select clock_timestamp()")
    logged = datetime.fromisoformat(json.loads(worker.output().splitlines()[0])["timestamp"])
    assert (logged - now).total_seconds() == pytest.approx(10_800, abs=600), "the clock is right"
    for each in told:
        assert (datetime.fromisoformat(each) - now).total_seconds() == pytest.approx(0, abs=600)


FORM = {"once": str(UUID(int=7)), "seen": ""}


async def test_from_a_standby_pages_are_read_and_nothing_is_written_until_it_is_promoted(
    restartable_server: Server, restartable_database: Database, tmp_path: Path, port: int
) -> None:
    await emit(restartable_database, 1)
    await send(restartable_database, 1)
    await restartable_database.end_sessions()
    with restartable_server.outage():
        (restartable_server.home / "cluster" / "standby.signal").touch()
    assert await restartable_database.fetchval("select pg_is_in_recovery()")
    admin: dict[str, Any] = {"users": [user("ada", "admin")], "audit_payloads": True}
    async with _serving(tmp_path, restartable_database.dsn, port, **admin) as (worker, client):
        assert (await sign_in(client, "ada")).status_code == 303
        for path in ("/", "/events", "/events/1", "/commands"):
            answer = await client.get(path)
            assert answer.status_code == 200, answer.text
        for path in ("/events/1", "/commands/1"):
            assert "No worker is running" in (await client.get(path)).text
        shown = await client.get("/events/1?payload=1")
        assert shown.status_code == 503
        assert "audit_payloads of [admin] requires an audit entry" in shown.text
        assert "test.ledger" not in shown.text
        path = "/act/pause?kind=topic&name=default"
        page = await client.get("/topics/default")
        assert "The database is a standby" in page.text
        assert "/act/" not in page.text
        for asked in (await client.get(path), await client.post(path, data=FORM, headers=SAME)):
            assert (asked.status_code, "is a standby" in asked.text) == (503, True)
        assert await restartable_database.fetchval("select pg_promote()")
        assert (await client.get(path)).status_code == 200
        assert path.replace("&", "&amp;") in (await client.get("/topics/default")).text
        assert (await client.post(path, data=FORM, headers=SAME)).status_code == 303
        assert await worker.stop() == 0


async def test_the_process_starts_and_stays_without_its_database(
    restartable_server: Server, restartable_database: Database, tmp_path: Path, port: int
) -> None:
    dsn = restartable_database.dsn
    with restartable_server.outage():
        async with _serving(tmp_path, dsn, port) as (_, client):
            answer = await client.get("/events")
            assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
            assert "Cannot connect" in answer.text
            assert "<h1>" in answer.text
    async with _serving(tmp_path, dsn, port) as (worker, client):
        page = await client.get("/events")
        assert page.status_code == 200
        await restartable_database.end_sessions()
        with restartable_server.outage():

            async def last_reading() -> bool:
                answer = await client.get("/events")
                return answer.is_success and "The database cannot be read now" in answer.text

            await eventually(last_reading)
            assert (await client.get(_style_sheet(page))).status_code == 200
            assert worker.process.poll() is None

        async def answers() -> bool:
            return (await client.get("/events")).status_code == 200

        await eventually(answers)
        assert await worker.stop() == 0


async def test_no_secret_is_told_by_a_page_an_error_or_the_log(
    database: Database, tmp_path: Path, port: int
) -> None:
    secret = tmp_path / "secret"
    secret.write_text(_SECRET)
    parts = urlsplit(database.dsn)
    dsn = urlunsplit(parts._replace(netloc=f"postgres:{_OF_DATABASE}@{parts.netloc.split('@')[1]}"))
    ada = {"name": "ada", "password_hash": hashed(_PASSWORD), "role": "admin"}
    admin: dict[str, Any] = {
        "users": [ada],
        "tokens": [{"name": "ada", "token": _TOKEN, "access": "full"}],
        "session_secret_file": str(secret),
    }
    canaries = ["canary", hashed(_PASSWORD).rpartition("$")[2]]
    async with _serving(tmp_path, dsn, port, **admin) as (worker, client):
        await send(database, 1)
        answers = [
            await sign_in(client, "ada", f"{_PASSWORD}x"),
            await sign_in(client, _PASSWORD, _PASSWORD),
            await client.get("/", headers={"authorization": f"Bearer {_TOKEN}x"}),
            await sign_in(client, "ada", _PASSWORD),
        ]
        cookie = client.cookies["inboxd_session"]
        canaries.append(cookie)
        token = {"authorization": f"Bearer {_TOKEN}"}
        paths = ("/", "/events", "/commands/1?payload=1", "/commands/x", "/none", "/sign-in")
        for accept in ("text/html", "application/json"):
            for more in ({}, token):
                answers += [
                    await client.get(path, headers={"accept": accept, **more}) for path in paths
                ]
        worker.process.send_signal(signal.SIGHUP)
        await worker.logged("settings are reloaded")
        answers.append(await client.post("/sign-out", headers=SAME))
        told = [each.text for each in answers]
        told += [str(each.headers.get("location")) for each in answers]
        told += [(await worker.get(path))[1] for path in ("/metrics", "/healthz", "/readyz")]
        assert await worker.stop() == 0
    told.append(worker.output())
    assert {each.status_code for each in answers} == {200, 303, 400, 401, 403, 404}
    for text in told:
        for canary in canaries:
            # The form shows a typed name again: here the password was typed as the name.
            assert canary not in text.replace(f'value="{_PASSWORD}"', "")


def _ran(*arguments: str, given: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "inboxd", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "", **environ},
        timeout=patient(60),
    )


_EVERYWHERE = 'host = "0.0.0.0"\nallow_remote = true\n'
_TRUSTED = 'trusted_proxies = ["10.0.0.1"]\n'
_PROXY = 'proxy = { user_header = "x", roles = %s }'
_OIDC = 'oidc = { issuer = "https://login.example", client_id = "x", %sroles = %s }'
_USER = '{ name = "a", password_hash = "HASH" }'


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (_EVERYWHERE, "and no login is required; add users"),
        (f'{_EVERYWHERE}local_role = "viewer"', "and no login is required; add users"),
        (_TRUSTED + 'local_role = "viewer"\n' + _PROXY % '{"*" = "viewer"}', "leave out"),
        (_PROXY % '{"*" = "viewer"}', "proxy needs trusted_proxies"),
        (_TRUSTED + _PROXY % '{ops = "viewer"}', "but groups_header is missing"),
        (_TRUSTED + _PROXY % "{}", "is empty"),
        (_OIDC % ("", '{ops = "viewer"}'), "but groups_claim is missing"),
        (_OIDC % ("", "{}"), "oidc.roles is empty"),
        (_OIDC % ('scopes = ["email"], ', '{"*" = "viewer"}'), 'lacks "openid"'),
        (_OIDC % ("", '{"*" = "root"}'), "[admin.oidc.roles]"),
        (_OIDC.replace("https", "http") % ("", '{"*" = "viewer"}'), "http is allowed only on"),
        (_OIDC.replace("example", "example?x=1") % ("", '{"*" = "viewer"}'), "without a query"),
        (_OIDC.replace("://", "://x:canary@") % ("", '{"*" = "viewer"}'), "issuer is an https URL"),
        ('local_role = "viewer"\n' + _OIDC % ("", '{"*" = "viewer"}'), "leave out"),
        ('path = "//evil.example"', "[admin] path"),
        ('users = [{ name = "ada", password_hash = "canary" }]', "inboxd admin hash"),
        (f"users = [{_USER}, {_USER}]", "two users are called 'a'"),
        (f"users = [{_USER[:-1]}, tenants = [] }}]", "tenants"),
    ],
)
def test_unsafe_settings_do_not_start(tmp_path: Path, settings: str, said: str) -> None:
    file = tmp_path / "inboxd.toml"
    file.write_text(f"[admin]\n{settings}\n".replace("HASH", hashed(PASSWORD)))
    with pytest.raises(SettingsError) as refused:
        load(file, {})
    assert said in str(refused.value)
    assert "canary" not in str(refused.value)
    assert hashed(PASSWORD) not in str(refused.value)


@pytest.mark.parametrize("one", [f"users = [{_USER}]", _OIDC % ("", '{"*" = "viewer"}')])
def test_several_processes_share_sign_ins_or_do_not_start(tmp_path: Path, one: str) -> None:
    file = tmp_path / "inboxd.toml"
    one = one.replace("HASH", hashed(PASSWORD))
    file.write_text(f"[worker]\nplugins = ['testplugin']\n[admin]\nenabled = true\n{one}\n")
    ran = _ran("run", "--processes", "2", "-c", str(file))
    needed = "need session_secret_file to share sign-ins"
    assert (ran.returncode, needed in ran.stderr) == (78, True)


def _style_sheet(page: httpx.Response) -> str:
    (found,) = re.findall(r'<link rel="stylesheet" href="([^"]+)"', page.text)
    return str(found)
