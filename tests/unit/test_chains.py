"""Runs of commands of one ordering key: what starts, what goes back, which keys are asked again."""

from typing import Any

import pytest

from inboxd.runtime import chains as module
from inboxd.runtime.chains import Chains, Key

A, B = Key("q", "a"), Key("q", "b")


def rows(*names: str) -> list[Any]:
    """Rows such as "a1": the key and the id."""
    return [{"id": int(n[1:]), "queue": "q", "ordering_key": n[0]} for n in names]


def ids(found: list[Any]) -> list[int]:
    return [row["id"] for row in found]


def end(chains: Chains, number: int, *, well: bool) -> tuple[int | None, list[int]]:
    """This row ended, as the outcome with its number."""
    following, back = chains.end({"id": number}, number, well=well)  # type: ignore[arg-type]
    return (None if following is None else following["id"]), ids(back)


def test_one_of_a_key_starts_as_another_succeeds() -> None:
    chains = Chains()
    assert ids(chains.begin(rows("a1", "b2", "a3", "a4"), 1)) == [1, 2]
    assert (chains.full(A, 1), chains.full(Key("q", "c"), 1)) == (True, False)
    assert end(chains, 1, well=True) == (3, [])
    assert end(chains, 3, well=True) == (4, [])
    assert not chains.ended, "a has not come to its end"
    assert end(chains, 4, well=True) == (None, [])
    assert end(chains, 4, well=True) == (None, []), "once"
    assert list(chains.ended) == [(A, 4)]
    assert (chains.full(A, 1), chains.full(B, 1)) == (False, True)


def test_what_stands_behind_a_failure_goes_back() -> None:
    chains = Chains()
    chains.begin(rows("a1", "a2", "a3", "b4", "b5"), 1)
    assert end(chains, 1, well=False) == (None, [2, 3])
    assert list(chains.ended) == [(A, 1)]
    assert end(chains, 4, well=True) == (5, []), "another key goes on"


def test_of_a_wide_key_several_run_and_a_failure_holds_up_nobody() -> None:
    chains = Chains()
    assert ids(chains.begin(rows("a1", "a2", "a3"), 2)) == [1, 2]
    assert end(chains, 1, well=False) == (3, [])
    assert chains.full(A, 2)
    end(chains, 3, well=True)
    assert not chains.full(A, 2)
    assert list(chains.ended) == [(A, 3)], "there is room beside the one that goes on"
    chains.begin(rows("a4"), 2)
    assert chains.full(A, 2), "two runs of one row each"


def test_a_key_is_asked_again_when_its_end_is_written() -> None:
    chains = Chains()
    chains.begin(rows("a1", "b2"), 1)
    for number in (1, 2):
        end(chains, number, well=True)
    assert list(chains.written(0)) == []
    assert list(chains.written(1)) == [A]
    assert list(chains.written(1)) == [], "once"
    assert list(chains.written(9)) == [B]


def test_what_waits_for_long_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    chains = Chains()
    chains.begin(rows("a1", "a2", "a3"), 1)
    assert chains.stale() == []
    now += 1.1
    assert ids(chains.stale()) == [2, 3]
    assert chains.stale() == []
    assert end(chains, 1, well=True) == (None, [])
    assert list(chains.ended) == [(A, 1)]


def test_what_is_taken_out_does_not_start() -> None:
    chains = Chains()
    chains.begin(rows("a1", "a2", "a3", "a4", "b5", "b6"), 1)
    assert ids(chains.remove(frozenset({2, 5}))) == [2], "5 has started"
    given_back = chains.give_back(lambda row: row["id"] == 3)
    assert ids(given_back) == [3, 4], "with what stands behind it"
    assert end(chains, 1, well=True) == (None, [])
    assert end(chains, 5, well=True) == (6, [])
