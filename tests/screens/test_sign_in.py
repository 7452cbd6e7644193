"""Users sign in and out: the form, the cookie and its end, and guessed passwords."""

import re
from datetime import timedelta
from typing import Any

import httpx
import pytest

from inboxd.admin.screens.access.sessions import Sessions
from inboxd.admin.throttle import Throttle
from inboxd.model.passwords import PasswordHash
from tests.screens.visiting import PASSWORD, SAME, Visited, sign_in, user, visiting
from tests.support import Database

pytestmark = pytest.mark.anyio


def _cookie(answer: httpx.Response) -> str:
    [header] = answer.headers.get_list("set-cookie")
    return str(header)


async def test_a_visitor_signs_in_looks_and_signs_out(database: Database) -> None:
    async with visiting(database, users=[user("ada", "reader")]) as site, site.client() as client:
        asked = await client.get("/events?type=a.b")
        assert (asked.status_code, asked.headers["location"]) == (
            303,
            "/sign-in?to=/events%3Ftype%3Da.b",
        )
        form = await client.get(asked.headers["location"])
        assert form.status_code == 200
        assert '<input type="hidden" name="to" value="/events?type=a.b">' in form.text
        assert "<script" not in re.sub(r"<script type=.module. src=[^>]*></script>", "", form.text)
        done = await sign_in(client, "ada")
        assert (done.status_code, done.headers["location"]) == (303, "/events?type=a.b")
        cookie = _cookie(done)
        assert cookie.startswith("inboxd_session=")
        assert {"HttpOnly", "Path=/", "SameSite=lax"} <= set(cookie.split("; "))
        assert "Secure" not in cookie
        page = await client.get("/events")
        assert page.status_code == 200
        assert "ada" in page.text
        assert "Sign out" in page.text
        kept = client.cookies["inboxd_session"]
        out = await client.post("/sign-out", headers=SAME)
        assert (out.status_code, out.headers["location"]) == (303, "/sign-in")
        assert (await client.get("/events")).status_code == 303
        again = await client.get("/events", headers={"cookie": f"inboxd_session={kept}"})
        assert again.status_code == 303, "a sign-out ends the session of the cookie"


async def test_with_https_the_cookie_is_for_this_host_alone(database: Database) -> None:
    proxies = {"trusted_proxies": ["10.0.0.1"], "hosts": ["inbox.example"]}
    async with visiting(database, users=[user("ada")], **proxies) as site:
        told: dict[str, Any] = {"x_forwarded_proto": "https", "peer": "10.0.0.1"}
        async with site.client("http://inbox.example", **told) as client:
            cookie = _cookie(await sign_in(client, "ada"))
            assert cookie.startswith("__Host-inboxd_session=")
            assert {"Secure", "Path=/"} <= set(cookie.split("; "))
        async with site.client("http://inbox.example", **told, x_forwarded_prefix="/in") as client:
            cookie = _cookie(await sign_in(client, "ada"))
            assert cookie.startswith("__Secure-inboxd_session=")
            assert {"Secure", "Path=/in"} <= set(cookie.split("; "))
            text = cookie.partition("=")[2].partition(";")[0]
            plain = await client.get("/", headers={"cookie": f"inboxd_session={text}"})
            assert plain.status_code == 303, "__Secure- is missing"
            named = await client.get("/", headers={"cookie": f"__Secure-inboxd_session={text}"})
            assert named.status_code == 200


async def test_an_unknown_user_and_a_wrong_password_get_the_same_answer(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = []
    real = PasswordHash.matches

    def matches(self: PasswordHash, password: str) -> bool:
        compared.append(self.cost)
        return real(self, password)

    monkeypatch.setattr(PasswordHash, "matches", matches)
    async with visiting(database, users=[user("ada")]) as site, site.client() as client:
        wrong = await sign_in(client, "ada", "another password")
        unknown = await sign_in(client, "bob")
        assert (wrong.status_code, unknown.status_code) == (403, 403)
        now = re.compile(r' data-now="[^"]+"')
        told = [now.sub("", each.text) for each in (wrong, unknown)]
        assert told[0].replace('"ada"', '"bob"') == told[1]
        assert "The name or the password is wrong" in wrong.text
        assert not wrong.headers.get_list("set-cookie")
        assert not unknown.headers.get_list("set-cookie")
    assert len(compared) == 2
    assert compared[0] == compared[1]


@pytest.mark.parametrize("to", ["//evil.example", "/\\evil.example", "https://evil.example", ""])
async def test_a_sign_in_never_leads_to_another_site(database: Database, to: str) -> None:
    async with visiting(database, users=[user("ada")]) as site, site.client() as client:
        fields = {"name": "ada", "password": PASSWORD, "to": to}
        done = await client.post("/sign-in", data=fields, headers=SAME)
        assert (done.status_code, done.headers["location"]) == (303, "/")


async def test_guesses_are_throttled_by_address_and_by_user(database: Database) -> None:
    async with visiting(database, users=[user("ada"), user("bob")]) as site:
        async with site.client(peer="127.0.0.2") as client:
            found = [(await sign_in(client, "ada", "a guess")).status_code for _ in range(12)]
            assert found == [403] * 10 + [429] * 2
            answer = await sign_in(client, "ada")
            assert (answer.status_code, answer.headers["retry-after"]) == (429, "5")
            assert "Too many attempts" in answer.text
            assert (await sign_in(client, "bob")).status_code == 429, "the address is throttled"
        async with site.client(peer="127.0.0.3") as client:
            assert (await sign_in(client, "ada")).status_code == 429, "the user is throttled"
            assert (await sign_in(client, "bob")).status_code == 303


async def test_a_known_address_of_a_user_is_not_locked_by_guesses_elsewhere(
    database: Database,
) -> None:
    async with (
        visiting(database, users=[user("ada")]) as site,
        site.client(peer="127.0.0.2") as hers,
        site.client(peer="127.0.0.3") as stranger,
        site.client(peer="127.0.0.4") as elsewhere,
    ):
        assert (await sign_in(hers, "ada")).status_code == 303
        found = [(await sign_in(stranger, "ada", "a guess")).status_code for _ in range(11)]
        assert found == [403] * 10 + [429]
        assert (await sign_in(hers, "ada")).status_code == 303
        assert (await sign_in(elsewhere, "ada")).status_code == 429, "an unknown address"
        found = [(await sign_in(hers, "ada", "a guess")).status_code for _ in range(11)]
        assert found == [403] * 10 + [429], "her known address has its own allowance"


def test_the_memory_of_guesses_is_bounded() -> None:
    now = [0.0]
    throttle = Throttle(1 / 20, 2, lambda: now[0])
    for number in range(20_000):
        throttle.spend([f"user {number}"])
    assert len(throttle._budgets) == 10_000
    throttle.spend(["user 1"])
    assert not throttle.is_spent(["user 1"])
    throttle.spend(["user 1"])
    assert throttle.is_spent(["user 2", "user 1"])
    now[0] += 20
    assert not throttle.is_spent(["user 1"])


async def test_forged_cookies_are_not_accepted(database: Database) -> None:
    async with visiting(database, users=[user("ada"), user("bob", "admin")]) as site:
        async with site.client() as client:
            await sign_in(client, "ada")
            real = client.cookies["inboxd_session"]
        body, _, digest = real.partition(".")
        other = Sessions(b"x" * 32, timedelta(hours=1), timedelta(hours=1))
        forged = [
            other.written(other.begin("bob", "")),
            f"{body}.{'0' * 64}",
            f"{body[:-2]}AA.{digest}",
            f"{body}x.{digest}",
            body,
            f".{digest}",
            ".",
            "x" * 5000,
            "é.é",
        ]
        async with site.client() as client:
            for each in forged:
                sent = {b"cookie": b"inboxd_session=" + each.encode()}
                assert (await client.get("/", headers=sent)).status_code == 303, each
            sent = {b"cookie": b"inboxd_session=" + real.encode()}
            assert (await client.get("/", headers=sent)).status_code == 200


async def test_a_cookie_from_before_the_sign_in_is_not_valid_after_it(database: Database) -> None:
    async with visiting(database, users=[user("ada"), user("eve")]) as site:
        async with site.client() as eve, site.client() as ada:
            await sign_in(eve, "eve")
            planted = eve.cookies["inboxd_session"]
            ada.cookies.set("inboxd_session", planted, domain="localhost.local", path="/")
            done = await sign_in(ada, "ada")
            assert planted not in _cookie(done)
            mine = _cookie(done).partition("=")[2].partition(";")[0]
        async with site.client(cookie=f"inboxd_session={mine}") as ada:
            assert "ada" in (await ada.get("/")).text


async def test_a_changed_password_and_a_removed_user_end_sign_ins(
    database: Database,
) -> None:
    ada, bob = user("ada"), user("bob")
    async with (
        visiting(database, users=[ada, bob]) as site,
        site.client() as one,
        site.client() as other,
    ):
        await sign_in(one, "ada")
        await sign_in(other, "bob")
        site.reload({"users": [ada, {**bob, "role": "admin"}]})
        assert (await other.get("/")).status_code == 200
        site.reload({"users": [user("ada", password="another one"), bob]})
        assert (await one.get("/")).status_code == 303
        assert (await other.get("/")).status_code == 200
        site.reload({"users": [ada]})
        assert (await other.get("/")).status_code == 303
        site.reload({})
        assert (await one.get("/")).status_code == 303, "without users no visitor gets in"


async def test_users_that_a_reload_adds_close_open_access(database: Database) -> None:
    async with visiting(database) as site, site.client() as client:
        assert (await client.get("/")).status_code == 200
        assert (await client.get("/sign-in")).status_code == 404
        site.reload({"users": [user("ada")]})
        assert (await client.get("/")).status_code == 303
        site.reload({})
        assert (await client.get("/")).status_code == 303


def test_a_sign_in_ends_when_it_is_old_or_left_alone() -> None:
    now = [1_000_000.0]
    sessions = Sessions(b"s" * 32, timedelta(hours=2), timedelta(hours=12), lambda: now[0])
    signed_in = sessions.begin("ada", "hash")
    text = sessions.written(signed_in)
    assert sessions.read(text) == signed_in
    assert sessions.renewed(signed_in) is None, "too early to renew"
    now[0] += 2 * 3600 - 1
    renewed = sessions.renewed(signed_in)
    assert renewed is not None
    now[0] += 1
    assert sessions.read(text) is None
    assert sessions.read(sessions.written(renewed)) == renewed
    for _ in range(9):
        now[0] += 3600
        last = sessions.renewed(renewed)
        assert last is not None
        renewed = last
        assert sessions.read(sessions.written(renewed)) == renewed
    now[0] += 3600
    last = sessions.renewed(renewed)
    assert last is not None
    assert sessions.read(sessions.written(last)) is None, "12 hours are over"
    now[0] = 0
    assert sessions.read(text) is None, "it begins in the future"


async def test_a_page_that_refreshes_itself_does_not_prolong_a_sign_in(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with visiting(database, users=[user("ada")]) as site, site.client() as client:
        await sign_in(client, "ada")
        monkeypatch.setattr("inboxd.admin.screens.access.sessions._RENEWED_AFTER_SECONDS", 0)
        opened = await client.get("/")
        assert opened.headers.get_list("set-cookie")
        asked = await client.get("/", headers={"x-revision": "0"})
        assert asked.status_code == 200
        assert not asked.headers.get_list("set-cookie")
        client.cookies.clear()
        asked = await client.get("/", headers={"x-revision": "0"})
        assert (asked.status_code, "sign-in has ended" in asked.text) == (401, True)
        assert (await client.get("/.json")).status_code in (401, 404)
        asked = await client.get("/events.json")
        assert (asked.status_code, asked.headers["content-type"]) == (
            401,
            "application/problem+json",
        )


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (SAME, 303),
        ({"origin": "http://localhost:8799"}, 303),
        ({**SAME, "origin": "http://evil.example"}, 303),
        ({}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "https://localhost:8799"}, 403),
        ({"origin": "http://localhost"}, 403),
        ({"sec-fetch-site": "cross-site", "origin": "http://localhost:8799"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"sec-fetch-site": "none"}, 403),
    ],
)
async def test_a_form_of_another_site_changes_nothing(
    database: Database, headers: dict[str, str], status: int
) -> None:
    async with visiting(database, users=[user("ada")]) as site, site.client() as client:
        fields = {"name": "ada", "password": PASSWORD, "to": "/"}
        done = await client.post("/sign-in", data=fields, headers=headers)
        assert done.status_code == status
        await sign_in(client, "ada")
        out = await client.post("/sign-out", headers=headers)
        assert out.status_code == status
        assert (await client.get("/")).status_code == (303 if status == 303 else 200)


async def test_a_form_is_bounded(database: Database) -> None:
    async with visiting(database, users=[user("ada")]) as site, site.client() as client:

        async def sent(body: bytes) -> int:
            return (await client.post("/sign-in", content=body, headers=SAME)).status_code

        assert await sent(b"name=ada&password=" + b"x" * 9000) == 413
        assert await sent(b"&".join(b"a=1" for _ in range(50))) == 400
        assert await sent(b"\xff\xfe") == 400
        assert await sent(b"name=ada&password=" + b"x" * 2000) == 403
        assert await sent(b"name=%00%ff&password=%00%ff%ed%a0%80") == 403


def _as_told(site: Visited) -> str:
    return repr(site.settings)


async def test_no_hash_is_in_a_representation(database: Database) -> None:
    async with visiting(database, users=[user("ada")]) as site:
        assert "scrypt" not in _as_told(site)
