"""The exactness of sums."""

import pytest

from inboxd.operations.totals import Exactness, Number

EXACT, ABOUT, AT_LEAST = Exactness.EXACT, Exactness.ABOUT, Exactness.AT_LEAST


@pytest.mark.parametrize(
    ("one", "other", "sum_"),
    [
        (EXACT, EXACT, EXACT),
        (EXACT, ABOUT, ABOUT),
        (EXACT, AT_LEAST, AT_LEAST),
        (ABOUT, ABOUT, ABOUT),
        (ABOUT, AT_LEAST, AT_LEAST),
        (AT_LEAST, AT_LEAST, AT_LEAST),
    ],
)
def test_sum_with_an_incomplete_part_is_at_least(
    one: Exactness, other: Exactness, sum_: Exactness
) -> None:
    """If 10,000 of five million waiting rows are counted, the total must not say "about"."""
    assert Number(20_000, one).plus(Number(10_000, other)) == Number(30_000, sum_)
    assert Number(20_000, other).plus(Number(10_000, one)) == Number(30_000, sum_)
