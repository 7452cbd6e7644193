"""The admin API without a daemon: guesses are throttled, and errors reveal nothing."""

from collections.abc import Sequence
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette

from inboxd.admin import api, tokens
from inboxd.admin.api import AdminApi
from inboxd.admin.tokens import Tokens
from inboxd.settings import Settings

pytestmark = pytest.mark.anyio

_TOKEN, _OTHER = "a-token-of-sixteen-bytes", "another-token-of-more-bytes"


def _application(proxies: Sequence[str] = ()) -> Starlette:
    given = [{"name": "ada", "token": _TOKEN, "access": "full"}, {"name": "bob", "token": _OTHER}]
    settings = Settings.merged({"admin": {"tokens": given}}, {})
    return AdminApi(settings, Tokens(settings.admin.tokens, proxies)).application()


def _client(
    application: Starlette | None = None, peer: str = "127.0.0.1", **headers: str
) -> httpx.AsyncClient:
    transport = httpx.ASGITransport(app=application or _application(), client=(peer, 50_000))
    return httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers)


async def _asked(client: httpx.AsyncClient, token: str) -> httpx.Response:
    headers = {"authorization": f"Bearer {token}"}
    return await client.get("/api/openapi.json", headers=headers)


async def test_guesses_are_throttled_for_their_address_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Before tokens were throttled by address, sixty wrong ones closed the API for all clients."""
    monkeypatch.setattr(tokens, "_WRONG_RATE", 1 / 3600)
    application = _application()
    async with _client(application) as client, _client(application, peer="192.0.2.9") as other:
        assert (await _asked(client, _TOKEN)).status_code == 200
        found = [(await _asked(client, "x" * 20)).status_code for _ in range(60)]
        assert found == [401] * 50 + [429] * 10
        answer = await _asked(client, "x" * 20)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
        assert (await _asked(client, _TOKEN)).status_code == 200, "right token, same address"
        assert (await _asked(other, "x" * 20)).status_code == 401, "another address"
        assert (await client.get("/api/openapi.json")).status_code == 429, "without a token"


async def test_addresses_are_told_apart_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "_WRONG_RATE", 1 / 3600)
    async with _client(_application(proxies=["127.0.0.1"]), peer="127.0.0.1") as client:
        for address, answers in (("192.0.2.1", [401] * 50 + [429]), ("192.0.2.2", [401])):
            client.headers["x-forwarded-for"] = f"203.0.113.7, {address}"
            found = [(await _asked(client, "x" * 20)).status_code for _ in range(len(answers))]
            assert found == answers


async def test_each_token_has_its_own_allowance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "_RATE", 1 / 3600)
    monkeypatch.setattr(api, "_BURST", 3)
    async with _client() as client:
        for _ in range(300):
            assert (await _asked(client, "x" * 20)).status_code in {401, 429}
        found = [(await _asked(client, _TOKEN)).status_code for _ in range(4)]
        assert found == [200] * 3 + [429]
        assert (await _asked(client, _OTHER)).status_code == 200


async def test_an_unexpected_error_reveals_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(api, "open_session", fail)
    async with _client(authorization=f"Bearer {_TOKEN}") as client:
        answer = await client.get("/api/events/1")
    assert answer.status_code == 500
    assert answer.json()["detail"] == "see the log of the daemon"


async def test_a_request_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "TIMEOUT", 0.05)
    monkeypatch.setattr(api, "_body", lambda _: anyio.sleep_forever())
    async with _client(authorization=f"Bearer {_TOKEN}") as client:
        answer = await client.post("/api/events/1/replay")
    assert answer.status_code == 503
    assert "look at the row before you try again" in answer.json()["detail"]
