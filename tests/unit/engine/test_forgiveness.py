"""Lost connections: a row is excused the first times, and blamed for all later ones."""

import pytest

from inboxd.engine.forgiveness import LossExemptions


def test_a_row_that_was_blamed_has_no_new_excuses() -> None:
    losses = LossExemptions(3)
    assert [losses.excuse(7) for _ in range(6)] == [True, True, False, False, False, False]
    assert losses.excuse(8), "each row has its own excuses"


@pytest.mark.parametrize(("limit", "excused"), [(1, 1), (2, 1), (3, 2), (5, 4)])
def test_the_limit_says_which_loss_counts(limit: int, excused: int) -> None:
    losses = LossExemptions(limit)
    assert [losses.excuse(7) for _ in range(6)] == [True] * excused + [False] * (6 - excused)
