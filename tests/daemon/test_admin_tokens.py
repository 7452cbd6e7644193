"""Tokens of the admin API on a real daemon: reloaded while it runs, never shown; slow senders."""

import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from inboxd.main import main
from tests.support import StartWorker, Worker, eventually
from tests.support.databases import Database
from tests.support.ports import held_port
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio

_ADA = "canary-1-of-ada-with-full-access"
_EVE = "canary-2-of-eve-who-may-look"


@asynccontextmanager
async def _serving(
    start_worker: StartWorker, file: Path
) -> AsyncIterator[tuple[Worker, httpx.AsyncClient]]:
    await anyio.Path(file).write_text(f"{_ADA}\n")
    tokens = [
        {"name": "ada", "token_file": str(file), "access": "full"},
        {"name": "eve", "token": _EVE},
    ]
    with held_port() as held:
        port = held.getsockname()[1]
        worker = await start_worker(
            {
                "admin": {"enabled": True, "port": port, "tokens": tokens},
                "log": {"level": "debug"},
            }
        )
        url = f"http://127.0.0.1:{port}/api"
        async with httpx.AsyncClient(base_url=url, trust_env=False) as client:
            yield worker, client


async def _answer(client: httpx.AsyncClient, token: str, path: str = "/events/1") -> httpx.Response:
    return await client.get(path, headers={"authorization": f"Bearer {token}"})


async def test_a_reload_replaces_tokens(
    database: Database, start_worker: StartWorker, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    newer = "a-newer-token-of-ada"
    async with _serving(start_worker, file) as (worker, client):
        assert (await _answer(client, _ADA)).status_code == 404
        assert (await _answer(client, newer)).status_code == 401
        file.write_text(newer)
        worker.process.send_signal(signal.SIGHUP)

        async def counts() -> bool:
            return (await _answer(client, newer)).status_code == 404

        await eventually(counts)
        assert (await _answer(client, _ADA)).status_code == 401
        file.write_text("guess")
        worker.process.send_signal(signal.SIGHUP)
        await worker.logged("settings are not reloaded")
        assert "could be guessed" in worker.output()
        assert await counts()


async def test_tokens_are_shown_nowhere(
    database: Database,
    start_worker: StartWorker,
    tmp_path: Path,
    capsys: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with _serving(start_worker, tmp_path / "token") as (worker, client):
        answers = [
            await _answer(client, token, path)
            for token in (_ADA, _EVE, f"{_ADA}x", f"{_EVE} {_ADA}")
            for path in ("/events/1", "/events/x", f"/nowhere/{'1' * 9}", "/openapi.json")
        ]
        worker.process.send_signal(signal.SIGHUP)
        await worker.logged("settings are reloaded")
        told = [f"{each.headers} {each.text}" for each in answers]
        told += [(await worker.get(path))[1] for path in ("/metrics", "/healthz", "/readyz")]
        settings = str(worker.log.with_suffix(".toml"))
        monkeypatch.setenv("INBOXD_DATABASE__DSN", database.dsn)
        for command in (["check", "--all"], ["check", "--all", "--json"], ["doctor"]):
            with pytest.raises(SystemExit):
                await anyio.to_thread.run_sync(main, [*command, "-c", settings])
            shown = capsys.readouterr()
            told.append(shown.out + shown.err)
        assert "eve (read)" in "".join(told)
    told.append(worker.output())
    assert {each.status_code for each in answers} == {200, 400, 401, 404}
    for text in told:
        assert "canary" not in text


def test_mistakes_in_settings_do_not_show_the_token(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "inboxd.toml"
    for wrong in (
        'name = "ada", token = "canary-short"',
        'name = "ada", tokn = "canary-with-a-name-that-is-wrong"',
        'token = "canary-without-a-name-of-its-own"',
        'name = "ada", token = ["canary-that-is-a-list-of-texts"]',
    ):
        file.write_text(f"[admin]\nenabled = true\ntokens = [{{ {wrong} }}]\n")
        with pytest.raises(SystemExit):
            main(["check", "-c", str(file)])
        shown = capsys.readouterr()
        assert "admin.tokens" in shown.err
        assert "canary" not in shown.out + shown.err


@pytest.mark.long
@pytest.mark.parametrize("begun", [b"", b"Content-Length: 99\r\n\r\n"], ids=["head", "body"])
async def test_a_request_that_drips_is_ended(
    database: Database, start_worker: StartWorker, tmp_path: Path, begun: bytes
) -> None:
    async with _serving(start_worker, tmp_path / "token") as (_, client):
        stream = await anyio.connect_tcp("127.0.0.1", client.base_url.port or 0)
        async with stream, anyio.create_task_group() as group:
            line = f"Authorization: Bearer {_ADA}\r\n".encode()
            path = b"/api/events/1/replay"
            await stream.send(b"POST %b HTTP/1.1\r\nHost: a\r\n%b%b" % (path, line, begun))

            async def drip() -> None:
                while True:
                    await stream.send(b"x")
                    await anyio.sleep(0.3)

            group.start_soon(drip)
            with bounded():
                assert (await stream.receive()).startswith(b"HTTP/1.1 408 ")
            group.cancel_scope.cancel()
        assert (await _answer(client, _ADA)).status_code == 404
