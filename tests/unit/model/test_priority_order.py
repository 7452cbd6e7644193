"""Claims: smaller priorities first; within a level, claims that gave rows come last."""

from inboxd.model.lane import Lane
from inboxd.model.priority_order import Ask, PriorityOrder


def _lane(queue: str, priority: int = 0) -> Lane:
    return Lane((queue, "mail", priority))


def test_level_adds_the_priorities_of_command_and_queue() -> None:
    order = PriorityOrder({"slow": 5, "urgent": -5})
    assert [order.of(_lane(q, 1)) for q in ("slow", "urgent", "other")] == [6, -4, 1]


def test_lanes_of_a_level_are_claimed_together_smallest_level_first() -> None:
    late, early, same = _lane("a", 9), _lane("b"), _lane("c")
    assert PriorityOrder({}).together([late, early, same]) == [
        Ask(0, "", [early, same]),
        Ask(9, "", [late]),
    ]


def test_claim_that_gave_rows_comes_last_in_its_level() -> None:
    order = PriorityOrder({"urgent": -5})
    asks = order.together([_lane("a")])
    asks += [order.alone(queue, []) for queue in ("one", "two", "urgent")]

    def asked() -> list[str]:
        return [ask.queue for ask in sorted(asks, key=order.rank)]

    assert asked() == ["urgent", "", "one", "two"]
    for ask in sorted(asks, key=order.rank)[:3]:
        order.gave(ask)
    assert asked() == ["urgent", "two", "", "one"]
    order.gave(sorted(asks, key=order.rank)[2])
    assert asked() == ["urgent", "two", "one", ""]
    order.forget()
    assert asked() == ["urgent", "", "one", "two"]
