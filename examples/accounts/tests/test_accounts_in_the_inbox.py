"""Users register while the targets misbehave: real HTTP, a real database, a worker.

To run it: `pip install 'inboxd[embedded]' pytest`, then `pytest tests`.
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from accounts import plugin, registration
from accounts.stage import targets
from inboxd import Handlers
from inboxd.testing import TestInbox

USER = {"email": "Ada@Example.com"}


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: Any


def ask(port: int, method: str, path: str, body: object = None, **headers: str) -> Answer:
    connection = HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, json.dumps(body), named)
        answer = connection.getresponse()
        text = answer.read()
        return Answer(answer.status, dict(answer.headers), json.loads(text) if text else None)
    finally:
        connection.close()


class Target(NamedTuple):
    """A target on this machine, and its port."""

    port: int

    def behave(self, **behaviour: float) -> None:
        assert ask(self.port, "PUT", "/behaviour", behaviour).status == 204

    def deeds(self) -> list[list[str]]:
        """`[user id, correlation id]` of each deed."""
        deeds: list[list[str]] = ask(self.port, "GET", "/ledger").body["deeds"]
        return deeds

    def count(self, what: str) -> int:
        return int(ask(self.port, "GET", "/ledger").body["counts"].get(what, 0))


@pytest.fixture
def inboxd_handlers() -> Handlers:
    """Load this plugin alone, whatever else is installed."""
    return plugin.handlers


@pytest.fixture
def accounts(tmp_path: Path) -> Iterator[Target]:
    with targets.served(targets.create(str(tmp_path / "accounts"))) as port:
        yield Target(port)


@pytest.fixture
def payments(tmp_path: Path) -> Iterator[Target]:
    with targets.served(targets.create(str(tmp_path / "payments"))) as port:
        yield Target(port)


@pytest.fixture
def service(
    inbox: TestInbox, accounts: Target, payments: Target, monkeypatch: pytest.MonkeyPatch
) -> Iterator[int]:
    """Serve the registration; yields its port."""
    monkeypatch.setenv("REGISTRATION_DSN", inbox.dsn)
    for name, target in (("ACCOUNTS_URL", accounts), ("PAYMENTS_URL", payments)):
        monkeypatch.setenv(name, f"http://127.0.0.1:{target.port}")
    with targets.served(registration.create()) as port:
        yield port


def register(service: int, correlation_id: str = "visit-1") -> Answer:
    answer = ask(service, "POST", "/users", USER, X_Correlation_Id=correlation_id)
    assert answer.status == 201, answer
    return answer


def waiting(inbox: TestInbox) -> list[str]:
    rows = inbox.fetch("SELECT type FROM inboxd.commands WHERE status = 'pending' ORDER BY 1")
    return [row["type"] for row in rows]


def test_users_of_a_working_service_wait_only_for_the_charge(
    inbox: TestInbox, service: int, accounts: Target, payments: Target
) -> None:
    answer = register(service)

    assert answer.body["accounts"] == "ready"
    assert accounts.deeds() == [[answer.body["user_id"], "visit-1"]]
    assert waiting(inbox) == ["accounts.charge"]
    inbox.drain()
    assert payments.deeds() == accounts.deeds()


def test_the_registration_succeeds_while_the_service_is_down(
    inbox: TestInbox, service: int, accounts: Target
) -> None:
    accounts.behave(status=503)
    answer = register(service)
    assert answer.body["accounts"] == "pending"
    assert answer.headers["x-correlation-id"] == "visit-1"
    assert waiting(inbox) == ["accounts.charge", "accounts.provision"]
    assert accounts.count("503") == 2, "the request made two attempts"

    accounts.behave()
    inbox.drain()
    assert accounts.deeds() == [[answer.body["user_id"], "visit-1"]]
    users = inbox.fetch("SELECT email, provisioned_at, charged_at FROM registration.users")
    assert [row["email"] for row in users] == ["ada@example.com"]
    assert None not in users[0].values()
    assert register(service, "visit-2").body["accounts"] == "ready"
    assert not waiting(inbox)


def test_a_second_registration_adds_no_command(
    inbox: TestInbox, service: int, accounts: Target, payments: Target
) -> None:
    accounts.behave(status=503)
    first = register(service)
    second = register(service, "visit-2")

    assert waiting(inbox) == ["accounts.charge", "accounts.provision"]
    assert second.body == first.body, "the user has one correlation id"
    accounts.behave()
    inbox.drain()
    assert len(accounts.deeds()) == len(payments.deeds()) == 1


def test_concurrent_registrations_of_one_address_save_one_user(
    inbox: TestInbox, service: int
) -> None:
    addresses = [f"user{number}@example.com" for number in range(40) for _ in range(6)]

    def send(address: str) -> int:
        return ask(service, "POST", "/users", {"email": address}).status

    with ThreadPoolExecutor(12) as hands:
        assert set(hands.map(send, addresses)) == {201}
    assert inbox.fetchval("SELECT count(*) FROM registration.users") == 40
    # That race is rare, so check its cause: ON CONFLICT covers one unique index, and must cover
    # all.
    unique = "SELECT count(*) FROM pg_index WHERE indisunique AND indrelid = $1::text::regclass"
    assert inbox.fetchval(unique, "registration.users") == 1


def test_accounts_made_after_the_request_gave_up_are_not_made_again(
    inbox: TestInbox, service: int, accounts: Target
) -> None:
    accounts.behave(delay=0.8)  # longer than the request waits, shorter than the command waits
    assert register(service).body["accounts"] == "pending"

    inbox.drain()

    assert len(accounts.deeds()) == 1
    assert accounts.count("repeated") == 2, "the request's second attempt, and the command's"


def test_a_lost_answer_after_the_charge_leads_to_no_second_charge(
    inbox: TestInbox, service: int, payments: Target
) -> None:
    payments.behave(lose_every=1)
    register(service)

    inbox.drain(check=False)  # if this takes long, the second attempt runs here already
    assert payments.count("lost") == 1
    inbox.travel("1m")
    inbox.drain()

    assert len(payments.deeds()) == 1
    assert payments.count("repeated") == 1
    attempts = "SELECT attempts FROM inboxd.commands_history WHERE type = 'accounts.charge'"
    assert inbox.fetchval(attempts) == 2, "the command waited for its second attempt"
    assert inbox.fetchval("SELECT charged_at IS NOT NULL FROM registration.users")


def test_the_retry_after_of_a_target_is_obeyed(
    inbox: TestInbox, service: int, payments: Target
) -> None:
    payments.behave(status=429)
    register(service)
    inbox.drain(check=False)
    wait = "SELECT extract(epoch FROM run_at - updated_at)::float8 FROM inboxd.commands"
    assert inbox.fetchval(wait) == pytest.approx(1, abs=0.2)


def test_a_refusal_by_the_target_is_a_dead_letter_and_the_user_is_saved(
    inbox: TestInbox, service: int, accounts: Target
) -> None:
    accounts.behave(status=403)
    assert register(service).body["accounts"] == "pending"

    inbox.drain(check=False)

    dead = inbox.fetch("SELECT type FROM inboxd.commands WHERE status = 'failed'")
    assert [row["type"] for row in dead] == ["accounts.provision"]


def test_an_invalid_user_is_refused_and_not_saved(inbox: TestInbox, service: int) -> None:
    for wrong in ({"email": "ada"}, {"email": "a\0@b"}, {}, {"email": "x" * 300 + "@b"}):
        assert ask(service, "POST", "/users", wrong).status == 422
    assert ask(service, "POST", "/users", {"email": "x" * 9_000}).status == 413
    assert inbox.fetchval("SELECT count(*) FROM registration.users") == 0


def test_the_target_keeps_the_contract_of_idempotency(payments: Target) -> None:
    def charge(body: object, **headers: str) -> Answer:
        return ask(payments.port, "POST", "/charges", body, **headers)

    body = {"user_id": "7", "cents": 500}
    first, again = (charge(body, Idempotency_Key="k") for _ in range(2))
    assert (first.status, first.body) == (again.status, again.body)
    assert "idempotent-replayed" not in first.headers
    assert again.headers["idempotent-replayed"] == "true"
    assert charge({**body, "cents": 1}, Idempotency_Key="k").status == 422
    assert charge(body).status == 400
    assert len(payments.deeds()) == 1
