"""The doctor's checks read little of history, and little for each day of it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inboxd.operations.doctor import examine
from inboxd.operations.doctor.thresholds import SEQUENCE_DAYS
from inboxd.settings import Settings
from inboxd.store.operator_sessions import open_session
from tests.support import Database
from tests.support.history import PARENTS, make_day, settle
from tests.support.plans import told, touched_by

pytestmark = pytest.mark.anyio

# Start at ten days: with fewer, PostgreSQL 15 reads the catalogue by another plan.
FIRST, DAYS, ROWS = 10, 20, 20_000
# The catalogue has a row for each partition and each of its indexes; bounds, publications and row
# security are read for each one: 10 to 17 blocks.
BLOCKS_A_PARTITION, NOISE = 20, 50


async def looked_at(database: Database) -> tuple[int, set[str]]:
    """The number of blocks that the checks of a session read, and the relations that they name.

    A first run fills the session's copy of the catalogue. Dead rows and statistics of the catalogue
    must not depend on the time of autovacuum, so everything is vacuumed first. The least of three
    runs counts: other sessions only add blocks.
    """
    await database.execute("vacuum analyze")
    settings = Settings(database={"dsn": database.dsn})  # type: ignore[arg-type]
    async with open_session(settings.database) as session:

        async def look() -> None:
            assert not [f async for _, f in examine(session, settings) if "not seen" in f.found]

        await look()
        looks = [await told(session, look()) for _ in range(3)]
    named = {node["Relation Name"] for nodes in looks for node in nodes if "Relation Name" in node}
    return min(sum(map(touched_by, _tops(nodes))) for nodes in looks), named


def _tops(nodes: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [node for node in nodes if "Parent Relationship" not in node]


async def test_cost_of_the_doctor_does_not_depend_on_the_history(database: Database) -> None:
    for days in range(2, FIRST):
        await make_day(database, days)
    empty, _ = await looked_at(database)
    for days in range(FIRST, FIRST + DAYS):
        await make_day(database, days)
    bare, _ = await looked_at(database)
    assert bare - empty < BLOCKS_A_PARTITION * DAYS * len(PARENTS)
    for parent in ("events_history", "commands_history"):
        await settle(database, 2, ROWS, parent=parent)
    full, named = await looked_at(database)
    assert full - bare < NOISE
    since = datetime.now(UTC) - timedelta(days=SEQUENCE_DAYS + 1)
    read = {name[-8:] for name in named if name.startswith(PARENTS)}
    assert min(read) >= f"{since:%Y%m%d}", (
        "history older than the range of sequence numbers was read"
    )
