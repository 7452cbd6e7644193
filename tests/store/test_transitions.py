"""Only legal transitions, enforced in SQL (promise 8); events do not change; history is settled."""

import asyncpg
import pytest

from inboxd.model.lifecycle import HOT, SETTLED, Status, is_legal
from tests.support import Database
from tests.support.rows import emit, send

pytestmark = pytest.mark.anyio

# A row leaves the hot table by its settlement: a DELETE … RETURNING into history.
HOT_STATUSES = {"events": sorted(HOT - {Status.RUNNING}), "commands": sorted(HOT)}
MOVES = [
    (table, old, new)
    for table, statuses in HOT_STATUSES.items()
    for old in statuses
    for new in statuses
    if old != new
]


async def _put(connection: asyncpg.Connection, table: str, status: str) -> None:
    """Insert one row with that status, by any way."""
    await (emit if table == "events" else send)(connection, 1)
    await connection.execute("set session_replication_role = replica")
    await connection.execute(_set(table, status))
    await connection.execute("set session_replication_role = origin")


def _set(table: str, status: str) -> str:
    worker = "gen_random_uuid()" if status == "running" else "null"
    claim = f", worker_id = {worker}" if table == "commands" else ""
    return f"update inboxd.{table} set status = '{status}'{claim}"


@pytest.mark.parametrize(("table", "old", "new"), MOVES)
async def test_sql_and_the_model_agree(
    database: Database, table: str, old: Status, new: Status
) -> None:
    async with database.connect() as connection:
        await _put(connection, table, old)
        if is_legal(old, new):
            assert await connection.execute(_set(table, new)) == "UPDATE 1"
            return
        with pytest.raises(asyncpg.PostgresError, match=f"{old} -> {new}") as refused:
            await connection.execute(_set(table, new))
        assert refused.value.sqlstate == "IB002"


@pytest.mark.parametrize(("old", "new"), [move[1:] for move in MOVES if move[0] == "commands"])
async def test_sql_and_the_model_agree_on_ordering_keys(
    database: Database, old: Status, new: Status
) -> None:
    async with database.connect() as connection:
        await _put(connection, "commands", old)
        await connection.execute("update inboxd.commands set ordering_key = 'k'")
        move = connection.execute(_set("commands", new))
        if not is_legal(old, new, keyed=True):
            with pytest.raises(asyncpg.PostgresError, match=f"{old} -> {new}"):
                await move
            return
        assert await move == "UPDATE 1"
        status = await connection.fetchval("select status from inboxd.commands")
        assert status == ("waiting" if new is Status.PENDING else new)


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize("status", [*sorted(SETTLED), "done"])
async def test_settled_rows_are_not_hot(database: Database, table: str, status: str) -> None:
    async with database.connect() as connection:
        await (emit if table == "events" else send)(connection, 1)
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.execute(f"update inboxd.{table} set status = '{status}'")
        assert refused.value.sqlstate in {"IB002", "23514"}


@pytest.mark.parametrize("table", ["events", "commands"])
@pytest.mark.parametrize("status", ["pending", "waiting", "running"])
async def test_history_holds_only_settled_rows(database: Database, table: str, status: str) -> None:
    async with database.connect() as connection:
        await _put(connection, table, "failed")
        columns = f"id, {table[:-1]}_id, type, {'topic, mode' if table == 'events' else 'queue'}, "
        columns += "schema_version, attempts, crashes, run_at, created_at, updated_at, status"
        columns += (
            ", occurred_at"
            if table == "events"
            else ", priority, fence, cancel_requested, origin_kind"
        )
        move = (
            f"insert into inboxd.{table}_history ({columns}, finished_at) "
            f"select {columns}, now() from inboxd.{table}"
        )
        await connection.execute(move)
        with pytest.raises(asyncpg.CheckViolationError):
            await connection.execute(f"update inboxd.{table}_history set status = '{status}'")


async def test_only_running_commands_have_a_worker(database: Database) -> None:
    await send(database, 1)
    with pytest.raises(asyncpg.CheckViolationError):
        await database.execute("update inboxd.commands set worker_id = gen_random_uuid()")
    with pytest.raises(asyncpg.CheckViolationError):
        await database.execute("update inboxd.commands set status = 'running'")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("event_id", "gen_random_uuid()"),
        ("type", "'test.other'"),
        ("schema_version", "2"),
        ("source", "'elsewhere'"),
        ("tenant", "'another'"),
        ("entity_type", "'user'"),
        ("entity_id", "'7'"),
        ("payload", "'{}'"),
        ("occurred_at", "now()"),
        ("created_at", "now()"),
    ],
)
async def test_columns_of_an_event_do_not_change(
    database: Database, column: str, value: str
) -> None:
    await emit(database, 1)
    with pytest.raises(asyncpg.PostgresError, match="is a fact") as refused:
        await database.execute(f"update inboxd.events set {column} = {value}")
    assert refused.value.sqlstate == "IB003"


@pytest.mark.parametrize("time", ["'-infinity'", "'infinity'", "'0044-03-15 BC'", "'10000-01-01'"])
@pytest.mark.parametrize("column", ["run_at", "occurred_at"])
async def test_times_that_drivers_cannot_read_are_refused(
    database: Database, column: str, time: str
) -> None:
    with pytest.raises(asyncpg.CheckViolationError):
        await database.execute(
            f"insert into inboxd.events (type, {column}) values ('test.noop', {time})"
        )
