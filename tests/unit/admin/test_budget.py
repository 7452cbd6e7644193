"""A budget of requests: a burst first, then a steady rate."""

from inboxd.admin.budget import Budget


def test_a_burst_and_then_the_rate() -> None:
    now = 0.0
    budget = Budget(2, 5, clock=lambda: now)
    for _ in range(5):
        assert not budget.is_spent
        budget.spend()
    assert budget.is_spent
    now = 0.4
    assert budget.is_spent
    now = 0.5
    assert not budget.is_spent
    now = 1_000.0
    for _ in range(5):
        budget.spend()
    assert budget.is_spent, "the burst is the limit after a pause"
