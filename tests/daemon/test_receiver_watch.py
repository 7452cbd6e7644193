"""A receiver's row shows the sources that its host spools, before the next heartbeat."""

from uuid import uuid4

import anyio
import pytest

from inboxd.daemon.receiver_watch import ReceiverWatch
from inboxd.settings import Settings
from inboxd.store.pools import open_pool
from inboxd.store.receivers import ReceiverIdentity, SpoolSight
from tests.support import Database
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


async def test_the_row_shows_spooled_sources(database: Database) -> None:
    sights = [SpoolSight()]
    me = ReceiverIdentity(uuid4(), "door", None, "h", 1, "0.1")
    settings = Settings.model_validate({"database": {"dsn": database.dsn}})

    async def told() -> tuple[list[str], str | None]:
        [row] = await database.fetch("select spooled, trouble from inboxd.receivers")
        return row["spooled"], row["trouble"]

    async with open_pool(settings.database, "receiver", 1) as pool:
        watch = ReceiverWatch(pool, me, beat=3600, spool=lambda: sights[-1])
        await watch.begin()
        assert await told() == ([], None)
        sights.append(SpoolSight(["bets"], "the disk failed"))
        async with anyio.create_task_group() as group:
            group.start_soon(watch.run)
            with bounded():
                while await told() != (["bets"], "the disk failed"):
                    await anyio.lowlevel.checkpoint()
            group.cancel_scope.cancel()
