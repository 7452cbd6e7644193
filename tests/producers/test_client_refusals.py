"""Bad input is refused before it reaches the database; errors show its place, never its value.

Each limit of the client is also tested against the database, so that the two cannot differ.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import asyncpg
import pytest
from pydantic import BaseModel

from inboxd.client import Inbox, NewCommand, NewEvent
from inboxd.client.payload import encode
from inboxd.errors import PayloadError, UsageError
from tests.support import Database

inbox = Inbox()
SECRET = "s3cret"


class Reading(BaseModel):
    """A model whose numbers may be NaN or infinite."""

    name: str = SECRET
    value: float = 1.0


@dataclass
class Box:
    """A dataclass that contains models."""

    readings: list[Reading]


def deep(levels: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(levels):
        nested = [nested]
    return nested


def endless() -> dict[str, Any]:
    loop: dict[str, Any] = {"a": SECRET}
    loop["self"] = loop
    return loop


@pytest.mark.parametrize(
    ("payload", "path", "problem"),
    [
        ({"a": [{"b": f"{SECRET}\0"}]}, "a.0.b", "NUL"),
        ({"a": {"k\0": 1}}, r"a.'k\x00'", "NUL"),
        ({"a": "\ud800"}, "a", "surrogate"),
        ({"a": math.nan}, "a", "NaN or infinite"),
        ({"a": [1.0, -math.inf]}, "a.1", "NaN or infinite"),
        ({"a": Decimal("NaN")}, "a", "NaN or infinite"),
        (Reading(value=math.nan), "value", "NaN or infinite"),
        (Reading(name="\0"), "name", "NUL"),
        (Box([Reading(), Reading(value=math.inf)]), "readings.1.value", "NaN or infinite"),
        ({"a": {"b": object()}}, "a.b", "class object"),
        ({"a": b"bytes"}, "a", "class bytes"),
        ({"a": {(1, 2): 3}}, "a", "key of class tuple"),
        (deep(100_000), None, "nested too deeply"),
        (endless(), None, "no end|nested too deeply"),
    ],
)
def test_payloads_that_cannot_be_stored_are_refused(
    payload: object, path: str | None, problem: str
) -> None:
    with pytest.raises(PayloadError, match=problem) as caught:
        encode(payload)
    assert caught.value.path == path
    assert caught.value.__cause__ is None
    assert SECRET not in str(caught.value)


def test_harmless_look_alikes_are_accepted() -> None:
    assert encode({"a": "\\u0000 null NaN"}) == '{"a":"\\\\u0000 null NaN"}'
    assert encode(Reading(name="null NaN Infinity")) == '{"name":"null NaN Infinity","value":1.0}'


@pytest.mark.anyio
async def test_postgresql_stores_all_nesting_that_python_writes(database: Database) -> None:
    async with database.connect() as connection:
        await inbox.emit(connection, "a.b", deep(500))
        stored = await connection.fetchval(
            "select coalesce(e.payload, b.payload)"
            " from inboxd.events e left join inboxd.bodies b on b.id = e.body_id"
        )
    assert json.loads(stored) == deep(500)


_LONG = "has 256 bytes; at most 255 fit: shorten it, or put it into the payload"
BAD_FIELDS: list[tuple[dict[str, Any], str]] = [
    ({"type": ""}, "type has 0 bytes"),
    ({"type": "é" * 128}, "type has 256 bytes"),
    ({"type": None}, "type must not be None"),
    ({"type": "a\0b"}, "type has a NUL"),
    ({"type": 7}, "type must be a str, not int"),
    ({"topic": "x" * 256}, "topic has 256 bytes"),
    ({"tenant": "\ud800"}, "tenant has half of a surrogate"),
    ({"schema_version": 0}, "schema_version must be 1 or more"),
    ({"schema_version": 32768}, "schema_version must lie between"),
    ({"schema_version": "2"}, "schema_version must be an int"),
    ({"schema_version": None}, "schema_version must not be None"),
    ({"event_id": "not a uuid"}, "event_id must be a uuid.UUID, not str"),
    ({"causation_id": "7"}, "causation_id must be a uuid.UUID"),
    ({"occurred_at": datetime(2030, 1, 1)}, "occurred_at has no time zone"),  # noqa: DTZ001
    ({"run_at": datetime(1969, 12, 31, tzinfo=UTC)}, "run_at must lie between 1970 and 9999"),
    ({"run_at": datetime(9999, 1, 1, tzinfo=UTC)}, "run_at must lie between 1970 and 9999"),
    ({"run_at": "tomorrow"}, "run_at must be a datetime, not str"),
    ({"headers": {"x": math.nan}}, "x: a number that is NaN"),
    ({"headers": [1]}, "headers must be a mapping"),
    ({"headers": {"x": "é" * 8190}}, "headers have 16389 bytes as JSON; at most 16384 fit: put"),
    ({"entity_id": "é" * 128}, f"entity_id {_LONG}"),
    ({"source": "x" * 256}, f"source {_LONG}"),
    ({"dedup_key": "x" * 256}, f"dedup_key {_LONG}"),
]


@pytest.mark.anyio
@pytest.mark.parametrize(("fields", "problem"), BAD_FIELDS)
async def test_fields_that_cannot_be_stored_are_refused(
    database: Database, fields: Mapping[str, Any], problem: str
) -> None:
    good = NewEvent("a.b", {"n": 1})
    bad = NewEvent(**{"type": "a.b", **fields})
    async with database.connect() as connection, connection.transaction():
        with pytest.raises((UsageError, PayloadError), match=problem) as caught:
            await inbox.emit_many(connection, [good, bad])
        assert "event 1" in str(caught.value)
        await inbox.emit(connection, "a.c")  # the transaction survived
    assert await database.fetchval("SELECT count(*) FROM inboxd.events") == 1


@pytest.mark.anyio
async def test_commands_have_limits_of_their_own(database: Database) -> None:
    async with database.connect() as connection:
        for fields, problem in [
            ({"priority": 40_000}, "priority must lie between"),
            ({"priority": True}, "priority must be an int, not bool"),
            ({"max_attempts": 0}, "max_attempts must be 1 or more"),
            ({"queue": ""}, "queue has 0 bytes"),
        ]:
            with pytest.raises(UsageError, match=f"command 0: {problem}"):
                await inbox.send_many(connection, [NewCommand("a.b", **fields)])  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"command 0 is a NewEvent: make it a NewCommand"):
            await inbox.send_many(connection, [NewEvent("a.b")])  # type: ignore[list-item]


@pytest.mark.anyio
async def test_the_largest_values_are_stored(database: Database) -> None:
    last = datetime(9999, 1, 1, tzinfo=UTC) - timedelta(microseconds=1)
    event: dict[str, Any] = {
        "type": "x" * 255,
        "topic": "é" * 127,
        "schema_version": 32767,
        "event_id": uuid4(),
        "occurred_at": datetime(1970, 1, 1, tzinfo=UTC),
        "run_at": last,
        "source": "s" * 255,
    }
    headers = {"x": "é" * 8183, "y": 1}
    command: dict[str, Any] = {"queue": "q" * 255, "max_attempts": 32767, "deadline": last}
    async with database.connect() as connection:
        await inbox.emit(connection, **event, headers=headers)
        for priority in (-32768, 32767):
            await inbox.send(connection, "y", priority=priority, **command)
        (found,) = await connection.fetch("select * from inboxd.events")
        sent = await connection.fetch("select * from inboxd.commands order by id")
    assert {name: found[name] for name in event} == event
    assert json.loads(found["headers"]) == headers
    assert [row["priority"] for row in sent] == [-32768, 32767]
    assert [{name: row[name] for name in command} for row in sent] == [command] * 2


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("type", "''"),
        ("schema_version", "0"),
        ("run_at", "'1969-12-31Z'"),
        ("run_at", "'infinity'"),
        ("occurred_at", "'9999-01-01Z'"),
    ],
)
async def test_the_database_has_the_same_limits(
    database: Database, column: str, value: str
) -> None:
    given = f"type => 'a.b', {column} => {value}" if column != "type" else f"type => {value}"
    async with database.connect() as connection:
        with pytest.raises(Exception, match="violates check constraint"):
            await connection.execute(f"SELECT inboxd.emit_event({given})")


@pytest.mark.anyio
@pytest.mark.parametrize("column", ["type", "topic", "source", "tenant", "entity_id"])
async def test_the_database_refuses_in_the_same_words(database: Database, column: str) -> None:
    words = {"type": "a.b", column: "x" * 256}
    async with database.connect() as connection:
        with pytest.raises(UsageError) as ours:
            await inbox.emit_many(connection, [NewEvent(**words)])  # type: ignore[call-overload]
        given = ", ".join(f"{name} => '{value}'" for name, value in words.items())
        with pytest.raises(asyncpg.CheckViolationError) as its:
            await connection.execute(f"SELECT inboxd.emit_event({given})")
    assert str(ours.value) == f"event 0: {its.value.args[0]}."
