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


def row(number: int) -> Any:
    return {"id": number}


def test_one_of_a_key_starts_as_another_succeeds() -> None:
    chains = Chains()
    assert ids(chains.begin(rows("a1", "b2", "a3", "a4"), 1)) == [1, 2]
    assert (chains.full(A, 1), chains.full(Key("q", "c"), 1)) == (True, False)
    following, back = chains.end(row(1), well=True)
    assert (ids(following), back) == ([3], [])
    following, _ = chains.end(row(3), well=True)
    assert ids(following) == [4]
    assert chains.ended == [], "a has not come to its end"
    assert chains.end(row(4), well=True) == ([], [])
    assert chains.end(row(4), well=True) == ([], []), "once"
    assert chains.ended == [(A, 4)]
    assert (chains.full(A, 1), chains.full(B, 1)) == (False, True)


def test_what_stands_behind_a_failure_goes_back() -> None:
    chains = Chains()
    chains.begin(rows("a1", "a2", "a3", "b4", "b5"), 1)
    following, back = chains.end(row(1), well=False)
    assert (following, ids(back)) == ([], [2, 3])
    assert chains.ended == [(A, 1)]
    assert ids(chains.end(row(4), well=True)[0]) == [5], "another key goes on"


def test_of_a_wide_key_several_run_and_a_failure_holds_up_nobody() -> None:
    chains = Chains()
    assert ids(chains.begin(rows("a1", "a2", "a3"), 2)) == [1, 2]
    following, back = chains.end(row(1), well=False)
    assert (ids(following), back) == ([3], [])
    assert chains.full(A, 2)
    chains.end(row(3), well=True)
    assert not chains.full(A, 2)
    assert chains.ended == [(A, 3)], "there is room beside the one that goes on"
    chains.begin(rows("a4"), 2)
    assert chains.full(A, 2), "two runs of one row each"


def test_a_key_is_asked_again_when_its_end_is_written() -> None:
    chains = Chains()
    chains.begin(rows("a1", "b2"), 1)
    for number in (1, 2):
        chains.end(row(number), well=True)
    assert list(chains.written({2})) == [A]
    assert list(chains.written({2})) == []
    assert list(chains.written(set())) == [B]


def test_what_waits_for_long_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    chains = Chains()
    chains.begin(rows("a1", "a2", "a3"), 1)
    assert chains.stale() == []
    now += 1.1
    assert ids(chains.stale()) == [2, 3]
    assert chains.stale() == []
    assert chains.end(row(1), well=True) == ([], [])
    assert chains.ended == [(A, 1)]


def test_what_is_taken_out_does_not_start() -> None:
    chains = Chains()
    chains.begin(rows("a1", "a2", "a3", "a4", "b5", "b6"), 1)
    assert ids(chains.remove(frozenset({2, 5}))) == [2], "5 has started"
    given_back = chains.give_back(lambda row: row["id"] == 3)
    assert ids(given_back) == [3, 4], "with what stands behind it"
    assert chains.end(row(1), well=True) == ([], [])
    assert ids(chains.end(row(5), well=True)[0]) == [6]
