"""The lowest id of each past day, by which lists leave days out, stays right beside its count."""

import pytest

from inboxd.embedded import Server
from inboxd.operations import erase
from inboxd.operations.bulk import Terms
from inboxd.store import census, finding, migrations, partitions
from inboxd.store.operator_sessions import open_session
from tests.store.days import count_day, ended, take, uncounted
from tests.store.retained import MONTH, let_go, retire
from tests.support import Database, ExternalServer, create, drop
from tests.support.history import day, make_day, settle
from tests.support.rows import daemon_session, settings_of

pytestmark = [pytest.mark.anyio, pytest.mark.safety]

_LOW_ID = "select low_id from inboxd.census where part = $1"
_LOWEST = "select min(id) from inboxd.events_history"


async def test_lowest_id_of_a_day_is_noted(database: Database) -> None:
    for days in (2, 3):
        await make_day(database, days, "events_history")
    await ended(database, "events", 2, 3)
    await take(database)
    noted = await database.fetchval(_LOW_ID, f"events_history{day(2)}")
    assert noted == await database.fetchval(_LOWEST)
    empty = await database.fetchval(_LOW_ID, f"events_history{day(3)}")
    assert empty == 2**63 - 1, "a day without rows"


async def _lowest(database: Database, days: int) -> int | None:
    """The lowest id of a day, as lists know it."""
    async with (
        open_session(settings_of(database)) as session,
        finding.snapshot(session, "events", None) as view,
    ):
        (found,) = (low for (begin, _), low in view.lowest if f"_{begin:%Y%m%d}" == day(days))
    return found


async def test_lowest_id_stays_known_while_a_day_is_counted_again(database: Database) -> None:
    """Otherwise lists would read all days after an erasure, until the leader has counted them."""
    await make_day(database, 2, "events_history")
    await ended(database, "events", 2, 3, tenant="north")
    await take(database)
    lowest = await database.fetchval(_LOWEST)
    async with open_session(settings_of(database), patient=True) as session:
        subject = erase.subject_of("north", None, None)
        await erase.erase(session, subject, Terms(actor="a test"))
    assert len(await uncounted(database, "events")) == 1
    assert await _lowest(database, 2) == lowest
    await take(database)
    assert await _lowest(database, 2) == lowest


async def test_lowest_id_is_unknown_after_a_partition_was_attached_again(
    database: Database,
) -> None:
    """A count while it was detached found no row; a leader of older code counts it now."""
    await make_day(database, 100, "events_history")
    await ended(database, "events", 100, 5)
    part = f"events_history{day(100)}"
    async with daemon_session(database) as session:
        (found,) = [each for each in await uncounted(database, "events") if each.part == part]
        oldest = await retire(session, part)
        await partitions.record_export(session, oldest, 4, 1, "elsewhere")
        await partitions.detach(session, oldest)
        began, rows = await count_day(session, found)
        assert await census.end(session, found, began, rows)
    await let_go(database, MONTH)
    await database.execute(
        "update inboxd.census set counted_at = now(), succeeded = 5 where part = $1", part
    )
    assert await _lowest(database, 100) is None


async def test_lowest_id_of_a_count_from_the_future_is_unknown(database: Database) -> None:
    await make_day(database, 2, "events_history")
    await ended(database, "events", 2, 3)
    await take(database)
    part = f"events_history{day(2)}"
    for column in ("counted_at", "begun_at"):
        await database.execute(
            f"update inboxd.census set {column} = now() + interval '1 hour' where part = $1", part
        )
        assert await _lowest(database, 2) is None
        await take(database)
        assert await _lowest(database, 2) == await database.fetchval(_LOWEST)
    await database.execute("update inboxd.census set counted_at = now() + interval '1 hour'")
    await database.execute("select inboxd.begin_census($1, 'events_history')", part)
    assert await _lowest(database, 2) is None


async def test_days_counted_before_the_migration_get_their_lowest_id(
    server: Server | ExternalServer,
) -> None:
    database = create(server)
    try:
        await migrations.migrate(settings_of(database), to=37)
        await make_day(database, 2, "events_history")
        await settle(database, 2, 3)
        await database.execute(
            "insert into inboxd.census (part, parent, counted_at, succeeded)"
            " values ($1, 'events_history', now(), 3)",
            f"events_history{day(2)}",
        )
        await migrations.migrate(settings_of(database))
        noted = await database.fetchval(_LOW_ID, f"events_history{day(2)}")
        assert noted == await database.fetchval(_LOWEST)
    finally:
        drop(server, database)


async def test_lowest_ids_that_an_older_leader_left_are_mended(
    server: Server | ExternalServer,
) -> None:
    database = create(server)
    try:
        await migrations.migrate(settings_of(database), to=38)
        for days in (2, 3):
            await make_day(database, days, "events_history")
            await settle(database, days, 3)
            await database.execute(
                "insert into inboxd.census (part, parent, low_id)"
                " values ($1, 'events_history', $2)",
                f"events_history{day(days)}",
                2**63 - 1,
            )
        counted_, again = (f"events_history{day(days)}" for days in (2, 3))
        await database.execute(
            "update inboxd.census set counted_at = now() where part = $1", counted_
        )
        await migrations.migrate(settings_of(database))
        assert await database.fetchval(_LOW_ID, counted_) == await database.fetchval(_LOWEST)
        assert await database.fetchval(_LOW_ID, again) is None
    finally:
        drop(server, database)
