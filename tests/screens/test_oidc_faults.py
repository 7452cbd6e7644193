"""Faulty, slow or absent providers and forged answers of them sign no visitor in."""

import io
import logging
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.responses import JSONResponse, RedirectResponse, Response

from inboxd.admin.screens.access import provider as provider_module
from inboxd.admin.screens.access.provider import OidcProvider
from inboxd.settings import AdminOidc
from inboxd.telemetry import logs
from tests.screens.test_oidc import (
    CALLBACK,
    at_provider,
    signing_in,
    there_and_back,
    to_provider,
)
from tests.support import Config, Database, Worker
from tests.support.oidc_provider import (
    ACCESS_TOKEN,
    CLIENT,
    KEYS,
    SECRET,
    Provider,
    providing,
)
from tests.support.ports import held_port

pytestmark = pytest.mark.anyio

Wrong = Callable[[Provider], None]


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """The debug log, without the provider's own log."""
    logging.getLogger().handlers[:] = []  # pytest's, which `configure` would close
    text = io.StringIO()
    logs.configure("debug", "json", worker="w1", stream=text)
    others = [logging.getLogger(name) for name in ("httpx", "httpcore", "uvicorn")]
    for each in others:
        each.setLevel(logging.CRITICAL)
    yield text
    for each in others:
        each.setLevel(logging.NOTSET)


def claims(**changes: Any) -> Wrong:
    return lambda provider: provider.claims.update(changes)


def metadata(**changes: Any) -> Wrong:
    return lambda provider: provider.metadata.update(changes)


def answer(path: str, response: Response) -> Wrong:
    return lambda provider: provider.answers.update({path: response})


def signed(**changes: Any) -> Wrong:
    return lambda provider: vars(provider).update(changes)


# In the future even if the test runs long after its collection.
_TOMORROW = int(time.time()) + 86_400
# A key that is not the provider's, with the name of the provider's.
_STRANGER = RSAKey.generate_key(2048, {"kid": "key-1"})
_LEADS_AWAY = RedirectResponse("http://127.0.0.1:1/token", 307)
_PAGE = Response("<h1>canary</h1>", media_type="text/html")
_LONG = JSONResponse({"x": "x" * 600_000})


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        pytest.param(claims(nonce="another"), "the nonce differs", id="nonce"),
        pytest.param(claims(nonce=None), "missing_claim nonce", id="no nonce"),
        pytest.param(claims(aud="another"), "invalid_claim aud", id="aud"),
        pytest.param(claims(aud=None), "missing_claim aud", id="no aud"),
        pytest.param(claims(aud=[CLIENT, "x"]), "azp differs", id="several aud"),
        pytest.param(claims(aud=[CLIENT, "x"], azp="x"), "azp differs", id="azp"),
        pytest.param(claims(exp=int(time.time()) - 120), "expired_token", id="expired"),
        pytest.param(claims(exp=None), "missing_claim exp", id="no end"),
        pytest.param(claims(exp="never"), "invalid_claim exp", id="end that is none"),
        pytest.param(claims(iat=_TOMORROW), r"invalid_(claim iat|token)", id="of the future"),
        pytest.param(claims(nbf=_TOMORROW), r"invalid_(claim nbf|token)", id="not yet"),
        pytest.param(claims(iss="http://127.0.0.1:1"), "invalid_claim iss", id="issuer"),
        pytest.param(claims(sub=None), "missing_claim sub", id="no sub"),
        pytest.param(signed(algorithm="none"), "unsupported_algorithm", id="none"),
        pytest.param(signed(algorithm="HS256"), "unsupported_algorithm", id="the client's secret"),
        pytest.param(signed(algorithm="HS-of-a-key"), "unsupported_algorithm", id="a public key"),
        pytest.param(signed(key=_STRANGER), "bad_signature", id="a stranger's key"),
        pytest.param(signed(key=KEYS[1]), "invalid_key_id", id="an unknown key"),
        pytest.param(
            signed(key=_STRANGER, header={"jwk": _STRANGER.as_dict(private=False)}),
            "bad_signature",
            id="a key of its own",
        ),
        pytest.param(signed(header={"crit": ["x"], "x": 1}), "unsupported_header", id="crit"),
        pytest.param(
            answer("/token", JSONResponse({"id_token": "canary.a.b"})), "decode_error", id="garbage"
        ),
        pytest.param(answer("/token", JSONResponse({"id_token": 7})), "no ID token", id="number"),
        pytest.param(answer("/token", JSONResponse(["canary"])), "no ID token", id="list"),
        pytest.param(answer("/token", _PAGE), "no ID token", id="page"),
        pytest.param(answer("/token", _LEADS_AWAY), "no tokens for the code: 307", id="redirect"),
        pytest.param(answer("/token", _LONG), "more than 524288 bytes", id="long"),
        pytest.param(
            answer("/token", JSONResponse({"error": "canary"}, 400)),
            "400, an error of another kind",
            id="error",
        ),
        pytest.param(signed(secret="another"), "401, invalid_client", id="secret"),
    ],
)
async def test_an_invalid_answer_of_the_provider_signs_no_user_in(
    database: Database, tmp_path: Path, log: io.StringIO, wrong: Wrong, reason: str
) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        wrong(provider)
        refused = await there_and_back(client)
        assert refused.status_code == 502
        assert "is not valid, so you are not signed in" in refused.text
        assert "inboxd_session" not in client.cookies
        assert re.search(reason, log.getvalue())
        _tells_nothing(provider, client, refused.text, log.getvalue())


@pytest.mark.parametrize(
    ("wrong", "status", "reason"),
    [
        pytest.param(metadata(issuer="http://127.0.0.1:1"), 502, "another issuer", id="issuer"),
        pytest.param(metadata(issuer=None), 502, "another issuer", id="no issuer"),
        pytest.param(
            metadata(token_endpoint="http://login.example/token"), 502, "token_endpoint", id="plain"
        ),
        pytest.param(metadata(jwks_uri="file:///etc/passwd"), 502, "jwks_uri", id="file"),
        pytest.param(
            metadata(authorization_endpoint="javascript:canary"),
            502,
            "authorization_endpoint",
            id="script",
        ),
        pytest.param(signed(published=[]), 502, "no RSA or EC key", id="no keys"),
        pytest.param(answer("/keys", JSONResponse({}, 404)), 503, "answered 404", id="keys"),
        pytest.param(
            answer("/.well-known/openid-configuration", JSONResponse({}, 500)),
            503,
            "answered 500",
            id="error",
        ),
        pytest.param(
            answer("/.well-known/openid-configuration", _LEADS_AWAY), 503, "307", id="redirect"
        ),
    ],
)
async def test_a_provider_with_invalid_metadata_is_not_asked(
    database: Database,
    tmp_path: Path,
    log: io.StringIO,
    wrong: Wrong,
    status: int,
    reason: str,
) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        wrong(provider)
        refused = await client.get("/sign-in/oidc?to=/events")
        assert refused.status_code == status
        assert 'href="/sign-in/oidc?to=%2Fevents"' in refused.text
        assert reason in log.getvalue()
        assert "canary" not in refused.text + log.getvalue()
        assert "/authorize" not in provider.asked


@pytest.mark.parametrize("slow", ["/.well-known/openid-configuration", "/keys", "/token"])
async def test_a_slow_provider_is_given_up_in_time(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slow: str
) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        monkeypatch.setattr(provider_module, "_TIMEOUT_SECONDS", 0.3)
        provider.delays[slow] = 1
        begun = await client.get("/sign-in/oidc")
        if slow == "/token":
            begun = await client.get(await at_provider(begun.headers["location"]))
        assert begun.status_code == 503
        assert "does not answer" in begun.text
        assert begun.headers["retry-after"] == "5"
        provider.delays.clear()
        assert (await there_and_back(client)).status_code == 303


async def test_a_provider_that_is_away_is_a_page_and_sign_ins_stay(
    database: Database, tmp_path: Path
) -> None:
    async with signing_in(database, tmp_path) as (provider, site):
        away = {"issuer": "http://127.0.0.1:1"}
        async with site.client() as client:
            assert (await there_and_back(client)).status_code == 303
            provider.answers = dict.fromkeys(("/keys", "/token"), Response(status_code=503))
            assert (await client.get("/events")).status_code == 200
    async with signing_in(database, tmp_path, away) as (_, site), site.client() as client:
        refused = await client.get("/sign-in/oidc")
        assert (refused.status_code, "127.0.0.1:1 does not answer" in refused.text) == (503, True)


async def test_a_new_key_is_fetched_and_a_withdrawn_one_is_refused(
    database: Database, tmp_path: Path
) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        assert (await there_and_back(client)).status_code == 303
        client.cookies.clear()
        assert (await there_and_back(client)).status_code == 303
        assert provider.asked.count("/keys") == 1, "the keys are cached"
        client.cookies.clear()
        provider.key, provider.published = KEYS[1], [KEYS[1].as_dict(private=False)]
        assert (await there_and_back(client)).status_code == 303
        assert provider.asked.count("/keys") == 2
        client.cookies.clear()
        provider.key = KEYS[0]
        assert (await there_and_back(client)).status_code == 502
        # Another key now has the name of the provider's first key.
        stranger = _STRANGER.as_dict(private=False)
        provider.key, provider.published = _STRANGER, [stranger]
        assert (await there_and_back(client)).status_code == 303


async def test_keys_are_read_again_after_minutes() -> None:
    """A stolen key that the provider withdraws is accepted for 5 minutes at most."""
    now = [0.0]
    async with providing() as source:
        given = {"issuer": source.issuer, "client_id": CLIENT, "roles": {"*": "viewer"}}
        settings = AdminOidc.model_validate(given)
        provider = OidcProvider(settings, None, lambda: now[0])
        await provider._read()
        now[0] = 299
        await provider._read()
        assert source.asked.count("/keys") == 1
        now[0] = 300
        await provider._read()
        assert source.asked.count("/keys") == 2


async def test_an_answer_counts_once_and_in_the_browser_that_asked(
    database: Database, tmp_path: Path
) -> None:
    async with (
        signing_in(database, tmp_path) as (provider, site),
        site.client() as ada,
        site.client() as eve,
    ):
        back = await at_provider(await to_provider(ada))
        planted = await eve.get(back)
        assert (planted.status_code, "Start again" in planted.text) == (400, True)
        cookies = dict(ada.cookies)
        assert (await ada.get(back)).status_code == 303
        replayed = await ada.get(back)
        assert (replayed.status_code, "Start again" in replayed.text) == (400, True)
        [name] = cookies
        kept = {"cookie": f"{name}={cookies[name]}"}
        async with site.client() as thief:
            again = await thief.get(back, headers=kept)
            assert again.status_code == 400, "a kept cookie does not help"
        assert provider.asked.count("/token") == 1


async def test_states_and_codes_that_are_forged_reach_no_provider(
    database: Database, tmp_path: Path
) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        state = parse_qs(urlsplit(await to_provider(client)).query)["state"][0]
        name, text = next(iter(client.cookies.items()))
        other = f"inboxd_oidc_{'x' * 22}"
        for query, cookie in (
            ("", f"{name}={text}"),
            ("state=&code=x", f"inboxd_oidc_={text}"),
            (f"state={'x' * 22}&code=x", f"{other}={text}"),
            (f"state={state}&code=x", f"{name}={text[:-1]}0x"),
            (f"state={state}&code=x", f"{name}=é"),
            (f"state={state}&code=x", f"{name}={'x' * 5000}"),
            (f"state={state}&code=x", f"inboxd_session={text}"),
            ("state=%00%0d%0a&code=x", ""),
        ):
            sent = {b"cookie": cookie.encode()}
            answer = await client.get(f"{CALLBACK}?{query}", headers=sent)
            assert answer.status_code == 400, query
        async with site.client(cookie=f"inboxd_session={text}") as forged:
            assert (await forged.get("/events")).status_code == 303
        assert "/token" not in provider.asked


async def test_an_address_with_many_failed_sign_ins_is_throttled(
    database: Database, tmp_path: Path
) -> None:
    async with signing_in(database, tmp_path) as (_, site):
        async with site.client(peer="127.0.0.2") as client:
            found = [(await client.get(f"{CALLBACK}?state=x")).status_code for _ in range(22)]
            assert found == [400] * 20 + [429] * 2
        async with site.client(peer="127.0.0.3") as client:
            assert (await there_and_back(client)).status_code == 303


@pytest.mark.parametrize(
    ("answer", "status", "said"),
    [
        ("error=access_denied&error_description=canary", 403, "refused the sign-in"),
        ("error=canary", 403, "refused the sign-in"),
        ("code=", 403, "refused the sign-in"),
        ("", 403, "refused the sign-in"),
        (f"code={'x' * 4097}", 403, "refused the sign-in"),
        ("code=canary-of-somebody", 502, "is not valid, so you"),
        ("code=canary&iss=https://evil.example", 502, "is not valid, so you"),
    ],
)
async def test_a_refusal_of_the_provider_is_a_page(
    database: Database, tmp_path: Path, log: io.StringIO, answer: str, status: int, said: str
) -> None:
    async with signing_in(database, tmp_path) as (_, site), site.client() as client:
        state = parse_qs(urlsplit(await to_provider(client)).query)["state"][0]
        refused = await client.get(f"{CALLBACK}?state={state}&{answer}")
        assert (refused.status_code, said in refused.text) == (status, True)
        assert 'href="/sign-in/oidc?to=%2Fevents%3Ftype%3Da.b"' in refused.text
        assert state not in refused.text
        assert "canary" not in refused.text + log.getvalue()


async def test_a_provider_that_names_itself_must_do_so(database: Database, tmp_path: Path) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        provider.metadata["authorization_response_iss_parameter_supported"] = True
        assert (await there_and_back(client)).status_code == 502
        back = await at_provider(await to_provider(client))
        told = await client.get(f"{back}&iss={provider.issuer}")
        assert told.status_code == 303


async def test_an_unexpected_error_reveals_nothing(
    database: Database, tmp_path: Path, log: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with signing_in(database, tmp_path) as (provider, site), site.client() as client:
        back = await at_provider(await to_provider(client))

        def fail(*_: object, **__: object) -> None:
            raise RuntimeError

        monkeypatch.setattr(jwt, "decode", fail)
        failed = await client.get(back)
        assert (failed.status_code, "See the log" in failed.text) == (500, True)
        assert "a page of the screens failed" in log.getvalue()
        _tells_nothing(provider, client, failed.text, log.getvalue())
        repr_ = f"{site.settings!r} {site.gate._sign_in._oidc!r} {vars(site.gate._sign_in._oidc)}"
        assert SECRET not in repr_


def _tells_nothing(provider: Provider, client: httpx.AsyncClient, *texts: str) -> None:
    """No code, token or secret is in what the screens show or log."""
    assert provider.codes or provider.given
    kept = [*provider.given, *client.cookies.values(), SECRET, ACCESS_TOKEN, "canary"]
    for text in texts:
        assert [each for each in kept if each in text] == []


async def test_a_process_signs_in_and_its_log_tells_nothing(
    database: Database, tmp_path: Path
) -> None:
    secret = tmp_path / "client.secret"
    secret.write_text(SECRET)
    async with providing() as provider:
        with held_port() as held:
            port = held.getsockname()[1]
        config: Config = {
            "admin": {
                "port": port,
                "oidc": {
                    "issuer": provider.issuer,
                    "client_id": CLIENT,
                    "client_secret_file": str(secret),
                    "groups_claim": "groups",
                    "roles": {"staff": "viewer"},
                },
            },
            "log": {"level": "debug", "format": "json"},
        }
        worker = Worker(tmp_path, database.dsn, config, command=["admin"])
        try:
            await worker.ready()
            async with httpx.AsyncClient(
                base_url=f"http://127.0.0.1:{port}",
                trust_env=False,
                headers={"accept": "text/html"},
            ) as client:
                assert (await there_and_back(client)).status_code == 303
                page = await client.get("/events")
                assert (page.status_code, "ada" in page.text) == (200, True)
                session = client.cookies["inboxd_session"]
                client.cookies.clear()
                provider.claims["aud"] = "another"
                assert (await there_and_back(client)).status_code == 502
            assert await worker.stop() == 0
        finally:
            worker.kill()
            sys.stdout.write(worker.output())
        told = worker.output()
        assert re.search(r'"user":\s*"ada"', told)
        assert "a sign-in is refused" in told
        for each in (*provider.given, session, SECRET, ACCESS_TOKEN, "canary"):
            assert each not in told
