"""The number of commands that claims take before a free one, in the worker's own order.

Each case asks the worker's real sources: surveys, asks in their order, claims of one row.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from unittest.mock import MagicMock

import pytest

from inboxd.commands.admission import Admission
from inboxd.commands.sources.key_runs import KeyRuns
from inboxd.commands.sources.lanes import PlainLanes
from inboxd.commands.sources.limited import LimitedQueues
from inboxd.commands.sources.source import CommandSource, look
from inboxd.embedded import Server
from inboxd.model.priority_order import PriorityOrder
from inboxd.settings import Queue
from inboxd.store.waiting import turn_of_command
from tests.store.waiting_world import ANOTHER, KEY, TYPE, World, world_of
from tests.support import Database, ExternalServer, create, drop
from tests.support.rows import daemon_pool

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def shared(server: Server | ExternalServer, template: Database) -> Iterator[Database]:
    database = create(server, template.name)
    yield database
    drop(server, database)


@pytest.fixture
async def world(shared: Database) -> AsyncIterator[World]:
    await shared.execute("delete from inboxd.workers")
    async with world_of(shared) as found:
        yield found


async def _claimed(world: World, database: Database) -> list[int]:
    """The ids in the order in which a worker claims them, one at a time."""
    parts = await world.parts()
    admission = Admission(
        parts.settings, parts.queues.by_name, parts.registry, parts.controls, parts.breakers
    )
    order = PriorityOrder({name: each.priority for name, each in parts.queues.by_name.items()})
    claimed: list[int] = []
    async with daemon_pool(database) as pool:
        lanes = PlainLanes(pool, parts.me.id, parts.metrics, admission, order)
        outcomes = MagicMock(through=0, handed_over=0)
        limited = LimitedQueues(
            pool,
            parts.me.id,
            parts.metrics,
            outcomes,
            KeyRuns(admission.key_concurrency),
            admission,
            order,
        )
        sources: Sequence[CommandSource] = (lanes, limited)
        seen = await look(world.session)
        for source in sources:
            await source.survey(world.session, seen)
        while True:
            admission.begin_page()
            asks = [(ask, source) for source in sources for ask in source.asks()]
            for ask, source in sorted(asks, key=lambda pair: order.rank(pair[0])):
                if rows := await source.claim(ask, 1):
                    claimed += [row["id"] for row in rows]
                    break
            else:
                return claimed


@dataclass(frozen=True)
class Case:
    """A row of its queue, others that come before it (first), and others that come after it."""

    own: Mapping[str, object] = field(default_factory=dict)
    first: Sequence[Mapping[str, object]] = ()
    after: Sequence[Mapping[str, object]] = ()
    queue: Queue = field(default_factory=Queue)
    queues: Mapping[str, Queue] = field(default_factory=dict)


_RUSH = {"rush": Queue(priority=-10)}
CASES = {
    "a smaller priority of its queue": Case(
        own={"priority": 5}, first=[{"priority": 0}, {"priority": 4}], after=[{"priority": 6}]
    ),
    "of another type": Case(own={"priority": 5}, first=[{"priority": 4, "type": ANOTHER}]),
    "across queues": Case(
        own={"priority": 5},
        first=[{"queue": "else", "priority": 4}],
        after=[{"queue": "else", "priority": 6}],
    ),
    "the queue's priority is added": Case(
        own={"priority": 5},
        queues=_RUSH,
        first=[{"queue": "rush", "priority": 14}],
        after=[{"queue": "rush", "priority": 16}],
    ),
    "its own queue's as well": Case(
        queue=Queue(priority=3),
        first=[{"queue": "else", "priority": 2}],
        after=[{"queue": "else", "priority": 4}],
    ),
    "of a queue with a limit the queue's alone": Case(
        queues={"few": Queue(total_concurrency=50, priority=-1)},
        first=[{"queue": "few", "priority": 9}],
    ),
    "its own queue has a limit": Case(
        own={"priority": 5},
        queue=Queue(total_concurrency=50, priority=1),
        first=[{"priority": 4}, {"queue": "else", "priority": 0}],
        after=[{"priority": 6}, {"queue": "else", "priority": 2}],
    ),
    "lines of a queue": Case(
        queues=_RUSH, first=[{"queue": "rush", "ordering_key": KEY, "priority": 99}]
    ),
    "its own key in a queue": Case(
        own={"ordering_key": KEY, "priority": 99},
        first=[{"queue": "else", "priority": -1}],
        after=[{"queue": "else", "priority": 1}],
    ),
}


@pytest.mark.parametrize("name", CASES)
async def test_rows_claimed_first_are_counted(world: World, shared: Database, name: str) -> None:
    case = CASES[name]
    await world.begin("commands", **case.own)
    world.queue, world.queues = case.queue, dict(case.queues)
    first = [await world.write(**each) for each in case.first]
    after = [await world.write(**each) for each in case.after]
    for queue in world.settings.all_queues:  # the first claim would only insert these rows
        await world.connection.execute("insert into inboxd.limits (name) values ($1)", queue)
    found = await turn_of_command(world.session, world.id, world.settings.all_queues, 100)
    assert found is not None
    assert found["rows"] == len(first)
    assert (await _said(world))[0] == "first"
    claimed = await _claimed(world, shared)
    place = claimed.index(world.id)
    assert (set(claimed[:place]), set(claimed[place + 1 :])) == (set(first), set(after))


async def _said(world: World) -> tuple[str, str]:
    """The name of the first text, and the sentence."""
    found = await world.document()
    return (await world.why())[0], found["sentence"]


async def test_the_sentence_names_the_queue(world: World) -> None:
    await world.begin("commands", priority=5)
    await world.write(queue="else")
    assert (await _said(world))[1] == (
        "Claims take other rows first, if these may run: 1, beginning with queue else. And then: "
        "Nothing holds it: it is the next of its lane, or is being claimed."
    )
    await world.connection.execute(
        "insert into inboxd.commands (queue, type) select 'else', $1 from generate_series(1, 120)",
        TYPE,
    )
    assert (await _said(world))[0] == "first, many"


async def test_suspects_are_claimed_first(world: World) -> None:
    """Suspects of a dead worker come before all others, whatever their priority is."""
    await world.begin("commands")
    other = await world.write(priority=9)
    await world.set("crashes = 1", other)
    assert (await _said(world))[0] == "first"


_NOT_FIRST = {
    "later": "update inboxd.commands set run_at = now() + interval '1 hour' where queue = 'else'",
    "nobody's": "update inboxd.commands set type = 'nobodys' where queue = 'else'",
    "paused": "insert into inboxd.controls values ('queue', 'else', now(), 'ana', null)",
    "of a paused type": f"""
        insert into inboxd.controls values ('type', '{ANOTHER}', now(), 'ana', null)""",
    "what it needs is down": """
        update inboxd.breakers set state = 'open', open_until = now() + interval '1 minute',
               version = version + 1 where name = 'another'""",
    "another worker does not serve it": """
        insert into inboxd.workers
               (id, name, host, pid, version, events, commands, queues, declares)
        select gen_random_uuid(), 'w-2', host, pid, version, events, commands, '{q}', declares
          from inboxd.workers""",
    "its key is held": """
        update inboxd.commands set ordering_key = 'k', status = 'waiting' where queue = 'else';
        insert into inboxd.commands (queue, type, ordering_key, status, line_at)
        values ('else', 't', 'k', 'failed', now())""",
}


@pytest.mark.parametrize("name", _NOT_FIRST)
async def test_rows_that_cannot_run_do_not_come_first(world: World, name: str) -> None:
    await world.begin("commands", priority=5)
    world.queues = {"else": Queue(priority=-1)}
    await world.write(queue="else", type=ANOTHER)
    assert (await _said(world))[0] == "first"
    await world.connection.execute(_NOT_FIRST[name])
    assert await world.why() == ["next"]
