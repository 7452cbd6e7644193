"""The picture of a row's states: its moves are those of the model; the row's state is marked."""

from itertools import product
from typing import get_args

import pytest

from inboxd.admin.screens.states import RowState, drawing, state_of, why
from inboxd.model.lifecycle import KEYED, TRANSITIONS, Status
from inboxd.telemetry.tally import Kind

KINDS: tuple[str, ...] = get_args(Kind)
STATES = [
    RowState(kind, status, in_line)
    for kind, in_line, status in product(KINDS, (False, True), Status)
    if status in RowState(kind, status, in_line).places
]


def _say(text: str, **_: object) -> str:
    return text


def test_the_moves_of_both_kinds_together_are_the_legal_ones() -> None:
    moves = {move for kind in KINDS for move in RowState(kind, Status.PENDING).moves}
    legal = {(old, new) for old, news in TRANSITIONS.items() for new in news if old is not new}
    assert moves == legal


def test_an_event_does_not_run_and_a_command_runs_before_it_succeeds() -> None:
    event, command = (RowState(kind, Status.PENDING) for kind in ("event", "command"))
    assert Status.RUNNING not in event.places
    assert (Status.PENDING, Status.SUCCEEDED) in event.moves
    ways = {old for old, new in command.moves if new is Status.SUCCEEDED}
    assert ways == {Status.RUNNING}


@pytest.mark.parametrize("kind", KINDS)
def test_a_row_in_a_line_waits_instead_of_being_pending(kind: str) -> None:
    state = RowState(kind, Status.WAITING, in_line=True)
    assert Status.PENDING not in state.places
    assert (Status.FAILED, Status.WAITING) in state.moves, "a replay"
    if kind == "command":
        assert state.moves >= KEYED
    left = state_of(kind, "pending", in_line=True, is_settled=False)
    assert Status.PENDING in left.places


def test_nothing_follows_a_settled_row() -> None:
    assert RowState("command", Status.FAILED).nexts == [Status.PENDING, Status.DISMISSED]
    replayed = state_of("command", "failed", in_line=False, is_settled=True)
    assert replayed.nexts == []
    assert 'class="arrow next"' not in drawing(replayed, _say)
    for status in (Status.SUCCEEDED, Status.CANCELLED, Status.DISMISSED):
        assert RowState("command", status).nexts == []


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_drawing_has_each_state_and_move_and_marks_one(state: RowState) -> None:
    drawn = drawing(state, _say)
    assert "style=" not in drawn
    for status in state.places:
        assert f'href="#icon-{status}"' in drawn
        assert f">{status}</text>" in drawn
    assert drawn.count('<path class="arrow') == len(state.moves)
    assert drawn.count('<path class="arrow next"') == len(state.nexts)
    assert drawn.count(" here") == 2, "its class, and the words"
    assert f'class="node {state.status} here"' in drawn
    assert len({*state.places.values()}) == len(state.places), "no state covers another"


@pytest.mark.parametrize("state", STATES, ids=str)
def test_each_move_has_a_reason(state: RowState) -> None:
    told = {why(state.status, new, _say) for new in state.nexts}
    assert all(told)
    assert len(told) == len(state.nexts), "each has its own"
