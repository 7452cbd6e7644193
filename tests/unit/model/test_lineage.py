"""Children belong to the story of their parent; ids are ordered by time."""

import time
from uuid import RFC_4122, UUID, uuid4

import pytest

from inboxd.model import lineage
from inboxd.model.lineage import Lineage, child_of, story_age, told_time, uuid7, uuid7s

PARENT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def test_a_parent_without_a_story_begins_one() -> None:
    child = child_of(Lineage(traceparent="00-1-2-01"), PARENT)
    assert child == Lineage(str(PARENT), PARENT, "00-1-2-01")


def test_a_story_is_passed_on() -> None:
    child = child_of(Lineage("order 7", None, None), PARENT)
    grandchild = child_of(child, uuid7())
    assert grandchild.correlation_id == child.correlation_id == "order 7"
    assert child.causation_id == PARENT


def test_uuid7_follows_the_rfc() -> None:
    before = time.time_ns() // 1_000_000
    made = lineage._uuid7()
    after = time.time_ns() // 1_000_000
    assert (made.version, made.variant) == (7, RFC_4122)
    assert before <= made.int >> 80 <= after


def test_uuid7_sorts_by_time_and_never_repeats() -> None:
    made = [lineage._uuid7() for _ in range(2_000)]
    # Neighbours within one tick of the clock may swap; ids further apart must not.
    assert all(early < late for early, late in zip(made, made[20:], strict=False))
    assert len(set(made)) == len(made)


def test_many_uuid7_ascend_and_follow_the_rfc() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid7s(5_000)
    assert made == sorted(set(made))
    assert len(made) == 5_000
    assert {(id_.version, id_.variant) for id_ in made} == {(7, RFC_4122)}
    # An id has 4,096 fractions of a millisecond: ids run at most that far ahead of the clock.
    assert before <= made[0].int >> 80
    assert made[-1].int >> 80 <= time.time_ns() // 1_000_000 + 2
    assert uuid7s(0) == []


def test_time_ordered_id_holds_its_time() -> None:
    at = told_time(PARENT)
    assert at == told_time(str(PARENT)) == 1688096058.518
    for other in (None, uuid4(), str(uuid4()), "order 7", "x" * 14 + "7" + "x" * 21):
        assert told_time(other) is None, other


def test_the_age_of_a_story_is_counted_from_its_first_row() -> None:
    begun = told_time(PARENT)
    assert begun is not None
    assert story_age(str(PARENT), begun + 50, 10.0) == pytest.approx(60)
    assert story_age(None, begun, 10.0) == 10.0, "the story begins with this row"
    assert story_age("order 7", begun, 10.0) is None
    assert story_age(str(PARENT), None, 10.0) is None
    assert story_age(str(PARENT), begun - 5, 1.0) == 0.0, "clocks of two hosts differ"
