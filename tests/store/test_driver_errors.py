"""The driver's errors about unfit arguments are shown with types and without values."""

from typing import Any

import asyncpg
import psycopg
import pytest

from inboxd.model.outcome import explain
from tests.support import Database

pytestmark = pytest.mark.anyio

SECRET = "hunter2"
REFUSED: tuple[tuple[str, Any, str], ...] = (
    ("int4", SECRET, "'str' object cannot be interpreted as an integer"),
    ("int8", {SECRET: 1}, "'dict' object cannot be interpreted as an integer"),
    ("int2", 471100, "value out of int16 range"),
    ("text", 4711, "expected str, got int"),
    ("jsonb", {"a": SECRET}, "expected str, got dict"),
    ("float8", SECRET, "must be real number, not str"),
    ("bool", SECRET, "a boolean is required (got type str)"),
    ("bytea", SECRET, "a bytes-like object is required, not 'str'"),
    ("date", SECRET, "'str' object has no attribute 'toordinal'"),
    ("timestamptz", SECRET, "expected a datetime.date or datetime.datetime instance, got 'str'"),
    ("interval", SECRET, "'str' object has no attribute 'days'"),
    ("int4[]", 4711, "a sized iterable container expected (got type 'int')"),
    (
        "int4[]",
        [1, SECRET],
        "invalid array element at index 1: 'str' object cannot be interpreted as an integer",
    ),
)


async def test_unfit_argument_is_shown_by_its_type(database: Database) -> None:
    async with database.connect() as connection:
        for type_, value, reason in REFUSED:
            with pytest.raises(asyncpg.DataError) as caught:
                await connection.fetchval(f"select $1::{type_}", value)
            assert explain(caught.value).error == (
                f"DataError: invalid input for query argument $1 ({reason})"
            )
        for type_, value in (("uuid", SECRET), ("numeric", SECRET), ("inet", SECRET)):
            with pytest.raises(asyncpg.DataError) as caught:
                await connection.fetchval(f"select $1::{type_}", value)
            assert SECRET in str(caught.value)
            assert explain(caught.value).error == ("DataError: invalid input for query argument $1")


def test_quoted_row_is_left_out_of_an_error_of_psycopg(database: Database) -> None:
    """The library translates the heading into the language of the process, by its locale."""
    with psycopg.connect(database.dsn) as connection:
        connection.execute("create temporary table kept (secret text unique)")
        connection.execute("insert into kept values (%s)", [SECRET])
        with pytest.raises(psycopg.errors.UniqueViolation) as caught:
            connection.execute("insert into kept values (%s)", [SECRET])
    error = caught.value
    assert SECRET in str(error)
    told = 'UniqueViolation: duplicate key value violates unique constraint "kept_secret_key"'
    assert explain(error).error == told
    error.args = (str(error).replace("DETAIL:", "DÉTAIL :"),)
    assert SECRET in str(error)
    assert explain(error).error == told
