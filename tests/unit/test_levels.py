"""Levels: smaller priorities first, and within one whoever was given rows comes last."""

from inboxd.model.lane import Lane
from inboxd.model.levels import Ask, Levels


def _lane(queue: str, priority: int = 0) -> Lane:
    return Lane((queue, "mail", priority))


def test_a_lane_has_its_commands_priority_and_its_queues() -> None:
    levels = Levels({"slow": 5, "urgent": -5})
    assert [levels.of(_lane(q, 1)) for q in ("slow", "urgent", "other")] == [6, -4, 1]


def test_lanes_of_a_level_are_asked_together_and_the_smallest_level_first() -> None:
    late, early, same = _lane("a", 9), _lane("b"), _lane("c")
    assert Levels({}).order([late, early, same], {}) == [
        Ask(0, "", [early, same]),
        Ask(9, "", [late]),
    ]


def test_who_was_given_rows_is_asked_last_of_its_level_only() -> None:
    levels = Levels({"urgent": -5})
    lanes, limited = [_lane("a")], {"one": [_lane("one")], "two": [], "urgent": []}

    def asked() -> list[str]:
        return [ask.queue for ask in levels.order(lanes, limited)]

    assert asked() == ["urgent", "", "one", "two"]
    for ask in levels.order(lanes, limited)[:3]:
        levels.gave(ask)
    assert asked() == ["urgent", "two", "", "one"]
    levels.gave(levels.order(lanes, limited)[2])
    assert asked() == ["urgent", "two", "one", ""]
    levels.forget()
    assert asked() == ["urgent", "", "one", "two"]
