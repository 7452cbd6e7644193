"""Sequential topics with many events: a blocked line, and a hot key.

An event waits only for events before it in its line, and is lined up at most once.
"""

import random
from itertools import pairwise

import pytest

from inboxd import operations
from tests.support import Database, StartWorker, eventually
from tests.support.order import declare_lines, in_order, settled, trail, turns
from tests.support.rows import daemon_session
from tests.support.verdicts import safety

pytestmark = pytest.mark.anyio

# One row for each committed update of an event.
_UPDATES = """
create table updates (id bigint);
create function note_update() returns trigger language plpgsql as $$
    begin insert into public.updates values (old.id); return null; end $$;
create trigger note_update after update on inboxd.events for each row
    execute function note_update();
"""


@pytest.fixture
async def lines(database: Database) -> Database:
    """A database with the trail of the handlers, and the topics declared."""
    await declare_lines(database)
    return database


@pytest.mark.parametrize("action", ["replay", "dismiss"])
@pytest.mark.parametrize(
    "followers",
    [
        1_500,
        pytest.param(100_000, marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(900)]),
    ],
)
async def test_followers_of_a_dead_letter_are_lined_up_once(
    lines: Database, start_worker: StartWorker, followers: int, action: str
) -> None:
    """Other keys drain meanwhile; after an operator's action the followers are handled in order."""
    await lines.execute(_UPDATES)
    await start_worker()
    (head,) = await turns(lines, ["k"], refused=True)
    await turns(lines, ["k"] * (followers - 10))
    others = [f"o{n % 100}" for n in range(500)]
    await turns(lines, others)

    async def lined_up() -> bool:
        count = "select count(*) from inboxd.events where position is not null"
        return bool(await lines.fetchval(count) == followers + 1)

    await settled(lines, len(others), within=120)
    await turns(lines, ["k"] * 10)
    await eventually(lined_up, within=300)
    await turns(lines, others)
    await settled(lines, 2 * len(others), within=120)
    updates = await lines.fetch("select count(*) from updates where id <> $1 group by id", head)
    assert [row[0] for row in updates] == [1] * followers
    with safety():
        assert "k" not in await trail(lines)
    async with daemon_session(lines) as session:
        if action == "replay":
            await session.connection.execute(
                "alter table inboxd.events disable trigger events_immutable;"
                'update inboxd.events set payload = \'{"key": "k"}\' where head;'
                "alter table inboxd.events enable trigger events_immutable"
            )
            await operations.act(session, "events", "replay", [head], actor="test")
        else:
            await operations.act(session, "events", "dismiss", [head], actor="test")
    handled = followers + (action == "replay")
    await settled(lines, 2 * len(others) + handled, within=600)
    with safety():
        assert len((await in_order(lines))["k"]) == handled


@pytest.mark.parametrize(
    "keys",
    [
        500,
        pytest.param(10_000, marks=[pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(600)]),
    ],
)
async def test_a_hot_key_neither_starves_nor_is_starved(
    lines: Database, start_worker: StartWorker, keys: int
) -> None:
    """Neither the hot key nor another one waits long for its next event."""
    page = 20
    hot = ["hot"] * keys
    cool = [f"k{n}" for n in range(keys)] * 3
    await turns(lines, random.Random(7).sample([*hot, *cool], 4 * keys))
    await start_worker({"events": {"page_rows": page}})
    await settled(lines, 4 * keys, within=300)
    found = await in_order(lines)
    with safety():
        assert len(found["hot"]) == keys
    # Keys of the hot key's bucket may stand behind it.
    steps = await lines.fetch(
        "select key = 'hot' as hot from trail"
        " where key = 'hot' or inboxd.bucket_of('ordered', key)"
        " <> inboxd.bucket_of('ordered', 'hot') order by position"
    )
    at = {kind: [n for n, row in enumerate(steps) if row["hot"] == kind] for kind in (True, False)}
    waits = {
        kind: max(b - a for a, b in pairwise([0, *positions])) for kind, positions in at.items()
    }
    # If a page belonged to one bucket, and a round to 64 pages, both waits would be longer.
    assert waits[True] <= 16 * page, waits
    assert waits[False] <= 5 * page, waits
