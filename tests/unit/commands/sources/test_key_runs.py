"""Runs of commands of one ordering key: which start, which go back, which keys are asked again."""

from typing import Any

import pytest

from inboxd.commands.sources import key_runs as module
from inboxd.commands.sources.key_runs import KeyRuns, QueueKey

A, B = QueueKey("q", "a"), QueueKey("q", "b")


def one(_queue: str) -> int:
    """A strict key: one command at a time."""
    return 1


def rows(*names: str) -> list[Any]:
    """Rows by names such as "a1": the key and the id."""
    return [{"id": int(n[1:]), "queue": "q", "ordering_key": n[0]} for n in names]


def begin(runs: KeyRuns, *names: str, through: int = 0) -> list[int]:
    """Begin runs of these rows; returns the ids of those that start."""
    first, back = runs.begin(rows(*names), through)
    assert not back
    return ids(first)


def ended(runs: KeyRuns) -> list[tuple[QueueKey, int]]:
    """The keys that have room, each with the outcome that must be written first."""
    return [(run.key, number) for run, number in runs.ended]


def many(name: str, first: int, last: int) -> list[str]:
    """Names of rows of one key."""
    return [f"{name}{n}" for n in range(first, last + 1)]


def ids(found: list[Any]) -> list[int]:
    return [row["id"] for row in found]


def end(runs: KeyRuns, number: int, *, well: bool) -> tuple[int | None, list[int]]:
    """End a row, with its number as that of the outcome; returns rows that start and go back."""
    following, back = runs.end({"id": number}, number, well=well)  # type: ignore[typeddict-item]
    return (None if following is None else following["id"]), ids(back)


def test_one_of_a_key_starts_as_another_succeeds() -> None:
    runs = KeyRuns(one)
    assert begin(runs, "a1", "b2", "a3", "a4") == [1, 2]
    assert (runs.full(A), runs.full(QueueKey("q", "c"))) == (True, False)
    assert end(runs, 1, well=True) == (3, [])
    assert end(runs, 3, well=True) == (4, [])
    assert not runs.ended, "the run of a has not ended"
    assert end(runs, 4, well=True) == (None, [])
    assert end(runs, 4, well=True) == (None, []), "a row ends once"
    assert ended(runs) == [(A, 4)]
    assert (runs.full(A), runs.full(B)) == (False, True)


def test_rows_behind_a_failure_go_back() -> None:
    runs = KeyRuns(one)
    begin(runs, "a1", "a2", "a3", "b4", "b5")
    assert end(runs, 1, well=False) == (None, [2, 3])
    assert ended(runs) == [(A, 3)], "asked again once both are back in their line"
    assert end(runs, 4, well=True) == (5, []), "the other key continues"


def test_several_rows_of_a_wide_key_run_and_a_failure_delays_none() -> None:
    runs = KeyRuns(lambda _: 2)
    assert begin(runs, "a1", "a2", "a3") == [1, 2]
    assert end(runs, 1, well=False) == (3, [])
    assert runs.full(A)
    end(runs, 3, well=True)
    assert not runs.full(A)
    assert ended(runs) == [(A, 3)], "there is room beside the other run"
    begin(runs, "a4")
    assert runs.full(A), "both runs have one row"


def test_a_key_is_asked_again_when_its_end_is_written() -> None:
    runs = KeyRuns(one)
    begin(runs, "a1", "b2")
    for number in (1, 2):
        end(runs, number, well=True)
    assert list(runs.written(0)) == []
    assert list(runs.written(1)) == [A]
    assert list(runs.written(1)) == [], "a key is asked once"
    assert list(runs.written(9)) == [B]


def test_rows_that_wait_for_long_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    runs = KeyRuns(one)
    begin(runs, "a1", "a2", "a3")
    assert runs.stale() == []
    now += 1.1
    assert ids(runs.stale()) == [2, 3]
    assert runs.stale() == []
    assert end(runs, 1, well=True) == (None, [])
    assert ended(runs) == [(A, 1)]


def test_rows_that_are_taken_out_do_not_start() -> None:
    runs = KeyRuns(one)
    begin(runs, "a1", "a2", "a3", "a4", "b5", "b6")
    assert ids(runs.remove(frozenset({2, 5}))) == [2], "5 has started already"
    given_back = runs.give_back(lambda row: row["id"] == 3)
    assert ids(given_back) == [3, 4], "with the row behind it"
    assert end(runs, 1, well=True) == (None, [])
    assert end(runs, 5, well=True) == (6, [])


def test_a_run_is_lengthened_while_it_goes_on() -> None:
    runs = KeyRuns(one)
    begin(runs, *many("a", 1, 16), "b20")
    assert runs.expect("q", 14, 9) == [], "a has too many rows left, and b gave only one"
    assert runs.expect("other", 15, 9) == []
    assert runs.expect("q", 15, 9) == ["a"]
    assert begin(runs, "a17", "a18") == [], "both wait for their turn"
    runs.expect_no_more(0)
    for number in range(1, 18):
        assert end(runs, number, well=True) == (number + 1, [])
    assert runs.expect("q", 99, 9) == [], "it gave two rows: there are hardly more"
    assert end(runs, 18, well=True) == (None, [])
    assert ended(runs) == [(A, 18)]


def test_an_ended_run_waits_for_its_claim() -> None:
    runs = KeyRuns(one)
    begin(runs, *many("a", 1, 16), *many("b", 21, 36))
    assert runs.expect("q", 15, 9) == ["a", "b"]
    for number in (*range(1, 17), *range(21, 37)):
        end(runs, number, well=True)
    assert runs.full(A)
    assert not ended(runs), "both runs still expect rows"
    assert begin(runs, "a17", "a18") == [17]
    runs.expect_no_more(40)
    assert ended(runs) == [(B, 40)]
    assert (runs.full(A), runs.full(B)) == (True, False)


def test_a_run_continues_before_its_end_is_written() -> None:
    runs = KeyRuns(one)
    begin(runs, *many("a", 1, 16), *many("b", 21, 36))
    for number in range(1, 17):
        end(runs, number, well=True)
    assert ended(runs) == [(A, 16)]
    assert runs.expect("q", 0, 1) == ["a"], "at most one key"
    assert runs.full(A)
    assert not ended(runs)
    assert begin(runs, *many("a", 41, 57)) == [41]
    runs.expect_no_more(16)
    assert list(runs.written(16)) == [], "its run has not ended, so it is not asked again"
    other = KeyRuns(one)
    begin(other, *many("a", 1, 16))
    for number in range(1, 17):
        end(other, number, well=True)
    begin(other, "a17")
    assert other.expect("q", 99, 9) == [], "the database has already given more of its line"


@pytest.mark.parametrize("way", ["failed", "stale", "given back"])
@pytest.mark.parametrize("when", ["before it ends", "after it ended"])
def test_rows_that_are_leased_behind_a_gap_go_back(
    monkeypatch: pytest.MonkeyPatch, way: str, when: str
) -> None:
    now = 100.0
    monkeypatch.setattr(module, "monotonic", lambda: now)
    runs = KeyRuns(one)
    begin(runs, *many("a", 1, 16))
    assert runs.expect("q", 99, 9) == ["a"]
    if way == "failed":
        assert end(runs, 1, well=False) == (None, [*range(2, 17)])
    elif way == "stale":
        now += 1.1
        assert ids(runs.stale()) == [*range(2, 17)]
    else:
        assert ids(runs.give_back(lambda row: row["id"] == 9)) == [*range(9, 17)]
        for number in range(1, 8):
            end(runs, number, well=True)
    if way != "failed" and when == "after it ended":
        end(runs, 8 if way == "given back" else 1, well=True)
    first, back = runs.begin(rows("a17", "a18"), 20)
    assert (first, ids(back)) == ([], [17, 18])
    if way != "failed" and when == "before it ends":
        assert not ended(runs)
        end(runs, 8 if way == "given back" else 1, well=True)
        assert [key for key, _ in ended(runs)] == [A]
    else:
        assert ended(runs) == [(A, 22)], "asked again once both are back in their line"
    assert runs.expect("q", 99, 9) == []


def test_a_run_is_not_lengthened_after_a_lost_answer() -> None:
    runs = KeyRuns(one)
    begin(runs, *many("a", 1, 16))
    assert runs.expect("q", 99, 9) == ["a"]
    runs.expect_no_more(0)
    assert runs.expect("q", 99, 9) == []
    assert end(runs, 1, well=True) == (2, []), "its run continues"


def test_a_run_beside_one_that_is_lengthened_leaves_its_place() -> None:
    runs = KeyRuns(one)
    begin(runs, "a1")
    begin(runs, *many("a", 2, 17))  # the database knew the end of a1 before the worker did
    assert runs.expect("q", 99, 9) == ["a"]
    for number in range(1, 18):
        end(runs, number, well=True)
    runs.expect_no_more(17)
    assert not runs.full(A)
    assert [key for key, _ in ended(runs)] == [A, A]
