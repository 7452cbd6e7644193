"""The commands that a page may claim: a queue has one room for all sources."""

from collections.abc import Sequence
from typing import Any
from unittest.mock import MagicMock
from uuid import uuid4

import pytest

from inboxd.commands.admission import Admission
from inboxd.commands.sources.lanes import PlainLanes
from inboxd.model.lane import Lane, Sighting
from inboxd.model.priority_order import PriorityOrder
from inboxd.settings import Settings

pytestmark = pytest.mark.anyio


def _admission(parts: Any) -> Admission:
    return Admission(
        parts.settings, parts.queues.by_name, parts.registry, parts.controls, parts.breakers
    )


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
    return [{"id": id_, "queue": "q", "expires_in": None} for id_ in ids]


def test_a_command_that_ends_makes_room_for_the_next_page() -> None:
    admission = _admission(_parts(concurrency=3))
    assert admission.room("q") == 3
    admission.took(_rows(1, 2, 3))
    assert not admission.has_room("q")
    assert admission.turned_away
    admission.ended(_rows(2)[0])
    assert admission.room("q") == 0, "this page continues with the next levels"
    admission.begin_page()
    assert admission.room("q") == 1
    assert (admission.in_flight, admission.known) == (2, {1, 3})


def _delivering(concurrency: int, most: int | None = None, queues: Sequence[str] = ()) -> Admission:
    settings = Settings(
        database={"dsn": "postgresql:///x"},  # type: ignore[arg-type]
        commands={"concurrency": concurrency},  # type: ignore[arg-type]
        worker={"queues": queues},  # type: ignore[arg-type]
        outbound={"webhooks": {"concurrency": most}},  # type: ignore[arg-type]
    )
    parts = MagicMock(settings=settings)
    parts.queues.by_name = {}
    parts.breakers.held = {}
    return _admission(parts)


def _of(queue: str, count: int, first: int = 0) -> list[Any]:
    return [{"id": first + id_, "queue": queue, "expires_in": None} for id_ in range(count)]


@pytest.mark.parametrize(
    ("concurrency", "most", "queues", "expected"),
    [
        (100, None, [], 50),
        (1, None, [], 1),
        (3, None, [], 2),
        (100, 80, [], 80),
        (100, None, ["webhooks.a", "webhooks.b"], 100),
        (100, None, ["webhooks.a", "other"], 50),
    ],
)
def test_the_number_of_deliveries_is_limited(
    concurrency: int, most: int | None, queues: Sequence[str], expected: int
) -> None:
    admission, taken = _delivering(concurrency, most, queues), 0
    names = [f"webhooks.{number}" for number in range(2 * expected)]
    for _ in range(expected + 1):
        admission.begin_page()
        rooms = admission.rooms(names)
        assert taken + sum(rooms.values()) <= expected, "in one claim"
        for name, room in rooms.items():
            admission.took(_of(name, room, taken))
            taken += room
    assert taken == expected
    admission.begin_page()
    assert admission.room("webhooks.new") == 0
    assert admission.room("another") == 500, "other queues are not delayed"
    admission.ended(_of("webhooks.0", 1)[0])
    admission.begin_page()
    assert admission.room("webhooks.new") == 1


def test_an_endpoint_leaves_places_for_later_ones() -> None:
    """However many endpoints are slow: each has at most what is left for the next one."""
    admission, had = _delivering(100), dict[str, int]()
    for number in range(12):
        admission.begin_page()
        name = f"webhooks.{number}"
        while room := admission.room(name):
            admission.took(_of(name, room, 1000 * number + had.get(name, 0)))
            had[name] = had.get(name, 0) + room
            admission.begin_page()
    assert had["webhooks.0"] == 25, "a single endpoint has half"
    assert sum(had.values()) <= 50
    assert len(had) > 4
    for number, slow in enumerate(_of("webhooks.0", 13)):
        slow["id"] = number
        admission.ended(slow)
    admission.begin_page()
    assert admission.room("webhooks.new") > 0


def test_one_claim_shares_places_evenly() -> None:
    admission = _delivering(100)
    names = [f"webhooks.{number}" for number in range(10)]
    admission.took(_of(names[0], 8))
    admission.begin_page()
    rooms = admission.rooms([*names, "another"])
    assert rooms.pop("another") == 500
    assert rooms[names[0]] == 0, "it has its share already"
    assert {rooms[name] for name in names[1:]} == {4, 5}
    assert admission.turned_away, "it may get the others later"


async def test_an_endpoint_without_rows_leaves_its_places_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An endpoint that got no place is in the next claim: nothing else would ask for its rows."""
    admission = _delivering(2)
    lanes = PlainLanes(MagicMock(), uuid4(), MagicMock(), admission, PriorityOrder({}))
    asked: list[list[Lane]] = []

    async def claim(which: Sequence[Lane], _room: Any, _most: int) -> list[Any]:
        asked.append([*which])
        return _of("webhooks.2", 1) if which[0].key[0] == "webhooks.2" else []

    monkeypatch.setattr(lanes, "_claim", claim)
    mine = [Lane((f"webhooks.{number}", "webhook.deliver", 0)) for number in range(4)]
    rows = await lanes.claim(MagicMock(lanes=mine), 10)
    assert [row["queue"] for row in rows] == ["webhooks.2"]
    assert asked == [[each] for each in mine[:3]]


async def test_commands_with_a_key_take_the_room_of_those_without() -> None:
    """One page asks for both; commands with a key may come first."""
    parts = _parts(concurrency=3)
    admission = _admission(parts)
    lanes = PlainLanes(parts.pool, uuid4(), parts.metrics, admission, PriorityOrder({}))
    lanes._lanes.sweep([Sighting(("q", "t", 0), 1.0, None)])
    (ask,) = lanes.asks()
    assert ask.lanes == [Lane(("q", "t", 0))]
    admission.took(_rows(1, 2, 3))  # with a key, of the same queue
    assert await lanes.claim(ask, 10) == []
    parts.pool.assert_not_called()
