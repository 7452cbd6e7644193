"""What one consumer's streams let through: what is new, once, while they are this worker's."""

import copy
from collections.abc import AsyncIterator
from typing import cast
from uuid import uuid4

import anyio
import pytest

from inboxd.errors import DatabaseError, LeaseLost
from inboxd.inbound.messages.reading import StoredPage
from inboxd.inbound.messages.storing import PageStoring
from inboxd.inbound.messages.streams import OpenedStreams
from inboxd.model.lineage import uuid7
from inboxd.model.message import ReceivedMessage
from inboxd.store.pools import Pool
from tests.support import Database
from tests.support.messages import STREAM, received
from tests.support.rows import SQL, daemon_pool

pytestmark = [pytest.mark.anyio, pytest.mark.safety]


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with daemon_pool(database) as opened:
        yield opened


def _streams(pool: Pool, *, grouped: bool) -> OpenedStreams:
    return OpenedStreams(pool, SQL, "source", "oldest", uuid4(), grouped=grouped)


def _message(position: int | None) -> ReceivedMessage:
    """One whose sender gave it an id, so that its event has another one if that is taken."""
    message = received(position)
    message.other_id = uuid7()
    return message


async def test_what_comes_twice_in_a_page_is_stored_once(database: Database, pool: Pool) -> None:
    """As when a Kafka group divides its partitions anew in the middle of a page."""
    streams = _streams(pool, grouped=True)
    await streams.stored(STREAM)
    messages = {position: _message(position) for position in (5, 6, 7, 8)}

    def page(*positions: int) -> list[ReceivedMessage]:
        return [copy.deepcopy(messages[position]) for position in positions]

    stored = await streams.store(page(5, 6, 7, 5, 6, 7, 8))
    assert (stored.events.written, stored.passed_over) == (4, 3)
    assert await database.fetchval("select count(*) from inboxd.events") == 4
    assert (await streams.store(page(7, 8))).passed_over == 2


@pytest.mark.parametrize("grouped", [True, False])
async def test_a_stream_that_another_worker_has_opened(pool: Pool, grouped: bool) -> None:
    """What one worker reads alone is not passed by: it would be acknowledged."""
    streams = _streams(pool, grouped=grouped)
    await streams.stored(STREAM)
    await _streams(pool, grouped=grouped).stored(STREAM)
    if grouped:
        assert await streams.watch()
        assert (await streams.store([_message(None)])).passed_over == 1
    else:
        with pytest.raises(LeaseLost, match="source 'source'"):
            await streams.watch()


async def test_a_page_whose_storing_was_cancelled_does_not_count_as_stored() -> None:
    class Endless:
        async def store(self, _page: object) -> None:
            await anyio.sleep_forever()

    page = StoredPage([])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(page.store, cast(PageStoring, Endless()))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    with pytest.raises(DatabaseError, match="not stored to its end"):
        await page.wait()
