"""Errors of the database: their meaning in every language of the server, and their remedies."""

import asyncpg
import pytest

from inboxd.settings import Database
from inboxd.store.connections import (
    explain,
    explain_connecting,
    is_passing,
    is_refusal,
    is_without_partition,
)


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
            "enable TLS on it (ssl = on)",
        ),
        (OSError("refused"), "check that PostgreSQL runs there"),
    ],
)
def test_remedy_fits_the_cause(error: Exception, advice: str) -> None:
    settings = Database.model_validate({"dsn": "postgresql://ada:hush@db/shop"})
    said = str(explain_connecting(error, settings))
    assert advice in said
    assert ("correct database.dsn" in said) == (advice == "correct database.dsn")
    assert str(error) in said
    assert "hush" not in said


def _error(message: str, **fields: str) -> asyncpg.PostgresError:
    """An error by the field letters of the server's protocol."""
    return asyncpg.PostgresError.new({"C": "23514", "M": message, **fields})


@pytest.mark.parametrize(
    "message",
    [
        'no partition of relation "receipts" found for row',
        "keine Partition von Relation »receipts« für die Zeile gefunden",
        "aucune partition de la relation « receipts » trouvée pour la ligne",
        '行に対応するパーティションがリレーション"receipts"に見つかりません',
        "",
    ],
)
def test_missing_partition_is_known_in_every_language(message: str) -> None:
    error = _error(message, s="inboxd", t="receipts", R="ExecFindPartition")
    assert is_without_partition(error)
    assert is_passing(error)
    assert not is_refusal(error)
    assert "run: inboxd history make" in str(explain(error))


@pytest.mark.parametrize(
    "fields",
    [
        {"t": "events", "n": "events_type_check", "R": "ExecConstraints"},
        {"t": "events", "c": "headers", "R": "exec_stmt_raise"},
        {"R": "exec_stmt_raise"},
        {},
    ],
)
def test_other_failed_check_is_a_refusal(fields: dict[str, str]) -> None:
    error = _error("there is no partition of relation that it violates", **fields)
    assert not is_passing(error)
    assert is_refusal(error)
