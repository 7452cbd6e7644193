"""The streams of one consumer accept new messages, once, while they belong to this worker."""

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
from tests.support.rows import daemon_pool

pytestmark = [pytest.mark.anyio, pytest.mark.safety]


@pytest.fixture
async def pool(database: Database) -> AsyncIterator[Pool]:
    async with daemon_pool(database) as opened:
        yield opened


def _streams(pool: Pool, *, grouped: bool) -> OpenedStreams:
    return OpenedStreams(pool, "source", "oldest", uuid4(), grouped=grouped)


def _message(position: int | None) -> ReceivedMessage:
    """A message with an id of its sender; its event gets another id if that one is used."""
    message = received(position)
    message.other_id = uuid7()
    return message


async def test_a_message_that_is_twice_in_a_page_is_stored_once(
    database: Database, pool: Pool
) -> None:
    """A rebalance of a Kafka group in the middle of a page causes that."""
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
async def test_a_stream_that_another_worker_opened_is_not_stored(pool: Pool, grouped: bool) -> None:
    """A worker that reads alone must not skip them: skipped messages would be acknowledged."""
    streams = _streams(pool, grouped=grouped)
    await streams.stored(STREAM)
    await _streams(pool, grouped=grouped).stored(STREAM)
    if grouped:
        assert await streams.watch()
        assert (await streams.store([_message(None)])).passed_over == 1
    else:
        with pytest.raises(LeaseLost, match="source 'source'"):
            await streams.watch()


async def test_a_page_with_a_cancelled_storing_is_not_acknowledged() -> None:
    class Endless:
        async def store(self, _page: object) -> None:
            await anyio.sleep_forever()

    page = StoredPage([])
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(page.store, cast(PageStoring, Endless()))
        await anyio.wait_all_tasks_blocked()
        tasks.cancel_scope.cancel()
    with pytest.raises(DatabaseError, match="the worker stopped"):
        await page.wait()
