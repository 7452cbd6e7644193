"""Prepared statements that do not fit any more: a migration, or a handler's SQL, costs no attempt.

One session for all commands: what one of them leaves there meets the next.
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
    """One session for commands, and no time limit of the handler that is in the way."""
    return {"commands": {"concurrency": 2}, "database": {"handler_pool_size": 1}}


@pytest.fixture(scope="module", autouse=True)
def tables(shared_database: Database) -> None:
    """What the handlers use."""
    with psycopg.connect(shared_database.dsn, autocommit=True) as connection:
        connection.execute(_SQL)


async def _all_succeed(inbox: Inbox, kind: Kind, *hows: str) -> None:
    """Rows of these ways, one after the other, succeed in their first attempt."""
    for how in hows:
        row_id = await inbox.write(kind, "test.leave", {"how": how})
        row = await inbox.settled(kind, row_id)
        with safety():
            found = (how, row["status"], row["attempts"], row["errors"])
            assert found == (how, "succeeded", 1, None)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_table_gets_a_column(inbox: Inbox, kind: Kind) -> None:
    """As a migration does while older workers go on."""
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
async def test_what_a_handler_does_to_them_meets_nobody(inbox: Inbox, kind: Kind, how: str) -> None:
    await _all_succeed(inbox, kind, "nothing", how, "nothing", how, how, "nothing", "star")


@pytest.mark.parametrize("kind", KINDS)
async def test_what_a_handler_that_failed_prepared_is_gone(inbox: Inbox, kind: Kind) -> None:
    bad = await inbox.write(kind, "test.leave", {"how": "prepare and fail"})
    failed = await inbox.dead(kind, bad)
    assert [each["error"] for each in errors_of(failed)] == ["ValueError: as told"] * 2
    await _all_succeed(inbox, kind, "prepare", "nothing")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("how", ["deallocate out of sight", "prepare out of sight"])
async def test_what_a_function_does_to_them_spends_no_attempt(
    inbox: Inbox, kind: Kind, how: str
) -> None:
    await _all_succeed(inbox, kind, "nothing", how, "nothing", "star", how, "nothing", "star")


@pytest.mark.parametrize("kind", KINDS)
async def test_its_own_mistake_is_its_own(inbox: Inbox, kind: Kind) -> None:
    bad = await inbox.write(kind, "test.leave", {"how": "its own mistake"})
    errors = errors_of(await inbox.dead(kind, bad))
    assert len(errors) == 2
    assert all(each["error"].startswith("InvalidSQLStatementNameError") for each in errors)
    await _all_succeed(inbox, kind, "nothing", "star")
