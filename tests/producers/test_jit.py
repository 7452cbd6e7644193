"""Producers on a server with default settings: no plan is compiled, which would take seconds.

Where a plan can only use a disabled method, its cost exceeds the limit above which PostgreSQL 15 to
17 compile it; 18 counts such methods apart, and the embedded server cannot compile. So these tests
use Debian's server.
"""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import asyncpg
import psycopg
import pytest

from inboxd.store.files import migrations_folder
from tests.support import Database, create_migrated, temporary_server

pytestmark = pytest.mark.anyio

_MANY = 50
_ENDPOINTS = """
insert into inboxd.endpoints (name, url, secrets, types)
select 'e' || n, 'https://example.org/', jsonb_build_array('whsec_' || repeat('a', 32)), array['*']
  from generate_series(1, 10) n
"""
# Sends each plan, also of statements within functions, as a message to the session.
_TELL = """
load 'auto_explain'; set client_min_messages = log;
set auto_explain.log_min_duration = 0; set auto_explain.log_nested_statements = on
"""


def _rows(**more: object) -> str:
    return json.dumps([{"type": "a.b", **more} for _ in range(_MANY)])


_STEPS = json.dumps(
    [{"type": "a.b", "name": f"s{n}", "after": [f"s{n - 1}"] * (n > 0)} for n in range(_MANY)]
)

# Calls by the function's name; $1 and $2 are an existing batch and command.
CALLS: dict[str, list[str]] = {
    "emit_event": [
        "inboxd.emit_event('a.b', '{}', dedup_key => 'd', ordering_key => 'o')",
        "inboxd.emit_event('a.b')",
    ],
    "emit_events": [f"inboxd.emit_events('{_rows(dedup_key='e')}')"],
    "emit_event_arrays": ["inboxd.emit_event_arrays(array['a.b'], array['{}'::jsonb])"],
    "send_command": [
        "inboxd.send_command('a.b', '{}', unique_key => 'u', on_conflict => 'replace')",
        "inboxd.send_command('a.b', '{}', unique_key => 'u', ordering_key => 'o')",
    ],
    "send_commands": [f"inboxd.send_commands('{_rows(unique_key='v')}')"],
    "send_command_arrays": ["inboxd.send_command_arrays(array['a.b'], array['{}'::jsonb])"],
    "command_result": ["inboxd.command_result($2)", f"inboxd.command_result('{uuid4()}')"],
    "send_batch": [f"inboxd.send_batch('b', '{_rows()}', then_send => '{_rows()}')"],
    "open_batch": ["inboxd.open_batch('b')"],
    "add_to_batch": [f"inboxd.add_to_batch($1, '{_rows()}')"],
    "send_after": [f"inboxd.send_after($2, '{_rows()}')", f"inboxd.send_after($1, '{_rows()}')"],
    "close_batch": ["inboxd.close_batch($1)"],
    "send_workflow": [f"inboxd.send_workflow('w', '{_STEPS}')"],
    "send_webhook": [
        "inboxd.send_webhook('a.b')",
        "inboxd.send_webhook('a.b', message_id => 'm')",
        "inboxd.send_webhook('a.b', message_id => 'm')",
    ],
    "send_webhooks": [f"inboxd.send_webhooks('{_rows(message_id='n')}')"],
    "send_webhook_arrays": ["inboxd.send_webhook_arrays(array['a.b'], array['{}'::jsonb])"],
}


@pytest.fixture(scope="module")
def compiling() -> Iterator[Database]:
    """A migrated database of a server that compiles plans, with default settings."""
    with temporary_server(binaries=_binaries()) as server:
        database = create_migrated(server)
        with psycopg.connect(database.dsn, autocommit=True) as connection:
            connection.execute(_ENDPOINTS)
        yield database


def _binaries() -> Path:
    """The programs of a server that compiles, older than PostgreSQL 18."""
    for version in range(17, 14, -1):
        folder = Path(f"/usr/lib/postgresql/{version}")
        if (folder / "lib" / "llvmjit.so").exists():
            return folder / "bin"
    pytest.skip("no PostgreSQL 15 to 17 with LLVM is installed: apt install postgresql-15")


@pytest.fixture
async def producer(compiling: Database) -> AsyncIterator[asyncpg.Connection]:
    """A producer's session, which receives its plans."""
    async with compiling.connect() as connection:
        await connection.execute(_TELL)
        yield connection


@pytest.fixture
async def plans(producer: asyncpg.Connection) -> list[str]:
    """The plans that the session has received."""
    told: list[str] = []

    def note(_: Any, message: Any) -> None:
        told.append(f"{message.message}\n{message.context or ''}")

    producer.add_log_listener(note)
    return told


def test_every_function_of_producers_is_called_here() -> None:
    files = (migrations_folder() / "functions").glob("*.sql")
    theirs = {file.stem for file in files if _is_a_producers(file.read_text())}
    assert theirs == set(CALLS)


def _is_a_producers(text: str) -> bool:
    return any("called by:" in line and "producers" in line for line in text.splitlines())


async def test_the_server_compiles_plans(producer: asyncpg.Connection, plans: list[str]) -> None:
    """Otherwise the other tests would prove nothing."""
    assert await producer.fetchval("show jit") == "on"
    await producer.execute("set enable_seqscan = off")
    await producer.fetch("select count(*) from inboxd.endpoints where url <> ''")
    assert any("JIT:" in plan for plan in plans)


@pytest.mark.parametrize("name", CALLS)
async def test_no_call_is_compiled(
    producer: asyncpg.Connection, plans: list[str], name: str
) -> None:
    batch = await producer.fetchval("select new_batch_id from inboxd.open_batch('b')")
    command = await producer.fetchval("select new_command_id from inboxd.send_command('a.b')")
    plans.clear()
    for call in CALLS[name]:
        given = [each for number, each in ((1, batch), (2, command)) if f"${number}" in call]
        text = call if len(given) != 1 else call.replace("$2", "$1")
        await producer.fetch(f"select * from {text}", *given)
    assert plans, "no plan was received"
    assert [plan for plan in plans if "JIT:" in plan] == []


@pytest.mark.parametrize("table", ["events", "commands"])
async def test_no_insert_is_compiled(
    producer: asyncpg.Connection, plans: list[str], table: str
) -> None:
    await producer.execute(
        f"insert into inboxd.{table} (type, payload, ordering_key) select 'a.b', '{{}}', 'k'"
        f" from generate_series(1, {_MANY})"
    )
    assert [plan for plan in plans if "JIT:" in plan] == []
