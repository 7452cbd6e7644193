"""Why a row does not run: one cause for each condition of its claims, and never a wrong one.

Each condition is made on real tables, beside a real claim: while it holds, the row is not claimed
and its cause is named; afterwards the cause is gone too, and the claim takes the row. All pairs
that may hold together are tried as well.
"""

from collections.abc import AsyncIterator, Iterator, Sequence
from itertools import combinations

import pytest

from inboxd.embedded import Server
from tests.store import waiting_conditions as made
from tests.store.waiting_conditions import Condition
from tests.store.waiting_world import KEY, World, world_of
from tests.support import Database, ExternalServer, create, drop

pytestmark = pytest.mark.anyio

# Causes that are only a place in the order: they pass without any action.
PLACES = {"next", "next in line", "next in bucket", "ahead", "ahead in line", "ahead in bucket"}
ROWS: dict[str, tuple[str, dict[str, object], str]] = {
    "commands": ("commands", {}, ""),
    "keyed": ("commands", {"ordering_key": KEY}, ""),
    "lane": ("events", {}, ""),
    "lined": ("events", {"topic": "lined", "ordering_key": KEY}, ""),
    "chunked": ("events", {"topic": "chunked", "ordering_key": KEY}, "position = 1, head = true"),
}
CONDITIONS: dict[str, Sequence[Condition]] = {
    "commands": made.COMMANDS,
    "keyed": made.KEYED,
    "lane": made.LANE,
    "lined": made.LINED,
    "chunked": made.CHUNKED,
}


@pytest.fixture(scope="module")
def shared(server: Server | ExternalServer, template: Database) -> Iterator[Database]:
    """One database for all cases: each deletes the rows of the case before."""
    database = create(server, template.name)
    yield database
    drop(server, database)


@pytest.fixture
async def world(shared: Database) -> AsyncIterator[World]:
    await shared.execute("delete from inboxd.workers")
    async with world_of(shared) as found:
        yield found


async def begin(world: World, row: str) -> None:
    """Begin with one row of this kind, which no condition holds."""
    table, columns, more = ROWS[row]
    await world.begin(table, **columns)
    if more:
        await world.set(more)


async def _try(world: World, row: str, conditions: Sequence[Condition]) -> None:
    """Make the conditions, then end the first cause that is named, again and again."""
    told = [each.said for each in conditions]
    await begin(world, row)
    (place,) = await world.why()
    assert (place in PLACES, await world.is_claimed()) == (True, True), "no condition holds it"
    for each in sorted(conditions, key=lambda each: not each.first):
        await each.come(world)
    left = list(conditions)
    while left:
        found = await world.why()
        assert sorted(found) == sorted(each.said for each in left), (told, found)
        assert not await world.is_claimed(), (told, found)
        first = next(each for each in left if each.said == found[0])
        await first.go(world)
        left.remove(first)
    found = await world.why()
    assert set(found) <= PLACES, (told, found)
    assert await world.is_claimed(), told


@pytest.mark.parametrize("row", CONDITIONS)
async def test_each_condition_has_its_cause(world: World, row: str) -> None:
    for each in CONDITIONS[row]:
        await _try(world, row, [each])


def _pairs(conditions: Sequence[Condition], *, alike: bool) -> list[tuple[Condition, Condition]]:
    """Pairs that may hold together; alike: those for which another pair stands."""
    return [
        (one, two)
        for one, two in combinations(conditions, 2)
        if one.said != two.said and two.said not in one.apart and one.said not in two.apart
        if (one.alike or two.alike) is alike
    ]


@pytest.mark.parametrize("row", CONDITIONS)
async def test_both_of_two_conditions_are_named(world: World, row: str) -> None:
    pairs = _pairs(CONDITIONS[row], alike=False)
    assert pairs
    for pair in pairs:
        await _try(world, row, pair)


@pytest.mark.long
@pytest.mark.parametrize("row", CONDITIONS)
async def test_both_of_any_other_two_conditions_are_named(world: World, row: str) -> None:
    for pair in _pairs(CONDITIONS[row], alike=True):
        await _try(world, row, pair)
