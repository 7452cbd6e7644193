"""Why a row does not run, in states made by Hypothesis: exactly the holding causes are named.

Up to six conditions that may hold together are made. Then the test follows the answer alone: it
ends the named causes, as docs/why.md says. When all have ended, a claim takes the row; while any
one of them is left, no claim does, and that cause is named. *See:* `tests/machine/asking.py`, the
same in the states that the state machine reaches.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inboxd import operations
from inboxd.embedded import Server
from inboxd.model.waiting import TEXTS
from inboxd.store.controls import Kind
from tests.store.test_waiting import CONDITIONS, PLACES, begin
from tests.store.waiting_conditions import Condition
from tests.store.waiting_world import QUEUE, World, world_of
from tests.support import Database, ExternalServer, create, drop
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

Facts = Mapping[str, Any]
_SAID = {text: name for name, text in TEXTS.items()}


@pytest.fixture(scope="module")
def shared(server: Server | ExternalServer, template: Database) -> Iterator[Database]:
    """One database for all examples: each deletes the rows of the example before."""
    database = create(server, template.name)
    yield database
    drop(server, database)


@pytest.fixture
async def world(shared: Database) -> AsyncIterator[World]:
    await shared.execute("delete from inboxd.workers")
    async with world_of(shared) as found:
        yield found


# ---------------------------------------------------------------------- remedies of the causes

Remedy = Callable[[World, Facts], Awaitable[object]]


def _do(statement: str, *named: str) -> Remedy:
    """A remedy by a statement; its parameters are names or ids from the answer's facts."""

    async def do(world: World, facts: Facts) -> None:
        given = [facts[each].get("id") or facts[each]["name"] for each in named]
        await world.connection.execute(statement, *given)

    return do


def _own(change: str) -> Remedy:
    """A remedy that changes the row itself."""

    async def become(world: World, facts: Facts) -> None:
        del facts
        await world.set(change)

    return become


def _resume(kind: Kind) -> Remedy:
    async def resume(world: World, facts: Facts) -> None:
        session = world.session
        await operations.resume(session, kind, facts[kind]["name"], actor="me")

    return resume


async def _serve(world: World, facts: Facts) -> None:
    """Let the worker serve the type again."""
    await world.connection.execute(
        "update inboxd.workers set commands = $2, subscriptions = $3 where id = $1",
        world.me.id,
        list(world.me.commands),
        [f"{topic}\n{type_}" for topic, type_ in world.me.subscriptions],
    )


async def _release(world: World, facts: Facts) -> None:
    """End the prerequisite, if it still exists, and release the row."""
    if row := facts.get("row"):
        table, key = (
            ("commands", "command_id") if row["kind"] == "command" else ("batches", "batch_id")
        )
        await world.connection.execute(
            f"delete from inboxd.dependencies where needs = (select {key} from inboxd.{table}"
            " where id = $1)",
            row["id"],
        )
        await world.connection.execute(f"delete from inboxd.{table} where id = $1", row["id"])
    await world.connection.execute("delete from inboxd.dependencies")
    await world.set("needs = 0, status = 'pending'")


async def _end_first(world: World, facts: Facts) -> None:
    """End the row that comes first in the line."""
    row = facts["row"]
    await world.connection.execute(f"delete from inboxd.{row['kind']}s where id = $1", row["id"])


async def _end_transaction(world: World, facts: Facts) -> None:
    await world.stack.aclose()


_PAST = "run_at = now() - interval '1 minute'"
_RECOVERED = _do(
    "update inboxd.breakers set mode = 'auto', state = 'closed', open_until = null,"
    " probe_by = null, probe_until = null, version = version + 1 where name = $1",
    "breaker",
)
_RUN_TO_THE_END = _own("crashes = 0, suspect_group = null, lone_crashes = null")
REMEDIES: Mapping[str, Remedy] = {
    **{f"paused {kind}": _resume(kind) for kind in ("queue", "topic", "type")},
    "paused reader": _resume("type"),
    "nobody": _do("update inboxd.workers set state = 'running'"),
    "unserved": _serve,
    "kept": _serve,
    **dict.fromkeys(("breaker", "breaker, due", "breaker, tried", "breaker, forced"), _RECOVERED),
    "due": _own(_PAST),
    "suspect": _RUN_TO_THE_END,
    "alone": _RUN_TO_THE_END,
    "apart": _own(f"crashes = 0, {_PAST}"),
    "total": _do("delete from inboxd.commands where status = 'running' and queue = $1", "queue"),
    "rate": _do(
        "update inboxd.limits set claimed_at = (select array_agg(t - interval '1 hour')"
        " from unnest(claimed_at) t) where name = $1",
        "queue",
    ),
    "busy": _do(
        f"delete from inboxd.commands where status = 'running' and queue = '{QUEUE}';"
        " update inboxd.workers set in_flight = 0"
    ),
    "exclusive": _do(
        "delete from inboxd.commands where status = 'running' and alone_fence = fence;"
        " update inboxd.leases set holder = null where name = 'alone'"
    ),
    **dict.fromkeys(("batch", "batch, dead", "batch, open", "row", "released"), _release),
    **{name: _end_first for name in TEXTS if name.startswith("behind")},
    "key": _do(f"delete from inboxd.commands where status = 'running' and queue = '{QUEUE}'"),
    "full": _end_transaction,
    "producer": _end_transaction,
    "visited": _end_transaction,
    "intake": _do("delete from inboxd.intakes where topic = $1", "topic"),
    "chunk, or full": _own(_PAST),
    "chunk, full": _own(_PAST),
}


# ---------------------------------------------------------------------------------- the property


def _together(conditions: Sequence[Condition], picks: Sequence[int]) -> list[Condition]:
    """The drawn conditions, without those that cannot hold together with an earlier one."""
    chosen: list[Condition] = []
    for pick in picks:
        each = conditions[pick % len(conditions)]
        if all(
            each.said != other.said
            and each.said not in other.apart
            and other.said not in each.apart
            for other in chosen
        ):
            chosen.append(each)
    return sorted(chosen, key=lambda each: not each.first)


async def _made(world: World, row: str, chosen: Sequence[Condition]) -> dict[str, Facts]:
    """Make a row with all these conditions; returns the facts of each named cause."""
    await begin(world, row)
    for each in chosen:
        await each.come(world)
    return await _told(world)


async def _told(world: World) -> dict[str, Facts]:
    causes = (await world.document())["causes"]
    found = {_SAID[each["text"]]: each["facts"] for each in causes}
    with safety():
        assert len(found) == len(causes), "a cause is named twice"
    return found


async def _try(world: World, row: str, chosen: Sequence[Condition], random: Random) -> None:
    names = sorted(each.said for each in chosen)
    told = await _made(world, row, chosen)
    with safety():
        if names:
            assert sorted(told) == names, "exactly the conditions are named"
        else:
            assert set(told) <= PLACES, "no condition holds it"
        assert await world.is_claimed() == (not names), told
    for left in names:
        told = await _made(world, row, chosen)
        others = [each for each in told if each != left]
        random.shuffle(others)
        for each in others:
            await REMEDIES[each](world, told[each])
        still = list(await _told(world))
        with safety():
            assert still == [left], f"of {names}, after the others have ended"
            assert not await world.is_claimed(), f"of {names}, {left} alone"
    told = await _made(world, row, chosen)
    order = list(told) if names else []
    random.shuffle(order)
    for each in order:
        await REMEDIES[each](world, told[each])
    still = list(await _told(world))
    with safety():
        assert set(still) <= PLACES, f"all of {names} have ended"
        assert await world.is_claimed(), f"all of {names} have ended"


_HOW = settings(
    max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture], print_blob=True
)
_PICKS = st.lists(st.integers(0, 63), max_size=6)
# Hypothesis must draw nothing while a coroutine runs: its StopTest would end the loop's runner.
_SEEDS = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("row", CONDITIONS)
@_HOW
@given(picks=_PICKS, seed=_SEEDS)
async def test_named_causes_hold_the_row_and_no_others(
    world: World, row: str, picks: list[int], seed: int
) -> None:
    await _try(world, row, _together(CONDITIONS[row], picks), Random(seed))


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("row", CONDITIONS)
@settings(_HOW, max_examples=150)
@given(picks=_PICKS, seed=_SEEDS)
async def test_named_causes_hold_the_row_in_many_more_states(
    world: World, row: str, picks: list[int], seed: int
) -> None:
    await _try(world, row, _together(CONDITIONS[row], picks), Random(seed))


def test_each_condition_has_a_remedy() -> None:
    said = {each.said for conditions in CONDITIONS.values() for each in conditions}
    assert said <= REMEDIES.keys()
