"""Shared lists of columns match the tables, and the declared columns of claims."""

import re
from pathlib import Path

import pytest

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
FUNCTIONS = [
    file
    for file in sorted((migrations_folder() / "functions").glob("*.sql"))
    if MOVES.search(file.read_text())
]


@pytest.mark.anyio
@pytest.mark.parametrize("kind", SHARED)
async def test_history_takes_over_all_shared_columns(database: Database, kind: str) -> None:
    hot, history = [await _columns(database, f"{kind}s{end}") for end in ("", "_history")]
    assert hot - LEFT[kind] == set(SHARED[kind])
    assert history - GAINED[kind] == set(SHARED[kind])


@pytest.mark.parametrize("file", FUNCTIONS, ids=lambda file: file.stem)
def test_function_moves_all_shared_columns(file: Path) -> None:
    """Functions write the columns out: their files are applied as they stand, and read in psql."""
    for kind, columns in MOVES.findall(file.read_text()):
        assert set(re.split(r"[,\s]+", columns)) - GAINED[kind] == set(SHARED[kind])


def test_statements_take_shared_columns_from_one_list() -> None:
    moving = {file.stem: MOVES.search(file.read_text()) for file in sql_files()}
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
