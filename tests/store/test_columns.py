"""Shared lists of columns match the tables, and the declared columns of claims."""

import re

import pytest

from inboxd.model.row_columns import COLUMNS, given
from inboxd.store import migrations
from inboxd.store.columns import SHARED
from inboxd.store.files import migrations_folder, sql_files
from inboxd.store.rows import ClaimedCommand, ClaimedEvent
from tests.support import Database
from tests.support.rows import SQL, daemon_session

# Columns that a row loses when it ends, and columns that its end sets.
LEFT = {
    "event": {"position", "head"},
    "command": {"needs", "line_at", "suspect_group", "lone_crashes", "alone_fence"},
}
GAINED = {"event": {"finished_at", "duration", "worker_id"}, "command": {"finished_at", "duration"}}
# Columns that a claim always returns, and columns that it may return.
CLAIMS = {
    **dict.fromkeys(
        (
            "claim_event",
            "claim_events",
            "claim_arrivals",
            "claim_lined_up",
            "read_chunk",
            "read_chunks",
        ),
        (ClaimedEvent.__required_keys__, ClaimedEvent.__optional_keys__),
    ),
    **dict.fromkeys(
        ("claim_commands", "claim_suspects"), (ClaimedCommand.__required_keys__, frozenset())
    ),
    "claim_limited": (ClaimedCommand.__required_keys__, {"held_back", "again", "passed"}),
}
MOVES = re.compile(r"INSERT INTO \{schema\}\.(event|command|\{table\})s?_history\s+\(([^)]*)\)")
FILES = sorted((migrations_folder() / "functions").glob("*.sql"))


@pytest.mark.anyio
@pytest.mark.parametrize("kind", COLUMNS)
async def test_table_has_the_described_columns(database: Database, kind: str) -> None:
    """The producers' functions take an integer where the table has a smallint."""
    rows = await database.fetch(
        "select column_name as name, replace(data_type, ' with time zone', 'tz') as type"
        "  from information_schema.columns where table_schema = 'inboxd' and table_name = $1",
        f"{kind}s",
    )
    there = {row["name"]: row["type"] for row in rows}
    described = {column.name: column.type for column in COLUMNS[kind] if column.is_stored}
    assert there.keys() == described.keys()
    for name, type_ in described.items():
        assert {type_, there[name]} in ({type_}, {"integer", "smallint"}), name


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("function", "kind"),
    [("emit_event", "event"), ("send_command", "command")],
)
async def test_producers_functions_take_the_described_arguments(
    database: Database, function: str, kind: str
) -> None:
    signature = "select pg_get_function_arguments(oid) from pg_proc where proname = $1"
    single = await database.fetchval(signature, function)
    arrays = await database.fetchval(signature, f"{function}_arrays")
    described = given(kind)
    assert _parameters(single) == [f"{c.name} {c.type}" for c in described]
    assert _parameters(arrays) == [f"{c.parameter} {c.type}[]" for c in described]


def _parameters(signature: str) -> list[str]:
    found = (part.strip().partition(" DEFAULT ")[0] for part in signature.split(", "))
    named = (part.replace("timestamp with time zone", "timestamptz") for part in found)
    return [part for part in named if not part.startswith(("OUT ", "TABLE"))]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SHARED)
async def test_history_takes_over_all_shared_columns(database: Database, kind: str) -> None:
    hot, history = [await _columns(database, f"{kind}s{end}") for end in ("", "_history")]
    assert hot - LEFT[kind] == set(SHARED[kind])
    assert history - GAINED[kind] == set(SHARED[kind])


def test_functions_move_all_shared_columns() -> None:
    moves = [move for each in migrations.functions() for move in MOVES.findall(each.text)]
    assert len(moves) > 5
    for kind, columns in moves:
        assert set(re.split(r"[,\s]+", columns)) - GAINED[kind] == set(SHARED[kind])


def test_statements_take_shared_columns_from_one_list() -> None:
    files = (*sql_files(), *FILES)
    moving = {file.stem: MOVES.search(file.read_text()) for file in files}
    lists = {name: found[2] for name, found in moving.items() if found}
    assert lists
    assert [name for name, columns in lists.items() if " but " not in columns] == []


@pytest.mark.anyio
@pytest.mark.parametrize("name", CLAIMS)
async def test_claim_returns_its_declared_columns(database: Database, name: str) -> None:
    always, besides = CLAIMS[name]
    async with daemon_session(database) as session:
        statement = await session.connection.prepare(SQL[name])
        returned = {each.name for each in statement.get_attributes()}
    assert always <= returned <= always | besides


async def _columns(database: Database, table: str) -> set[str]:
    rows = await database.fetch(
        "select column_name from information_schema.columns "
        "where table_schema = 'inboxd' and table_name = $1",
        table,
    )
    return {row["column_name"] for row in rows}
