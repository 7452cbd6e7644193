"""An outage spends no attempt: a row with one attempt survives it."""

from functools import partial

import pytest

from tests.daemon.inbox import TABLES, Inbox
from tests.support import Database, StartWorker, eventually
from tests.support.proxy import proxy
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio


async def test_a_connection_cut_under_a_command_spends_no_attempt(
    database: Database, start_worker: StartWorker
) -> None:
    await database.execute(TABLES)
    inbox = Inbox(database)
    await start_worker({})
    ids = await inbox.write_many("command", "test.ledger", [{"wait": 1}] * 5, max_attempts=1)
    await cut_when_idle_in_transaction(inbox, 5)
    await inbox.succeeded("command", *ids)
    rows = await database.fetch("select attempts, errors, crashes from inboxd.commands_history")
    assert {(row["attempts"], row["errors"], row["crashes"]) for row in rows} == {(1, None, 0)}
    with safety():
        assert len(await inbox.notes(*ids)) == len(ids)


@pytest.mark.long
async def test_a_server_that_vanishes_before_the_settlement_spends_no_attempt(
    database: Database, start_worker: StartWorker
) -> None:
    """The server neither answers the settlement nor closes the connection."""
    await database.execute(TABLES)
    inbox = Inbox(database)
    with proxy(database.dsn) as way:
        worker = await start_worker({"database": {"dsn": way.dsn, "statement_timeout": "1s"}})
        [row_id] = await inbox.write_many("command", "test.ledger", [{"wait": 1}], max_attempts=1)
        await eventually(partial(_waits, inbox, 1))
        assert way.swallow("handlers") > 0
        await inbox.succeeded("command", row_id)
        worker.kill()
    rows = await database.fetch("select attempts, errors from inboxd.commands_history")
    assert [tuple(row) for row in rows] == [(1, None)]
    with safety():
        assert len(await inbox.notes(row_id)) == 1


async def test_an_operators_lock_on_the_row_spends_no_attempt(
    database: Database, start_worker: StartWorker
) -> None:
    """The lock is held for longer than the settlement may wait for it."""
    await database.execute(TABLES)
    inbox = Inbox(database)
    worker = await start_worker({"database": {"lock_timeout": "300ms"}})
    [row_id] = await inbox.write_many("command", "test.ledger", [{"wait": 1}], max_attempts=1)
    await eventually(partial(_waits, inbox, 1))
    async with database.connect() as operator, operator.transaction():
        await operator.execute("select from inboxd.commands where id = $1 for update", row_id)
        await worker.logged("it could not be settled")
    await inbox.succeeded("command", row_id)
    rows = await database.fetch("select attempts, errors from inboxd.commands_history")
    assert [tuple(row) for row in rows] == [(1, None)]
    with safety():
        assert len(await inbox.notes(row_id)) == 1


async def test_a_connection_cut_under_an_event_spends_no_attempt(
    database: Database, start_worker: StartWorker
) -> None:
    await database.execute(TABLES)
    inbox = Inbox(database)
    await start_worker({"types": {"test.ledger": {"retry": {"attempts": 1}}}})
    row_id = await inbox.write("event", "test.ledger", {"wait": 1})
    await cut_when_idle_in_transaction(inbox, 1)
    await inbox.succeeded("event", row_id)
    [row] = await database.fetch("select attempts, errors from inboxd.events_history")
    assert (row["attempts"], row["errors"]) == (1, None)
    with safety():
        assert len(await inbox.notes(row_id)) == 1


_WAITING = (
    "from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid() "
    "and state = 'idle in transaction' and query ilike 'insert into ledger%'"
)


async def _waits(inbox: Inbox, sessions: int) -> bool:
    """Whether this many handlers are idle in their transactions."""
    found: int = await inbox.database.fetchval(f"select count(*) {_WAITING}")
    return found == sessions


async def cut_when_idle_in_transaction(inbox: Inbox, sessions: int) -> None:
    """End the sessions of handlers that are idle in their transactions."""
    await eventually(partial(_waits, inbox, sessions))
    await inbox.database.fetch(f"select pg_terminate_backend(pid) {_WAITING}")


async def test_a_command_that_gets_no_connection_spends_no_attempt(
    database: Database, start_worker: StartWorker
) -> None:
    """One connection for five handlers, and less time than they need together."""
    await database.execute(TABLES)
    inbox = Inbox(database)
    await start_worker(
        {
            "database": {"handler_pool_size": 1},
            "types": {"test.ledger": {"timeout": "800ms"}},
        }
    )
    ids = await inbox.write_many("command", "test.ledger", [{"wait": 0.4}] * 5, max_attempts=1)
    await inbox.succeeded("command", *ids)
    with safety():
        assert len(await inbox.notes(*ids)) == len(ids)
