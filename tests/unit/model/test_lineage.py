"""Children belong to their parent's story; ids are ordered by time."""

import time
from uuid import RFC_4122, UUID

from inboxd.model import lineage
from inboxd.model.lineage import Lineage, child_of, uuid7, uuid7s

PARENT = UUID("01890a5d-ac96-774b-bcce-b302099a8057")


def test_a_parent_without_a_story_begins_one() -> None:
    child = child_of(Lineage(traceparent="00-1-2-01"), PARENT)
    assert child == Lineage(str(PARENT), PARENT, "00-1-2-01")


def test_a_story_is_passed_on() -> None:
    child = child_of(Lineage("order 7", None, None), PARENT)
    grandchild = child_of(child, uuid7())
    assert grandchild.correlation_id == child.correlation_id == "order 7"
    assert child.causation_id == PARENT


def test_uuid7_is_what_the_rfc_says() -> None:
    before = time.time_ns() // 1_000_000
    made = lineage._uuid7()
    after = time.time_ns() // 1_000_000
    assert (made.version, made.variant) == (7, RFC_4122)
    assert before <= made.int >> 80 <= after


def test_uuid7_sorts_by_time_and_never_repeats() -> None:
    made = [lineage._uuid7() for _ in range(2_000)]
    # Neighbours within one tick may swap; any longer distance must not.
    assert all(early < late for early, late in zip(made, made[20:], strict=False))
    assert len(set(made)) == len(made)


def test_many_uuid7_ascend_and_are_what_the_rfc_says() -> None:
    before = time.time_ns() // 1_000_000
    made = uuid7s(5_000)
    assert made == sorted(set(made))
    assert len(made) == 5_000
    assert {(id_.version, id_.variant) for id_ in made} == {(7, RFC_4122)}
    # 4,096 fractions are a millisecond; the ids run ahead of the clock by no more than that.
    assert before <= made[0].int >> 80
    assert made[-1].int >> 80 <= time.time_ns() // 1_000_000 + 2
    assert uuid7s(0) == []
