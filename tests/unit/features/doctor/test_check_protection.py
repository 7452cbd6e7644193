"""`inboxd check` warns of a database server whose identity is not verified."""

import pytest

from inboxd.features.doctor.check_protection import judge
from inboxd.settings import Settings, load


def loaded(dsn: str, **more: str) -> Settings:
    given = {f"INBOXD_DATABASE__{name.upper()}": value for name, value in more.items()}
    return load(None, {"INBOXD_DATABASE__DSN": dsn, **given})


@pytest.mark.parametrize(
    "dsn",
    [
        *(
            "postgresql://u@localhost/db",
            "postgresql://u@127.0.0.1:5432/db",
            "postgresql://[::1]/db",
        ),
        *("postgresql:///db?host=/tmp", "postgresql://u@%2Ftmp/db", "postgresql:///db"),
        *("postgresql://db/x?sslmode=verify-full", "postgresql://a,b/x?sslmode=verify-ca"),
    ],
)
def test_local_and_verified_servers_give_no_finding(
    dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    monkeypatch.delenv("PGCHANNELBINDING", raising=False)
    assert list(judge(loaded(dsn))) == []


@pytest.mark.parametrize(
    ("dsn", "host"),
    [
        ("postgresql://u:hush@db.example:5432/x", "db.example"),
        ("postgresql://u@db.example/x?sslmode=require", "db.example"),
        ("postgresql://u@localhost,10.0.0.7/x", "10.0.0.7"),
        ("postgresql:///x?host=db.example", "db.example"),
        ("postgresql://[2001:db8::1]:5432/x", "2001:db8::1"),
    ],
)
def test_unverified_server_is_named(dsn: str, host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Encryption alone (sslmode=require) does not verify the server."""
    monkeypatch.delenv("PGSSLMODE", raising=False)
    (finding,) = judge(loaded(dsn))
    assert f"the certificate of the server at {host} is not verified" in finding.found
    assert "database.tls_ca" in finding.remedy
    assert "hush" not in finding.found + finding.remedy
    assert list(judge(loaded(dsn, tls_ca="/etc/ca.pem"))) == []
    monkeypatch.setenv("PGSSLMODE", "verify-full")
    assert ("sslmode" in dsn) == bool(list(judge(loaded(dsn))))


@pytest.mark.parametrize("name", ["channel_binding", "gssencmode"])
def test_required_protection_that_no_connection_has_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PGSSLMODE", raising=False)
    dsn = "postgresql://u:hush@db.example/x?sslmode=verify-full"
    assert list(judge(loaded(f"{dsn}&{name}=prefer"))) == []
    (finding,) = judge(loaded(f"{dsn}&{name}=require"))
    assert finding.found.startswith(f"{name}=require has no effect: the driver")
    assert "sslmode=verify-full" in finding.remedy
    assert "hush" not in finding.found


def test_channel_binding_that_the_environment_requires_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PGCHANNELBINDING", "require")
    (finding,) = judge(loaded("postgresql://u@localhost/db"))
    assert "channel_binding=require" in finding.found
