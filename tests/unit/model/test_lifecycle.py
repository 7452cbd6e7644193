"""The table of legal moves is complete, and settled statuses have no moves."""

from itertools import product

import pytest

from inboxd.model.lifecycle import HOT, SETTLED, TRANSITIONS, Status, is_legal


def test_every_status_is_hot_or_settled_and_has_its_moves() -> None:
    assert HOT | SETTLED == set(Status) == set(TRANSITIONS)
    assert not HOT & SETTLED


@pytest.mark.parametrize(("old", "new"), sorted(product(SETTLED, Status)))
def test_settled_rows_never_change_status(old: Status, new: Status) -> None:
    assert not is_legal(old, new)


@pytest.mark.parametrize(
    ("old", "new", "legal"),
    [
        ("pending", "running", True),
        ("pending", "succeeded", True),
        ("running", "pending", True),
        ("failed", "pending", True),
        ("failed", "dismissed", True),
        ("failed", "failed", True),
        ("waiting", "running", False),
        ("waiting", "succeeded", False),
        ("failed", "running", False),
        ("failed", "succeeded", False),
        ("running", "dismissed", False),
        ("pending", "dismissed", False),
    ],
)
def test_legal_and_illegal_moves(old: str, new: str, legal: bool) -> None:
    assert is_legal(Status(old), Status(new)) is legal
