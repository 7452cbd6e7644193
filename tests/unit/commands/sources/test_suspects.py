"""Which suspects a worker takes: one group at a time, or one command alone."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from math import inf
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import UUID, uuid4

import pytest

from inboxd.commands.sources import suspects as module
from inboxd.commands.sources.suspects import Suspects, grouped, time_of
from inboxd.engine.exclusive_run import ExclusiveRun
from inboxd.model.priority_order import Ask
from inboxd.store import commands, leases
from inboxd.store.commands import Suspected
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio

A, B, C = (uuid4() for _ in range(3))


@asynccontextmanager
async def _borrow(_: Any) -> AsyncIterator[None]:
    yield None


def _part(group: UUID, *, alone: bool = False, due: bool = True, since: float = 9) -> Suspected:
    return Suspected(group, "q", "t", alone, False, 1.0 if due else None, None, since)


class Site:
    """The suspects of one worker; the answers of the database are given by the test."""

    def __init__(self, patch: pytest.MonkeyPatch, *waiting: Suspected) -> None:
        self.limited = frozenset[str]()
        self.now, self.in_flight, self.ids = 100.0, 0, iter(range(100))
        self.waiting, self.asked = list(waiting), list[tuple[UUID, bool]]()
        self.leases, self.written = list[str](), list[int]()
        self.may_empty, self.blocked = True, set[UUID]()
        self.room_left = 10
        self.outcomes = SimpleNamespace(waiting=0)
        self.exclusive_run = ExclusiveRun(on_change=self._changed, on_rest=self._rest)
        tasks = MagicMock()
        self.executions = SimpleNamespace(left_behind=False)
        parts: Any = MagicMock(exclusive_run=self.exclusive_run, executions=self.executions)
        self.tasks = tasks
        self.suspects = Suspects(
            parts,
            MagicMock(),
            self.outcomes,  # type: ignore[arg-type]
            tasks,
            self,  # type: ignore[arg-type] # admits everything
            MagicMock(),
        )
        patch.setattr(module, "monotonic", lambda: self.now)
        patch.setattr(module, "borrow", _borrow)
        patch.setattr(commands, "find_suspects", self._find)
        patch.setattr(commands, "claim_suspects", self._claim)
        patch.setattr(commands, "end_alone", self._end_alone)
        patch.setattr(leases, "hold", self._hold)
        patch.setattr(leases, "free", self._free)

    def serves(self, _queue: str, _type: str) -> bool:
        return True

    def room(self, _queue: str) -> int:
        return self.room_left

    def rooms(self, queues: list[str]) -> dict[str, int]:
        return dict.fromkeys(queues, self.room_left)

    def begin_page(self) -> None:
        self.room_left = 10

    def _rest(self) -> None:
        self.suspects.events_rest()

    def _changed(self) -> None:
        """Called after a change, as the processor of events is."""
        self.written.append(-1)

    async def _find(self, *_: Any) -> list[Suspected]:
        return self.waiting

    async def _claim(self, *asked: Any, alone: bool) -> list[Any]:
        group = asked[2]
        self.asked.append((group, alone))
        if group in self.blocked:
            return []
        self.waiting = [part for part in self.waiting if part.group != group]
        return [{"id": next(self.ids), "queue": "q", "crashes": 2, "fence": 1}]

    async def _end_alone(self, *asked: Any) -> None:
        self.written.append(asked[2])

    async def _hold(self, *_: Any) -> bool:
        self.leases.append("hold")
        return self.may_empty

    async def _free(self, *_: Any) -> None:
        self.leases.append("free")

    async def claim(self) -> list[Any]:
        """The commands that one page takes."""
        return await self.suspects.claim(Ask(-inf, ""), 10)


def test_groups_that_run_alone_come_last_and_only_due_ones_count() -> None:
    parts = [_part(A, alone=True), _part(B), _part(C, due=False), _part(B)]
    assert [(each.id, len(each.parts)) for each in grouped(parts)] == [(B, 2), (A, 1)]


def test_a_suspect_with_more_deaths_is_watched_for_longer() -> None:
    assert [time_of(n) for n in (1, 2, 3)] == [30, 60, 120]
    assert time_of(10_000) == 16 * 60, "a worker must not rest for days"


async def test_one_group_runs_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, _part(A), _part(B))
    (first,) = await site.claim()
    site.waiting.append(_part(A))
    (second,) = await site.claim()
    assert await site.claim() == [], "a death of either group would count for both"
    site.suspects.ended(first)
    assert await site.claim() == []
    site.suspects.ended(second)
    assert site.suspects.due
    assert len(await site.claim()) == 1
    assert [group for group, _ in site.asked] == [A, A, B]


async def test_a_group_that_survived_for_a_while_bars_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, _part(A), _part(B))
    await site.claim()
    site.now += time_of(2) - 1
    assert await site.claim() == []
    site.now += 1
    assert len(await site.claim()) == 1


async def test_a_suspect_alone_has_nothing_beside_it(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, _part(A, alone=True, since=1))
    site.in_flight = 3
    assert await site.claim() == []
    assert not site.suspects.exclusive, "for a moment it is left to idle workers"
    assert site.leases == []
    site.waiting = [_part(A, alone=True)]
    site.may_empty = False
    assert await site.claim() == []
    assert not site.suspects.exclusive, "another worker has the lease"
    site.may_empty = True
    assert await site.claim() == []
    assert site.suspects.exclusive
    site.in_flight, site.outcomes.waiting = 0, 1
    assert await site.claim() == [], "with unwritten outcomes it still holds rows"
    site.outcomes.waiting = 0
    assert await site.claim() == []
    assert site.exclusive_run.wanted, "events must rest first"
    site.exclusive_run.rest()
    site.room_left = 0  # the room when the page began
    (row,) = await site.claim()
    assert site.asked == [(A, True)]
    assert site.suspects.exclusive
    assert not site.suspects.due
    site.outcomes.waiting = 1
    site.suspects.ended(row)
    assert site.suspects.exclusive, "a death before the write would count against it"
    site.outcomes.waiting = 0
    site.suspects.written()
    assert not site.suspects.exclusive
    assert not site.exclusive_run.wanted


async def test_a_worker_continues_when_another_took_the_suspect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, _part(A, alone=True))
    site.in_flight = 3
    await site.claim()
    assert site.suspects.exclusive
    site.waiting = []
    await site.claim()
    assert not site.suspects.exclusive
    assert site.leases == ["hold", "free"]


async def test_a_group_that_cannot_run_does_not_block_a_suspect_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Like commands that stand behind a suspect of their key which must run alone."""
    site = Site(monkeypatch, _part(A), _part(B, alone=True))
    site.blocked = {A}
    await site.claim()
    assert site.exclusive_run.wanted
    site.exclusive_run.rest()
    assert len(await site.claim()) == 1
    assert site.asked[-1] == (B, True)


async def test_many_groups_that_cannot_run_hide_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    site = Site(monkeypatch, *(_part(uuid4()) for _ in range(25)), _part(A))
    site.blocked = {part.group for part in site.waiting} - {A}
    taken = [await site.claim() for _ in range(3)]
    assert [len(rows) for rows in taken] == [0, 0, 1]


async def test_a_suspect_that_cannot_run_alone_backs_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, _part(A, alone=True), _part(B, alone=True))
    site.blocked = {A}
    await site.claim()
    site.exclusive_run.rest()
    assert await site.claim() == []
    assert not site.exclusive_run.wanted
    assert not site.suspects.exclusive
    await site.claim()
    site.exclusive_run.rest()
    (other,) = await site.claim()
    assert site.asked == [(A, True), (B, True)], "other suspects do not wait for it"
    site.suspects.ended(other)
    waits = list[float]()
    for _ in range(10):
        began = site.now
        while not site.exclusive_run.wanted:
            site.now += 0.5
            await site.claim()
        site.exclusive_run.rest()
        assert await site.claim() == []
        waits.append(site.now - began)
    assert waits == sorted(waits)
    assert waits[-1] == 60


async def test_a_suspect_that_was_given_back_runs_alone_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The lease was not renewed for a while, for example: there may be no other worker."""
    site = Site(monkeypatch, _part(A, alone=True))
    await site.claim()
    site.exclusive_run.rest()
    (row,) = await site.claim()
    site.suspects.ended(row)
    site.waiting = [_part(A, alone=True)]
    await site.claim()
    assert site.exclusive_run.wanted


async def test_others_have_their_turn_between_two_suspects_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, _part(A, alone=True), _part(B, alone=True))
    await site.claim()
    site.exclusive_run.rest()
    (row,) = await site.claim()
    site.now += 20
    site.suspects.ended(row)
    await site.claim()
    assert not site.exclusive_run.wanted
    assert not site.suspects.exclusive
    site.now += 20
    await site.claim()
    assert site.exclusive_run.wanted


async def test_a_lease_whose_answer_was_lost_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise no other worker could ever empty itself for a suspect that only it handles."""
    site = Site(monkeypatch, _part(A, alone=True))
    site.in_flight = 3
    await site.claim()
    site.suspects.forget()
    site.waiting = []
    await site.claim()
    assert site.leases == ["hold", "free"]


async def test_a_death_beside_an_abandoned_thread_counts_for_no_suspect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Site(monkeypatch, _part(A, alone=True))
    site.executions.left_behind = True
    await site.claim()
    site.exclusive_run.rest()
    assert len(await site.claim()) == 1
    assert site.asked == [(A, False)]


async def test_a_survived_run_alone_is_written_before_others_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_WATCH_SECONDS", 0.01)
    site = Site(monkeypatch, _part(A, alone=True))
    await site.claim()
    site.exclusive_run.rest()
    (row,) = await site.claim()
    call, argument = site.tasks.start_soon.call_args.args
    site.written.clear()
    with bounded():
        await call(argument)
    assert site.written == [row["id"], -1]
    assert not site.suspects.exclusive
