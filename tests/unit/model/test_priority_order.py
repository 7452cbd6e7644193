"""The order of claims: smaller priorities first, and within one who had rows comes last."""

from inboxd.model.lane import Lane
from inboxd.model.priority_order import Ask, PriorityOrder


def _lane(queue: str, priority: int = 0) -> Lane:
    return Lane((queue, "mail", priority))


def test_a_lane_has_its_commands_priority_and_its_queues() -> None:
    order = PriorityOrder({"slow": 5, "urgent": -5})
    assert [order.of(_lane(q, 1)) for q in ("slow", "urgent", "other")] == [6, -4, 1]


def test_lanes_of_a_level_are_asked_together_and_the_smallest_level_first() -> None:
    late, early, same = _lane("a", 9), _lane("b"), _lane("c")
    assert PriorityOrder({}).together([late, early, same]) == [
        Ask(0, "", [early, same]),
        Ask(9, "", [late]),
    ]


def test_who_was_given_rows_is_asked_last_of_its_level_only() -> None:
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
