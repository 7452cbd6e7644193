"""The settler's count of written outcomes, by which keys are asked again."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import anyio
import pytest

from inboxd.commands import settler as module
from inboxd.commands.ended import EndedCommand
from inboxd.commands.settler import Settler
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.errors import DedupKeyHeld
from inboxd.model.outcome import Dead, explain
from inboxd.store.settlements import Requeue, Settlement
from tests.support.waiting import bounded

pytestmark = pytest.mark.anyio


def _settler(parts: Any, outcomes: UnwrittenOutcomes) -> Settler:
    return Settler(
        parts,
        outcomes,
        MagicMock(outcome=lambda _row, error: Dead(explain(error))),
        MagicMock(),
    )


async def test_an_outcome_that_was_refused_counts_once_its_dead_letter_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The connection is lost in between."""
    parts: Any = SimpleNamespace(
        me=SimpleNamespace(id=uuid4(), process="host:1", release=None),
        hooks=SimpleNamespace(want_failures=False),
    )
    outcomes = UnwrittenOutcomes()
    settler = _settler(parts, outcomes)
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
    parts: Any = SimpleNamespace(
        me=SimpleNamespace(id=uuid4(), process="host:1", release=None),
        hooks=SimpleNamespace(want_failures=False),
    )
    outcomes = UnwrittenOutcomes()
    settler = _settler(parts, outcomes)
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
