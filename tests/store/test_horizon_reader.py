"""One reader of the horizon for all cursors: it reports that ids were rewound."""

import pytest

from inboxd.events.horizon import HorizonReader
from inboxd.telemetry.metrics import Metrics
from tests.support import Database
from tests.support.rows import daemon_session, emit

pytestmark = pytest.mark.anyio


async def test_reader_counts_rewinds_of_ids(database: Database) -> None:
    async with daemon_session(database) as session:
        reader = HorizonReader(Metrics("0"))
        await emit(session.connection, 5)
        await reader.read(session)
        await emit(session.connection, 5)
        await reader.read(session)
        assert reader.rewinds == 0
        sequence = await session.connection.fetchval(
            "select pg_get_serial_sequence('inboxd.events', 'id')"
        )
        await database.execute("select setval($1::text::regclass, 1)", sequence)
        await reader.read(session)
        assert reader.rewinds == 1
