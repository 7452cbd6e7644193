"""What a page may claim: the room of a queue, whichever sources its commands come from."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import MagicMock

import pytest

from inboxd.commands.admission import Admission
from inboxd.commands.sources.lanes import PlainLanes
from inboxd.model.lane import Lane, Sighting
from inboxd.model.priority_order import PriorityOrder
from inboxd.settings import Settings

pytestmark = pytest.mark.anyio


def _parts(**queue: int) -> Any:
    queues: Any = {"q": queue}
    settings = Settings(database={"dsn": "postgresql:///x"}, queues=queues)  # type: ignore[arg-type]
    parts = MagicMock(settings=settings)
    parts.queues.by_name = settings.queues
    parts.breakers.probing = frozenset()
    parts.registry.commands = parts.registry.command_types = {"t": None}
    parts.controls.paused = frozenset()
    return parts


def _rows(*ids: int) -> Sequence[Any]:
    return [{"id": id_, "queue": "q"} for id_ in ids]


def test_what_ends_makes_room_for_the_next_page() -> None:
    admission = Admission(_parts(concurrency=3))
    assert admission.room("q") == 3
    admission.took(_rows(1, 2, 3))
    assert not admission.has_room("q")
    assert admission.turned_away
    admission.ended(_rows(2)[0])
    assert admission.room("q") == 0, "this page goes on with the levels that come after"
    admission.begin_page()
    assert admission.room("q") == 1
    assert (admission.in_flight, admission.known) == (2, {1, 3})


async def test_commands_with_a_key_take_the_room_of_those_without() -> None:
    """Both are asked for in one page; that of the keys may come first."""
    parts = _parts(concurrency=3)
    admission = Admission(parts)
    lanes = PlainLanes(parts, admission, PriorityOrder({}))
    lanes._lanes.sweep([Sighting(("q", "t", 0), 1.0, None)])
    (ask,) = lanes.asks()
    assert ask.lanes == [Lane(("q", "t", 0))]
    admission.took(_rows(1, 2, 3))  # with a key, of the same queue
    assert await lanes.claim(ask, 10) == []
    parts.pool.assert_not_called()
