"""Slots of topics for a page: a page holds none that it cannot use."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import MagicMock

import pytest

from inboxd.events.topic_limits import TopicLimits
from inboxd.store import topics

pytestmark = pytest.mark.anyio


def limits(**declared: tuple[int | None, int | None]) -> TopicLimits:
    """Topics by name, each with its page_rows and its total concurrency."""
    parts: Any = MagicMock()
    parts.registry.topics = {name: MagicMock() for name in declared}
    for name, topic in parts.registry.topics.items():
        topic.name = name
        topic.page_rows, topic.total_concurrency = declared[name]
    return TopicLimits(parts)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics whose slots were asked for, in this order; those that begin with `full` refuse."""
    every: list[str] = []

    async def try_slots(_: object, names: Sequence[str], __: object) -> set[str]:
        every.extend(names)
        return {name for name in names if not name.startswith("full")}

    monkeypatch.setattr(topics, "try_slots", try_slots)
    return every


async def test_all_topics_of_a_shared_page_are_asked(asked: list[str]) -> None:
    allowed = await limits(a=(None, 1), b=(None, 1)).allow(MagicMock(), ["a", "b"], 10)
    assert (allowed.topics, asked) == (frozenset("ab"), ["a", "b"])


async def test_no_slot_is_taken_beside_a_topic_with_a_page_of_its_own(asked: list[str]) -> None:
    """The first topic refuses, so the second one has the page for itself."""
    known = limits(full=(None, 1), own=(5, None), other=(None, 1))
    allowed = await known.allow(MagicMock(), ["full", "own", "other"], 10)
    assert (allowed.topics, allowed.most) == (frozenset({"own"}), 5)
    assert asked == ["full"]


async def test_the_first_topic_is_asked_alone_and_then_the_others(asked: list[str]) -> None:
    known = limits(a=(None, 1), own=(5, None), b=(None, 1), full=(None, 1))
    allowed = await known.allow(MagicMock(), ["a", "own", "b", "full"], 10)
    assert allowed.topics == frozenset({"a", "b"})
    assert asked == ["a", "b", "full"]
    assert known.again is not None
