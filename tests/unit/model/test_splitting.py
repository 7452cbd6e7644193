"""Pieces and page sizes: which part comes next after a failure, and how large it is."""

from collections.abc import Callable, Sequence
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.model.splitting import PageSize, Pieces

Split = Callable[[Pieces[Sequence[int]], Sequence[int]], bool]
SPLITS: tuple[Split, ...] = (Pieces.halve, Pieces.separate)


def _run(pieces: Pieces[Sequence[int]], guilty: set[int], split: Split) -> list[Sequence[int]]:
    """The parts in their order; a part with a guilty row fails, and a single row is given up."""
    seen = []
    for part in pieces:
        seen.append(part)
        if not guilty.isdisjoint(part):
            split(pieces, part)
    return seen


def test_halves_come_before_other_parts_and_the_first_half_first() -> None:
    seen = _run(Pieces([1, 2, 3, 4], [5, 6]), {2}, Pieces.halve)
    assert seen == [[1, 2, 3, 4], [1, 2], [1], [2], [3, 4], [5, 6]]


def test_smaller_half_of_an_odd_part_comes_first() -> None:
    assert _run(Pieces([1, 2, 3]), {3}, Pieces.halve) == [[1, 2, 3], [1], [2, 3], [2], [3]]


def test_separated_rows_come_one_by_one() -> None:
    assert _run(Pieces([1, 2, 3], [4]), {1}, Pieces.separate) == [[1, 2, 3], [1], [2], [3], [4]]


@pytest.mark.parametrize("part", [[], [1]])
@pytest.mark.parametrize("split", SPLITS)
def test_single_row_is_not_split(split: Split, part: list[int]) -> None:
    pieces: Pieces[Sequence[int]] = Pieces()
    assert not split(pieces, part)
    assert list(pieces) == []


@given(
    st.lists(st.integers(0, 40), max_size=6), st.sets(st.integers(0, 100)), st.sampled_from(SPLITS)
)
def test_each_row_goes_well_or_fails_alone_once_and_in_order(
    sizes: list[int], guilty: set[int], split: Split
) -> None:
    rows = list(range(sum(sizes)))
    parts = [rows[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]
    seen = _run(Pieces(*parts), guilty, split)
    ended = [part for part in seen if guilty.isdisjoint(part) or len(part) == 1]
    assert [row for part in ended for row in part] == rows
    # A binary tree with one leaf for each row at most, or a page and its rows.
    assert len(seen) <= len(parts) + 2 * len(rows)


def test_postponed_parts_come_last_in_their_order_and_are_not_more() -> None:
    pieces = Pieces("a", "b", "c")
    seen = []
    for part in pieces:
        seen.append((part, pieces.more))
        if part in "ab":
            pieces.postpone(part.upper())
    assert seen == [("a", True), ("b", True), ("c", False), ("A", False), ("B", False)]


def test_part_may_come_again_at_once() -> None:
    pieces = Pieces("a", "b")
    seen = []
    for part in pieces:
        seen.append(part)
        if len(seen) == 1:
            pieces.next(part, "a2")
    assert seen == ["a", "a", "a2", "b"]


def test_size_is_half_of_a_failed_page_and_never_below_the_fewest() -> None:
    size = PageSize(100, 100, fewest=10)
    size.failed(60)
    assert size.now == 30
    size.failed(12)
    assert size.now == 10


def test_each_success_doubles_the_size_up_to_the_most() -> None:
    size = PageSize(25, 80)
    seen = []
    for _ in range(3):
        size.went_well()
        seen.append(size.now)
    assert seen == [50, 80, 80]


@pytest.mark.parametrize(("rows", "now"), [(3, 8), (4, 8), (5, 4), (64, 4)])
def test_success_of_a_page_that_is_larger_than_the_size_proves_nothing(rows: int, now: int) -> None:
    size = PageSize(64, 64)
    size.failed(8)
    size.went_well(rows)
    assert size.now == now
