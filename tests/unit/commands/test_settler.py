"""The settler: its count of written outcomes, and executions that count when they are written."""

from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import anyio
import pytest

from inboxd.commands import settler as module
from inboxd.commands.ended import EndedCommand, expired
from inboxd.commands.settler import Settler
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.errors import DedupKeyHeld
from inboxd.store import batches, commands, emitted
from inboxd.store.settlements import Requeue, Settlement
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


def _settler(outcomes: UnwrittenOutcomes) -> tuple[Settler, Any]:
    """A settler, and its parts; a refused outcome becomes a dead letter."""
    parts: Any = MagicMock(pool=MagicMock(preamble=""))
    parts.fleet.differs, parts.fleet.peers = False, 0
    return Settler(parts, outcomes, MagicMock(refused=_dead), MagicMock()), parts


def _dead(ended: EndedCommand, _error: Exception) -> EndedCommand:
    again = Requeue(ended.outcome.id, "failed", spent=1, fence=ended.outcome.fence)
    return EndedCommand(ended.row, again, counts="failed", seconds=ended.seconds)


async def test_an_outcome_that_was_refused_counts_once_its_dead_letter_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is lost in between."""
    outcomes = UnwrittenOutcomes()
    settler, _ = _settler(outcomes)
    errors: list[Exception | None] = [ValueError("refused"), ConnectionError("away"), None]
    seen: list[tuple[type, int]] = []

    async def write(part: list[EndedCommand]) -> None:
        seen.append((type(part[0].outcome), outcomes.through))
        if (error := errors.pop(0)) is not None:
            raise error

    monkeypatch.setattr(module, "_PAUSE", 0.001)
    monkeypatch.setattr(settler, "_write", write)
    row: Any = {"id": 1, "type": "t", "attempts": 0}
    outcomes.hand_over(EndedCommand(row, Settlement(1, 1, "succeeded", 0.0, None)))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(settler.run)
        with bounded():
            await outcomes.flush()
        tasks.cancel_scope.cancel()
    assert seen == [(Settlement, 0), (Requeue, 0), (Requeue, 0)]
    assert (outcomes.through, outcomes.handed_over) == (1, 1)


@pytest.mark.parametrize(("emitters", "last"), [({2}, []), ({2, 3}, [{2}, {3}])])
async def test_only_outcomes_that_emit_wait_for_a_held_dedup_key(
    monkeypatch: pytest.MonkeyPatch, emitters: set[int], last: list[set[int]]
) -> None:
    """If one outcome emitted, its key is waited for once; of several, each waits by itself."""
    outcomes = UnwrittenOutcomes()
    settler, _ = _settler(outcomes)
    waited: list[set[int]] = []
    written: list[tuple[type, int]] = []

    async def write(part: list[EndedCommand]) -> None:
        if any(ended.emitted for ended in part):
            waited.append({ended.outcome.id for ended in part})
            if any(ended.outcome.id == 2 and ended.emitted for ended in part):
                raise DedupKeyHeld
        written.extend((type(ended.outcome), ended.outcome.id) for ended in part)

    monkeypatch.setattr(settler, "_write", write)
    an_event: Any = ("draft", "parent")
    for id_ in (1, 2, 3, 4):
        row: Any = {"id": id_, "type": "t", "attempts": 0}
        ended = Settlement(id_, 1, "succeeded", 0.0, None)
        outcomes.hand_over(EndedCommand(row, ended, emitted=[an_event] if id_ in emitters else []))
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(settler.run)
        with bounded():
            await outcomes.flush()
        tasks.cancel_scope.cancel()
    assert waited == [{1, 2, 3, 4}, *last]
    assert [id_ for _, id_ in written[-len(emitters) :]] == sorted(emitters)
    assert [id_ for kind, id_ in written if kind is Requeue] == [2]
    assert {id_ for _, id_ in written} == {1, 2, 3, 4}


@asynccontextmanager
async def _lend(*_: object) -> AsyncIterator[None]:
    yield None


class Counted:
    """A settler whose database refuses the settlements of some rows, and has lost others."""

    def __init__(self, patch: pytest.MonkeyPatch, refuses: Collection[int] = ()) -> None:
        self.refuses, self.lost = refuses, set[int]()
        self.outcomes = UnwrittenOutcomes()
        self.settler, parts = _settler(self.outcomes)
        self._adds = parts.metrics.tally.add
        self.stories = parts.metrics.tally.end_story
        self.expired = parts.metrics.count_expired
        patch.setattr(module, "lend", _lend)
        patch.setattr(module, "transaction", _lend)
        patch.setattr(commands, "end", self._end)
        for each in (batches, emitted):
            patch.setattr(each, "write", self._no_children)

    async def _end(
        self, _: object, _me: object, ends: list[Settlement], requeues: list[Requeue]
    ) -> set[int]:
        ids = {each.id for each in ends}
        if ids & set(self.refuses):
            raise ValueError("refused")
        return (ids | {each.id for each in requeues}) - self.lost

    async def _no_children(self, *_: object) -> list[int]:
        return []

    @property
    def counts(self) -> list[tuple[str, float]]:
        """The outcomes that were counted, with their seconds."""
        return [call.args[2:4] for call in self._adds.call_args_list]

    async def settle(self, *ends: EndedCommand) -> list[str]:
        """Settle these, and wait for the writes; returns the ends of their runs."""
        found: list[str] = []

        async def settle(ended: EndedCommand) -> None:
            found.append(await self.settler.settle(ended))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self.settler.run)
            with bounded():
                async with anyio.create_task_group() as settling:
                    for ended in ends:
                        settling.start_soon(settle, ended)
                await self.outcomes.flush()
            tasks.cancel_scope.cancel()
        return found


def _succeeded(id_: int, key: str | None = None, *, sends: bool = False) -> EndedCommand:
    none = dict.fromkeys(("batch_id", "correlation_id", "tenant", "causation_id"))
    names = {"type": "t", "queue": "q", "ordering_key": key, "command_id": uuid4()}
    zero = {"waited": 0.0, "age": 0.0, "attempts": 0, "replayed": False, "awaited": False}
    row: Any = none | names | zero | {"id": id_, "fence": 1}
    child: Any = ("draft", "parent")
    sent = [child] if sends else []
    settlement = Settlement(id_, 1, "succeeded", 0.5, None)
    return EndedCommand(row, settlement, sent, (), (), None, "succeeded", 0.5, "succeeded")


async def test_an_execution_counts_when_its_outcome_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Counted(monkeypatch)
    site.outcomes.hand_over(_succeeded(1))
    assert site.counts == []
    assert await site.settle(_succeeded(2), _succeeded(3, sends=True)) == ["succeeded"] * 2
    assert site.counts == [("succeeded", 0.5)] * 3
    assert site.stories.call_count == 2, "a story goes on with the command that was sent"


async def test_an_expired_command_counts_when_its_end_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a lost lease it may run elsewhere after all."""
    site = Counted(monkeypatch)
    site.lost = {2}
    await site.settle(*(expired(_succeeded(id_).row) for id_ in (1, 2)))
    site.expired.assert_called_once_with("q", "t")
    assert site.counts == []


async def test_a_refused_outcome_counts_once_as_what_it_became(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    site = Counted(monkeypatch, refuses={2, 4})
    ends = await site.settle(
        *(_succeeded(1), _succeeded(2), _succeeded(3), _succeeded(4, "k", sends=True))
    )
    assert sorted(site.counts) == [("failed", 0.5)] * 2 + [("succeeded", 0.5)] * 2
    assert ends.count("unsuccessful") == 1, "the next command of the key must not start"
    assert site.stories.call_count == 2


@pytest.mark.parametrize("sends", [False, True])
async def test_a_lost_lease_counts_where_the_command_runs_again(
    monkeypatch: pytest.MonkeyPatch, sends: bool
) -> None:
    site = Counted(monkeypatch)
    site.lost = {1}
    await site.settle(_succeeded(1, "k", sends=sends), _succeeded(2))
    assert site.counts == [("succeeded", 0.5)]
