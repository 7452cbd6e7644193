"""Functions that write, run, fail and read rows, for tests of actions.

id_ = dead(sql, "commands", type="a.b")
assert cli("commands", "dismiss", id_).code == 0
assert statuses(sql) == {id_: "dismissed"}
"""

from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg

from inboxd.store.session import Session
from tests.support import Database
from tests.support.rows import daemon_session

Sql = Callable[..., list[asyncpg.Record]]


FAILED = '[{"at": "2026-01-01T00:00:00Z", "attempt": 3, "error": "ValueError: no such address"}]'


def insert(sql: Sql, table: str, **values: Any) -> int:
    values = {"type": "a.b"} | ({"queue": "default"} if table == "commands" else {}) | values
    columns = ", ".join(values)
    marks = ", ".join(f"${n}" for n in range(1, len(values) + 1))
    query = f"INSERT INTO inboxd.{table} ({columns}) VALUES ({marks}) RETURNING id"
    id_: int = sql(query, *values.values())[0]["id"]
    return id_


def fail(sql: Sql, table: str, *ids: int, fingerprint: str = "f1", error: str = FAILED) -> None:
    """Turn rows into dead letters, as a worker does."""
    sql(
        f"""UPDATE inboxd.{table} SET status = 'failed', attempts = 3, crashes = 1,
                   errors = $2::text::jsonb, fingerprint = $3 WHERE id = ANY ($1)""",
        list(ids),
        error,
        fingerprint,
    )


def dead(sql: Sql, table: str, fingerprint: str = "f1", **values: Any) -> int:
    id_ = insert(sql, table, **values)
    fail(sql, table, id_, fingerprint=fingerprint)
    return id_


def run(sql: Sql, id_: int) -> None:
    """Claim a command, as a worker does."""
    sql(
        """UPDATE inboxd.commands SET status = 'running', fence = 1,
                  worker_id = '00000000-0000-0000-0000-000000000001' WHERE id = $1""",
        id_,
    )


def statuses(sql: Sql, table: str = "commands") -> dict[int, str]:
    rows = sql(
        f"""SELECT id, status FROM inboxd.{table}
            UNION ALL SELECT id, status FROM inboxd.{table}_history"""
    )
    return {row["id"]: row["status"] for row in rows}


def audited(sql: Sql) -> list[tuple[str, str, int]]:
    rows = sql("SELECT action, target, count FROM inboxd.audit ORDER BY id")
    return [(row["action"], row["target"], row["count"]) for row in rows]


async def operator(database: Database, act: Callable[[Session], Awaitable[Any]]) -> Any:
    """Run a function with a session of its own."""
    async with daemon_session(database) as session:
        return await act(session)
