"""Consequences of a page that did not commit, and of a source that forgot its cursors."""

from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock, MagicMock

import asyncpg
import pytest

from inboxd.engine.forgiveness import LossExemptions
from inboxd.errors import DedupKeyHeld
from inboxd.events.chunks.recovery import VisitRecovery
from inboxd.events.page import EventPage, PageFailure
from inboxd.events.settling import PageFailedBy
from inboxd.events.sources.sequential import SequentialSource
from inboxd.store.rows import ClaimedEvent

pytestmark = pytest.mark.anyio


def _row(row_id: int) -> ClaimedEvent:
    return cast("ClaimedEvent", {"id": row_id, "topic": "default", "type": "test.noop"})


def _page(*ids: int, excused: bool = False) -> EventPage:
    settling: Any = MagicMock()
    settling.losses.excuse.return_value = excused
    page = EventPage(MagicMock(), MagicMock(), settling)
    claim: Any = SimpleNamespace(rows=[_row(each) for each in ids], order=None)
    page.claim = claim
    return page


async def _failure(page: EventPage, error: Exception, *, lost: bool = False) -> PageFailure:
    return await page._fail(error, lost=lost)


async def test_the_first_half_of_a_page_that_did_not_commit_is_tried() -> None:
    page = _page(11, 12, 13, 14, 15)
    assert await _failure(page, ValueError("at the commit")) == PageFailure(most=2)


async def test_only_events_that_emitted_can_hold_a_dedup_key() -> None:
    page = _page(11, 12, 13, 14, 15)
    page.results.emitted = [(MagicMock(), MagicMock(id=row_id)) for row_id in (13, 15)]
    assert await _failure(page, DedupKeyHeld("k")) == PageFailure(most=4), "up to the second of two"


async def test_an_outage_blames_no_event() -> None:
    outage = asyncpg.AdminShutdownError("the server stops")
    assert await _failure(_page(11, 12), outage) == PageFailure(outage=outage)
    lost = await _failure(_page(11), outage, lost=True)
    assert lost == PageFailure(outage=outage, broken=True), "the next events run alone"


async def test_an_event_that_lost_its_connection_is_excused_at_first() -> None:
    page = _page(11, 12, excused=True)
    page.results.spoiled = PageFailedBy(_row(12), None, ConnectionError("gone"))
    assert await _failure(page, asyncpg.InterfaceError("closed"), lost=True) == PageFailure()


async def test_an_event_that_cannot_be_requeued_in_an_outage_is_tried_again() -> None:
    page = _page(11)  # there is no pool to lend another connection
    failure = await _failure(page, ValueError("at the commit"))
    assert isinstance(failure.outage, Exception)
    assert not failure.blamed


async def test_an_event_that_spoiled_its_page_is_known_without_a_requeue() -> None:
    page = _page(11, 12)
    page.results.spoiled = PageFailedBy(_row(12), None, ConnectionError("gone"))
    failure = await _failure(page, asyncpg.InterfaceError("closed"), lost=True)
    assert isinstance(failure.outage, Exception)
    assert not failure.broken, "no event needs to run alone"


async def test_a_page_that_could_not_be_counted_has_committed() -> None:
    page = _page(11, 12)
    ended = MagicMock()
    cast("Any", page.claim).ended = ended
    settling: Any = page._settling
    settling.write = AsyncMock()
    settling.count.side_effect = ValueError("a counter")
    page._session = MagicMock()
    await page.settle()
    assert await page.end() is None
    assert ended.call_args.kwargs == {"committed": True}


async def test_a_lost_connection_of_a_chunk_does_not_count_for_its_first_event() -> None:
    settling, quarantine = MagicMock(losses=LossExemptions(3)), AsyncMock()
    recovery = VisitRecovery(*(MagicMock(), settling, MagicMock(), quarantine, LossExemptions(3)))
    visit: Any = MagicMock(ran=[("k", MagicMock(first={"id": 7}))])
    for _ in range(2):
        assert not await recovery.sort_out(visit, ConnectionError("gone"), lost=True)
    assert settling.losses.excuse(7), "the event alone has an exemption of its own"
    assert settling.losses.excuse(7)
    assert not settling.losses.excuse(7)


async def test_cursors_forgotten_during_a_claim_take_nothing() -> None:
    """A worker's death, or a chunk left to a peer, rewinds the cursors of a running claim, too."""
    source = SequentialSource(MagicMock(), MagicMock())
    source.forget()
    assert await source._claim_arrivals(MagicMock(), [("ordered", 3)], 10) == ([], frozenset())
