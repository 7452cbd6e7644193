"""The wait for room: short while another worker's claim is waited for, and ended in time."""

from math import inf
from time import monotonic
from typing import Any, cast
from unittest.mock import MagicMock
from uuid import uuid4

import anyio
import pytest

from inboxd.commands import leases
from inboxd.commands.leases import LostClaims
from inboxd.commands.processing import CommandProcessing
from inboxd.daemon.incarnation import Incarnation
from inboxd.engine.queues import Queues
from inboxd.model.lane import Sighting
from inboxd.model.priority_order import Ask
from inboxd.settings import Settings
from inboxd.store import commands
from inboxd.store.rows import ClaimedCommand

pytestmark = pytest.mark.anyio


def _work(**queues: Any) -> CommandProcessing:
    settings = Settings(database={"dsn": "postgresql:///x"}, queues=queues)  # type: ignore[arg-type]
    parts = MagicMock(settings=settings)
    parts.queues.by_name = settings.queues
    parts.controls.paused = False
    work = CommandProcessing(parts, MagicMock(), MagicMock())
    work._lost_claims._look_at = work._suspects._look_at = monotonic() + 60
    return work


async def test_the_next_page_is_claimed_when_half_of_the_leased_commands_have_run() -> None:
    work = _work()
    room = work._room
    yields: Any = MagicMock()
    room._yields, way = yields, yields.want
    work._admission.prefetch.ahead = 500
    room.free()
    work._admission.in_flight = room._refill_at + 1
    work._after.free()
    assert not way.called
    for _ in range(3):
        work._admission.in_flight -= 1
        work._after.free()
    assert not way.called, "the processor does not wait"
    for within, gives in ((None, True), (5.0, False)):
        async with anyio.create_task_group() as tasks:
            room.begin_page()
            tasks.start_soon(work.room, within)
            await anyio.wait_all_tasks_blocked()
            for _ in range(3):
                work._after.free()
        assert way.called is gives, "a wait for another worker's claim needs no way"
        way.reset_mock()


async def test_a_command_that_ends_during_the_look_for_suspects_makes_room_in_the_page() -> None:
    work = _work(q={"concurrency": 1})
    row = cast("ClaimedCommand", {"id": 1, "queue": "q", "expires_in": None})
    admission = work._admission
    admission.took([row])

    async def claim(*_: Any) -> list[Any]:
        assert admission.room("q") == 0
        admission.ended(row)
        return []

    work._suspects.asks = lambda: [Ask(-inf, "")]  # type: ignore[method-assign]
    work._suspects.claim = claim  # type: ignore[assignment,method-assign]
    await work.page()
    assert admission.room("q") == 1


def test_a_reload_looks_from_the_beginning() -> None:
    """A queue whose limit came or went has another source, which must see its lanes."""
    incarnation = Incarnation.__new__(Incarnation)
    incarnation._command_work, incarnation._event_work = MagicMock(), None
    incarnation.processors, incarnation._breakers = [MagicMock()], MagicMock()
    incarnation._queues = Queues({}, incarnation._take_over_queues)
    incarnation.reload(MagicMock(queues={}), {})
    assert incarnation.processors[0].sweep.called  # type: ignore[attr-defined]


async def test_a_wait_for_another_workers_claim_becomes_a_wait_for_room() -> None:
    work = _work()
    known = work._limited._of("q")
    known.held_back, known.contended, known.until = "busy", 1, monotonic() + 30
    page = await work.page()
    assert page.busy
    assert page.again == pytest.approx(30, abs=10)
    known.until = monotonic()  # the wait for that claim is over
    work.suspend()
    for again in ((await work.page()).again, None):  # suspended, or draining
        ended = False

        async def wait(within: float | None = again) -> None:
            nonlocal ended
            await work.room(within)
            ended = True

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await anyio.wait_all_tasks_blocked()
            assert work._room._wanted, "it waits for a command to end"
            work._room._freed.set()
            await anyio.wait_all_tasks_blocked()
            assert ended, "the end of a command wakes it"


async def test_lanes_are_left_to_the_worker_that_can_read_their_commands() -> None:
    """The same for the lanes of queues with limits."""
    work = _work()
    sources = (work._lanes, work._limited)
    for source in sources:
        source._lanes.sweep([Sighting(("q", "t", 0), 1.0, None)])
    work._after.left()
    assert [source._lanes.ordered() for source in sources] == [[], []]


async def test_the_look_for_lost_claims_takes_a_hundredth_of_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """While an old snapshot is open, it reads all that this worker ever claimed; no page comes."""
    now = monotonic()

    async def release(*_: object, **__: object) -> int:
        nonlocal now
        now += took
        return 0

    monkeypatch.setattr(leases, "monotonic", lambda: now)
    monkeypatch.setattr(commands, "release", release)
    monkeypatch.setattr(leases, "borrow", MagicMock())
    lease = 30.0
    lost = LostClaims(MagicMock(), uuid4(), lease)
    for took in (0.0, lease / 50, 10 * lease):
        await lost.give_back({1})
        assert lost._look_at - now == pytest.approx(max(lease, 100 * took))


async def test_only_commands_that_have_not_ended_probe_a_breaker() -> None:
    """The ticket of another one would never be given back, so the breaker would stay open."""
    work, breakers = _work(), MagicMock(probing={"b"})
    parts: Any = work._parts
    parts.breakers, parts.controls.are_quiet = breakers, False
    names = {"queue": "q", "type": "t", "ordering_key": None, "body_id": None, "fence": 1}
    rows: list[Any] = [
        names | {"id": 1, "cancel_requested": True, "expires_in": None},
        names | {"id": 2, "cancel_requested": False, "expires_in": -1.0},
    ]
    work._take(rows)
    breakers.admit.assert_called_once_with("queue", "q", "t", 2)
