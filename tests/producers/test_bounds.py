"""Bounds of written values, in every way to write; a refusal names the bound and the remedy."""

import json

import asyncpg
import pytest

from tests.support import Database

pytestmark = pytest.mark.anyio

_TABLES = ("events", "commands")
_TRAVEL = ("tenant", "entity_type", "entity_id", "correlation_id", "traceparent")
_EVENTS = (*_TRAVEL, "source", "ordering_key", "dedup_key", "type", "topic")
_COMMANDS = (*_TRAVEL, "ordering_key", "unique_key", "type", "queue")


def _plain(table: str, column: str) -> str:
    others = {"type": "a.b"} | ({"queue": "q"} if table == "commands" else {})
    names = [column, *(name for name in others if name != column)]
    values = ["$1", *(f"'{others[name]}'" for name in names[1:])]
    return f"insert into inboxd.{table} ({', '.join(names)}) values ({', '.join(values)})"


def _function(name: str, column: str) -> str:
    return (
        f"select inboxd.{name}($1)"
        if column == "type"
        else (f"select inboxd.{name}('a.b', {column} => $1)")
    )


def _array(name: str, column: str) -> str:
    plural = {"entity_type": "entity_types", "type": "types"}.get(column, f"{column}s")
    more = ", on_conflicts => array['keep']" if column == "unique_key" else ""
    if column == "type":
        return f"select * from inboxd.{name}(array[$1::text], array['{{}}'::jsonb])"
    return (
        f"select * from inboxd.{name}(array['a.b'], array['{{}}'::jsonb], "
        f"{plural} => array[$1::text]{more})"
    )


def _json(name: str, column: str) -> str:
    value = (
        "jsonb_build_array(jsonb_build_object('type', 'a.b') || "
        f"jsonb_build_object('{column}', $1::text))"
    )
    return f"select * from inboxd.{name}({value})"


_WAYS = [
    *((_plain("events", column), column) for column in _EVENTS),
    *((_function("emit_event", column), column) for column in _EVENTS),
    *((_array("emit_event_arrays", column), column) for column in _EVENTS),
    *((_json("emit_events", column), column) for column in _EVENTS),
    *((_plain("commands", column), column) for column in _COMMANDS),
    *((_function("send_command", column), column) for column in _COMMANDS),
    *((_array("send_command_arrays", column), column) for column in _COMMANDS),
    *((_json("send_commands", column), column) for column in _COMMANDS),
    ("select inboxd.open_batch('b', tenant => $1)", "tenant"),
    ("select inboxd.send_batch('b', '[]', correlation_id => $1)", "correlation_id"),
]


async def test_every_long_text_is_refused_by_name(database: Database) -> None:
    """Just too long, and too long for an index, whose error must not appear."""
    async with database.connect() as connection:
        for statement, column in _WAYS:
            for size in (256, 10_000):
                with pytest.raises(asyncpg.CheckViolationError) as refused:
                    await connection.execute(statement, "".join(map(chr, _varied(size))))
                assert refused.value.args[0] == (
                    f"{column} has {size} bytes; at most 255 fit: "
                    "shorten it, or put it into the payload"
                ), statement
                assert refused.value.column_name == column
            await connection.execute(statement, f"{column}{len(statement)}".ljust(255, "x"))
    assert await database.fetchval("select count(*) from inboxd.events") == 4 * len(_EVENTS)


def _varied(size: int) -> list[int]:
    """Code points that no index can compress."""
    return [33 + (n * n * 7919 + n // 94) % 94 for n in range(size)]


async def test_derived_keys_are_replaced_by_their_hash_if_too_long(database: Database) -> None:
    await database.execute(
        "insert into inboxd.topics (name, mode, key_path, dedup_path, source) "
        "values ('t', 'sequential', '{a}', '{b}', 'test')"
    )
    long = "".join(map(chr, _varied(10_000)))
    written = (
        "insert into inboxd.events (type, topic, payload) "
        "values ('a.b', 't', jsonb_build_object('a', $1::text, 'b', $1::text))"
    )
    await database.execute(written, long)
    await database.execute(written, long)
    rows = await database.fetch("select ordering_key, dedup_key from inboxd.events")
    assert [(len(row[0]), len(row[1])) for row in rows] == [(32, 64)]


@pytest.mark.parametrize("kind", ["array", "number", "string", "boolean", "null"])
async def test_headers_that_are_not_an_object_are_refused(database: Database, kind: str) -> None:
    text = {"array": "[1]", "number": "3", "string": '"x"', "boolean": "true", "null": "null"}[kind]
    for statement in (
        "insert into inboxd.events (type, headers) values ('a.b', $1)",
        "select inboxd.emit_event('a.b', headers => $1)",
        (
            "select * from inboxd.emit_event_arrays(array['a.b'], array['{}'::jsonb], "
            "headers => array[$1::jsonb])"
        ),
    ):
        with pytest.raises(asyncpg.CheckViolationError) as refused:
            await database.execute(statement, text)
        assert refused.value.args[0] == (
            f"headers must be a JSON object, not {kind}: name each value"
        )


@pytest.mark.parametrize("few", ["", "1e131000"])
async def test_the_size_of_headers_is_that_of_their_text(database: Database, few: str) -> None:
    """Ten bytes of jsonb may be a number of 100,000 digits."""
    insert = "insert into inboxd.events (type, headers) values ('a.b', $1)"
    text = f'{{"n": {few}}}' if few else f'{{"h": "{"x" * (16_385 - 9)}"}}'
    with pytest.raises(
        asyncpg.CheckViolationError, match=r"headers have \d+ bytes as JSON; at most"
    ):
        await database.execute(insert, text)
    await database.execute(insert, f'{{"h": "{"x" * (16_384 - 9)}"}}')


_ROW = "jsonb_build_array(jsonb_build_object('type', 'a.b', 'payload', $1::jsonb))"
_PAYLOADS = [
    *(f"insert into inboxd.{table} (type, payload) values ('a.b', $1)" for table in _TABLES),
    "select inboxd.emit_event('a.b', $1)",
    "select inboxd.emit_event_arrays(array['a.b'], array[$1::jsonb])",
    f"select inboxd.emit_events({_ROW})",
    "select inboxd.send_command('a.b', $1)",
    "select inboxd.send_command_arrays(array['a.b'], array[$1::jsonb])",
    f"select inboxd.send_commands({_ROW})",
]


@pytest.mark.parametrize("number", ["1e131071", "-1e131071", "1e-16383", "-1e-16383", "0e-16383"])
@pytest.mark.parametrize("statement", _PAYLOADS)
async def test_a_payload_with_megabytes_of_digits_is_refused(
    database: Database, statement: str, number: str
) -> None:
    """811 bytes of JSON would be 11.8 MB in a worker."""
    with pytest.raises(asyncpg.CheckViolationError) as refused:
        await database.execute(statement, f'{{"n": [{", ".join([number] * 90)}]}}')
    assert refused.value.args[0] == (
        "the payload has a number that no float holds: write it as a text"
    )
    assert refused.value.column_name == "payload"


@pytest.mark.parametrize("table", _TABLES)
async def test_a_payload_is_weighed_as_text(database: Database, table: str) -> None:
    """Numbers within the range of a float are accepted, and the payload is stored apart."""
    payload = f"[{', '.join(['1e308'] * 100)}]"
    insert = f"insert into inboxd.{table} (type, payload) values ('a.b', $1)"
    await database.execute(insert, payload)
    row = (await database.fetch(f"select payload, body_id, body_bytes from inboxd.{table}"))[0]
    assert row["payload"] is None
    assert row["body_id"] is not None
    assert row["body_bytes"] == await database.fetchval("select length($1::jsonb::text)", payload)
    assert row["body_bytes"] > 30_000


@pytest.mark.parametrize("table", _TABLES)
async def test_a_number_out_of_a_floats_range_is_left_to_the_handler(
    database: Database, table: str
) -> None:
    """The insert does not fail; the handler's dead letter will name the number."""
    insert = f"insert into inboxd.{table} (type, payload) values ('a.b', $1)"
    for payload in ('{"n": 1e400}', f'{{"n": 1e400, "text": "{"x" * 5000}"}}'):
        await database.execute(insert, payload)
    rows = await database.fetch(f"select body_id from inboxd.{table} order by id")
    assert [row["body_id"] is None for row in rows] == [True, False]


async def test_headers_of_a_trace_fit(database: Database) -> None:
    """The maximum that W3C requires to be passed on: baggage of 8,192 bytes, tracestate of 512."""
    headers = {"traceparent": "0" * 55, "tracestate": "x" * 512, "baggage": "b" * 8192}
    await database.execute(
        "select inboxd.emit_event('a.b', headers => to_jsonb($1::json))", json.dumps(headers)
    )


@pytest.mark.parametrize("table", ["events", "commands"])
async def test_an_omitted_payload_is_an_empty_object(database: Database, table: str) -> None:
    more = {"queue": "q"} if table == "commands" else {}
    names, values = "".join(f", {n}" for n in more), "".join(f", '{v}'" for v in more.values())
    async with database.connect() as connection:
        insert = f"insert into inboxd.{table} (type{names}) values ('left.out'{values})"
        assert await connection.fetchval(f"{insert} returning payload") == "{}"
        await connection.copy_records_to_table(
            table,
            schema_name="inboxd",
            columns=["type", *more],
            records=[("copied", *more.values())],
        )
        assert (
            await connection.fetchval(f"select payload from inboxd.{table} where type = 'copied'")
            == "{}"
        )
        given = f"insert into inboxd.{table} (type, payload{names}) values ('null', null{values})"
        assert await connection.fetchval(f"{given} returning payload") is None
        large = (
            f"insert into inboxd.{table} (type, payload{names}) "
            f"values ('b', jsonb_build_object('x', repeat('x', 5000)){values})"
        )
        row = await connection.fetchrow(f"{large} returning payload, body_id")
        assert row is not None
        assert row["payload"] is None
        assert row["body_id"] is not None


async def test_values_inherited_from_old_rows_are_written(database: Database) -> None:
    """A replay and a handler's command write them; a handler's own too long values are refused."""
    insert = (
        "insert into inboxd.commands (type, queue, tenant, correlation_id, origin_kind, entity_id, "
        "replay_of) values ('a.b', 'q', $1, $1, $2, $3, $4)"
    )
    long = "t" * 300
    for kind in ("event", "command"):
        await database.execute(insert, long, kind, None, None)
        with pytest.raises(asyncpg.CheckViolationError, match="entity_id has 300 bytes"):
            await database.execute(insert, None, kind, long, None)
    await database.execute(insert, long, "replay", long, 1)
    for kind in ("api", "batch", "schedule"):
        with pytest.raises(asyncpg.CheckViolationError, match="tenant has 300 bytes"):
            await database.execute(insert, long, kind, None, None)
