"""Lost connections: a row is excused the first times, and blamed for all later ones."""

from inboxd.engine.forgiveness import LossExemptions


def test_a_row_that_was_blamed_has_no_new_excuses() -> None:
    losses = LossExemptions(3)
    assert [losses.excuse(7) for _ in range(6)] == [True, True, False, False, False, False]
    assert losses.excuse(8), "each row has its own excuses"
