"""How exact a sum is."""

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
def test_a_sum_of_which_rows_may_be_missing_is_at_least_so_many(
    one: Exactness, other: Exactness, sum_: Exactness
) -> None:
    """Five million wait, ten thousand of them were counted: a total that says "about" would lie."""
    assert Number(20_000, one).plus(Number(10_000, other)) == Number(30_000, sum_)
    assert Number(20_000, other).plus(Number(10_000, one)) == Number(30_000, sum_)
