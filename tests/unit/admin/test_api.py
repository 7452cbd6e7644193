"""The admin API without a daemon: who guesses is held back, and what fails tells nothing."""

from typing import Any

import anyio
import httpx
import pytest

from inboxd.admin import api
from inboxd.admin.api import AdminApi
from inboxd.admin.tokens import Tokens
from inboxd.settings import Settings

pytestmark = pytest.mark.anyio

_TOKEN = "a-token-of-sixteen-bytes"


def _client(**headers: str) -> httpx.AsyncClient:
    admin = {"tokens": [{"name": "ada", "token": _TOKEN, "access": "full"}]}
    settings = Settings.merged({"admin": admin}, {})
    application = AdminApi(settings, Tokens(settings.admin.tokens)).application()
    transport = httpx.ASGITransport(app=application)
    return httpx.AsyncClient(transport=transport, base_url="http://test", headers=headers)


async def test_who_guesses_is_held_back_and_so_is_everybody_for_a_moment() -> None:
    async with _client() as client:
        wrong, right = ({"authorization": f"Bearer {each}"} for each in ("x" * 20, _TOKEN))
        assert (await client.get("/api/openapi.json", headers=right)).status_code == 200
        found = [(await client.get("/api/x/1", headers=wrong)).status_code for _ in range(60)]
        assert found[0] == 401
        assert found[-1] == 429
        answer = await client.get("/api/openapi.json", headers=right)
        assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")


async def test_what_nobody_expected_tells_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(api, "open_session", fail)
    async with _client(authorization=f"Bearer {_TOKEN}") as client:
        answer = await client.get("/api/events/1")
    assert answer.status_code == 500
    assert answer.json()["detail"] == "see the log of the daemon"


async def test_what_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "TIMEOUT", 0.05)
    monkeypatch.setattr(api, "_body", lambda _: anyio.sleep_forever())
    async with _client(authorization=f"Bearer {_TOKEN}") as client:
        answer = await client.post("/api/events/1/replay")
    assert answer.status_code == 503
    assert "look at the row before you try again" in answer.json()["detail"]
