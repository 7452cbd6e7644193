"""The sum of the daily statement holds before and after a day is closed."""

from collections import Counter
from datetime import date

from hypothesis import given
from hypothesis import strategies as st

from inboxd.model.daily_statement import (
    FATES,
    MISSING,
    TOO_MANY,
    Fates,
    LineKey,
    StatementLine,
    add_up,
    differences,
    fate_of,
)

DAY, NEXT = date(2026, 1, 31), date(2026, 2, 1)
SHOP = LineKey(DAY, "shop")

_FATES = st.dictionaries(st.sampled_from(FATES), st.integers(0, 9)).map(Counter)


def _line(found: dict[LineKey, StatementLine]) -> StatementLine:
    (line,) = found.values()
    return line


def _closed(fates: Fates, moves: int = 0, duplicates: int = 0) -> StatementLine:
    """The line at the moment when its day is closed."""
    again = {SHOP: duplicates} if duplicates else {}
    moved = {SHOP: moves}
    return _line(add_up([], [DAY], counted={}, fates=fates, moves=moved, duplicates=again))


@given(first=_FATES, then=_FATES, moved=st.integers(0, 5), more=st.integers(0, 5))
def test_missing_and_surplus_rows_are_the_difference(
    first: Counter[str], then: Counter[str], moved: int, more: int
) -> None:
    """Events sent to further topics and late duplicates make no difference."""
    line = _closed({SHOP: first}, moves=moved)
    assert line.difference == 0
    assert line.received == first.total()
    then["open"] += more
    after = add_up(
        [DAY],
        [],
        counted={SHOP: line.counted},
        fates={SHOP: then},
        moves={SHOP: moved + more},
        duplicates={SHOP: 7},
    )
    lost = first.total() + more - then.total()
    assert _line(after).difference == lost
    assert _line(after).received == first.total() + more + 7
    found = [(each.what, each.rows) for each in differences(after)]
    assert found == ([(MISSING if lost > 0 else TOO_MANY, abs(lost))] if lost else [])


def test_line_without_remaining_rows_is_missing_completely() -> None:
    found = add_up([DAY], [], counted={SHOP: 3}, fates={}, moves={}, duplicates={})
    assert [each[:4] for each in differences(found)] == [(DAY, "shop", MISSING, 3)]


def test_days_that_are_not_over_have_no_line() -> None:
    fates = {SHOP: Counter(open=1), LineKey(NEXT, "shop"): Counter(open=2)}
    found = add_up([], [DAY], counted={}, fates=fates, moves={}, duplicates={})
    assert list(found) == [SHOP]


def test_dead_letter_that_was_sent_again_stays_dead() -> None:
    assert [fate_of(status) for status in ("failed", "succeeded", "erased")] == [
        *("dead", "succeeded", "erased")
    ]
