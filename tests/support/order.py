"""Order in sequential topics: events to handle in order, and the trail that handlers write.

    await declare_lines(database)
    await turns(database, ["a", "b"] * 50)
    await settled(database, 100)
    await in_order(database)

Promises: `in_order` compares the commits of handlers with the order of ids of each key; a missing
or repeated event is a Violation.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import asyncpg

from tests.support.databases import Database
from tests.support.verdicts import Late, Violation, safety
from tests.support.waiting import WITHIN, eventually

TRAIL = """
create table trail (
    position bigserial primary key, topic text, key text, event bigint, attempt int
);
"""

_TOPICS = """
insert into inboxd.topics (name, mode, key_path, source)
    values ('ordered', 'sequential', '{key}', 'test'), ('skipping', 'sequential', '{key}', 'test');
insert into inboxd.subscriptions (type, topic)
    values ('test.turn', 'ordered'), ('test.other_turn', 'ordered'),
           ('test.skipping_turn', 'skipping');
"""


async def declare_lines(database: Database) -> None:
    """Create the trail, and declare the test plugin's sequential topics before a worker does."""
    await database.execute(TRAIL)
    await database.execute(_TOPICS)


async def turns(
    where: "Database | asyncpg.Connection",
    keys: Sequence[str],
    type_: str = "test.turn",
    **payload: object,
) -> list[int]:
    """Insert an event for each key, in this order; return their ids. The type selects the topic."""
    rows = await where.fetch(
        "insert into inboxd.events (type, payload) select $1, $2::text::jsonb || "
        "jsonb_build_object('key', key) from unnest($3::text[]) with ordinality as t(key, n)"
        " order by n returning id",
        type_,
        json.dumps(payload),
        list(keys),
    )
    return [row[0] for row in rows]


async def settled(database: Database, count: int, within: float = WITHIN) -> None:
    """Wait until this many events have succeeded."""

    async def have() -> bool:
        done = await database.fetchval(
            "select count(*) from inboxd.events_history where status = 'succeeded'"
        )
        return bool(done >= count)

    try:
        await eventually(have, within)
    except Late as error:
        _hold_order(await trail(database))  # a wrong order is worse than a late event
        left = await _stuck(database)
        if not left and not await have():
            raise Violation(f"{error}: no unsettled event is left, so events are lost") from error
        raise Late(f"{error}: {left}") from error


async def _stuck(database: Database) -> list[tuple[object, ...]]:
    """The first unsettled events of some lines, and the sessions that hold their buckets."""
    rows = await database.fetch(
        "select distinct on (e.topic, ordering_key) ordering_key, e.bucket, e.id, status, position,"
        " head, attempts, crashes, run_at - now() as due_in,"
        " count(*) over (partition by ordering_key),"
        " (select array_agg(row(l.mode, l.granted, a.application_name, a.state, a.wait_event,"
        " now() - a.state_change, a.query)::text)"
        " from pg_locks l join pg_stat_activity a using (pid)"
        " where l.locktype = 'advisory' and l.objsubid = 2 and l.objid = e.bucket) as held"
        " from inboxd.events e order by e.topic, ordering_key, position, id limit 20"
    )
    return [tuple(row) for row in rows]


async def trail(database: Database) -> dict[str, list[int]]:
    """The events of each key, in the order in which handlers committed them."""
    found: dict[str, list[int]] = {}
    for row in await database.fetch("select key, event from trail order by position"):
        found.setdefault(row["key"], []).append(row["event"])
    return found


async def in_order(database: Database) -> Mapping[str, list[int]]:
    """Assert that each key's events were handled once, in the order of ids; return the trail.

    Raises Violation.
    """
    found = await trail(database)
    done = await database.fetch(
        "select ordering_key as key, array_agg(id order by id) as ids from inboxd.events_history"
        " where status = 'succeeded' and mode = 'sequential' group by 1"
    )
    expected: dict[str, Any] = {row["key"]: row["ids"] for row in done}
    _hold_order(found)
    with safety():
        assert found == expected, "settled events differ from the trail"
    return found


def _hold_order(trails: Mapping[str, Sequence[int]]) -> None:
    with safety():
        for key, events in trails.items():
            wrong = [pair for pair in pairwise(events) if pair[1] <= pair[0]]
            assert not wrong, f"key {key!r}: out of order or repeated: {wrong[:10]}"
