"""Outdated prepared statements, after a migration or a handler's SQL, cost no attempt.

Commands share one session: each one meets the state that earlier ones left there.
"""

import psycopg
import pytest

from tests.daemon.inbox import KINDS, Inbox, Kind, errors_of
from tests.support import Config, Database
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

_SQL = """
create table starred (n int primary key);
insert into starred values (1);
create function deallocate_out_of_sight() returns void language plpgsql as
    $$ begin execute 'deallocate all'; end $$;
create function prepare_out_of_sight() returns void language plpgsql as
    $$ begin execute 'prepare left_behind as select 1'; end $$;
"""


@pytest.fixture(scope="module")
def worker_config() -> Config:
    """All commands use one session."""
    return {"commands": {"concurrency": 2}, "database": {"handler_pool_size": 1}}


@pytest.fixture(scope="module", autouse=True)
def tables(shared_database: Database) -> None:
    """The tables and functions of the handlers."""
    with psycopg.connect(shared_database.dsn, autocommit=True) as connection:
        connection.execute(_SQL)


async def _all_succeed(inbox: Inbox, kind: Kind, *hows: str) -> None:
    """Run a row for each way, one after the other; assert that its first attempt succeeds."""
    for how in hows:
        row_id = await inbox.write(kind, "test.leave", {"how": how})
        row = await inbox.settled(kind, row_id)
        with safety():
            found = (how, row["status"], row["attempts"], row["errors"])
            assert found == (how, "succeeded", 1, None)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_new_column_costs_no_attempt(inbox: Inbox, kind: Kind) -> None:
    """A migration does so while older workers go on."""
    await _all_succeed(inbox, kind, *["star"] * 4)
    await inbox.database.execute(f"alter table starred add column for_{kind} text")
    await _all_succeed(inbox, kind, *["star"] * 4)
    page = await inbox.write_many(kind, "test.leave", [{"how": "star"}] * 5)
    await inbox.database.execute(f"alter table starred add column again_{kind} text")
    page += await inbox.write_many(kind, "test.leave", [{"how": "star"}] * 5)
    for row_id in page:
        row = await inbox.settled(kind, row_id)
        with safety():
            assert (row["status"], row["attempts"], row["errors"]) == ("succeeded", 1, None)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["prepare", "deallocate"])
async def test_prepared_statements_of_a_handler_do_not_meet_the_next_one(
    inbox: Inbox, kind: Kind, how: str
) -> None:
    await _all_succeed(inbox, kind, "nothing", how, "nothing", how, how, "nothing", "star")


@pytest.mark.parametrize("kind", KINDS)
async def test_prepared_statements_of_a_failed_handler_are_gone(inbox: Inbox, kind: Kind) -> None:
    bad = await inbox.write(kind, "test.leave", {"how": "prepare and fail"})
    failed = await inbox.dead(kind, bad)
    assert [each["error"] for each in errors_of(failed)] == ["ValueError: as told"] * 2
    await _all_succeed(inbox, kind, "prepare", "nothing")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["deallocate out of sight", "prepare out of sight"])
async def test_a_function_that_changes_prepared_statements_spends_no_attempt(
    inbox: Inbox, kind: Kind, how: str
) -> None:
    await _all_succeed(inbox, kind, "nothing", how, "nothing", "star", how, "nothing", "star")


@pytest.mark.parametrize("kind", KINDS)
async def test_a_handlers_own_mistake_spends_its_attempts(inbox: Inbox, kind: Kind) -> None:
    bad = await inbox.write(kind, "test.leave", {"how": "its own mistake"})
    errors = errors_of(await inbox.dead(kind, bad))
    assert len(errors) == 2
    assert all(each["error"].startswith("InvalidSQLStatementNameError") for each in errors)
    await _all_succeed(inbox, kind, "nothing", "star")
