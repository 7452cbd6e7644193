"""What is said when no connection can be opened: the remedy is that of the cause."""

import asyncpg
import pytest

from inboxd.settings import Database
from inboxd.store.connections import explain_connecting


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (asyncpg.CannotConnectNowError("the database system is starting up"), "wait until"),
        (asyncpg.CannotConnectNowError("the database system is shutting down"), "wait until"),
        (asyncpg.CannotConnectNowError("the database system is in recovery mode"), "wait until"),
        (asyncpg.AdminShutdownError("terminating connection due to administrator"), "wait until"),
        (asyncpg.CrashShutdownError("terminating connection because of crash"), "wait until"),
        (asyncpg.InvalidCatalogNameError('database "x" does not exist'), "correct database.dsn"),
        (
            ConnectionError('PostgreSQL server at "db:5432" rejected SSL upgrade'),
            "the server has TLS (ssl = on)",
        ),
        (OSError("refused"), "check that PostgreSQL runs there"),
    ],
)
def test_the_remedy_is_that_of_the_cause(error: Exception, advice: str) -> None:
    settings = Database.model_validate({"dsn": "postgresql://ada:hush@db/shop"})
    said = str(explain_connecting(error, settings))
    assert advice in said
    assert ("correct database.dsn" in said) == (advice == "correct database.dsn")
    assert str(error) in said
    assert "hush" not in said
