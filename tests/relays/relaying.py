"""Relays to a broker of lines: settings, events, and checks of the order of messages.

await start_worker(relaying(broker))
await emit(database, ["k", "k", None])
await settled(database, 3)
in_order(broker.taken)
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tests.support import Config, Database, eventually
from tests.support.line_broker import LineBroker, Message


def relaying(
    broker: LineBroker, relay: Mapping[str, object] | None = None, *more: Config
) -> Config:
    """The settings of a worker that publishes `match.result` and `match.goal`."""
    types = ["match.result", "match.goal"]
    return {
        "brokers": {"lines": {"kind": "lines", "servers": [broker.server]}},
        "relays": {"results": {"broker": "lines", "types": types, **(relay or {})}},
        "retry": {"kind": "fixed", "base": "50ms", "attempts": 3},
        **{name: section for each in more for name, section in each.items()},
    }


async def emit(
    database: Database,
    keys: Sequence[str | None],
    *,
    start: int = 1,
    type_: str = "match.result",
) -> None:
    """Write an event for each key, numbered from `start` on."""
    await database.execute(
        "insert into inboxd.events (type, ordering_key, payload) "
        "select $1, key, to_jsonb(n + $3::integer - 1) "
        "from unnest($2::text[]) with ordinality as given(key, n) order by n",
        type_,
        list(keys),
        start,
    )


async def settled(database: Database, count: int, status: str = "succeeded") -> None:
    """Wait until `count` events are settled."""

    async def find() -> bool:
        found = await database.fetchval(
            "select count(*) from inboxd.events_history where status = $1", status
        )
        return bool(found >= count)

    await eventually(find)


async def attempts(database: Database) -> set[int]:
    """The numbers of attempts that settled events have spent."""
    rows = await database.fetch("select distinct attempts from inboxd.events_history")
    return {row["attempts"] for row in rows}


def firsts(taken: Sequence[Message]) -> dict[str | None, list[Any]]:
    """The bodies of taken messages by key, without repetitions."""
    found: dict[str | None, list[Any]] = {}
    for each in taken:
        bodies = found.setdefault(each["key"], [])
        if each["body"] not in bodies:
            bodies.append(each["body"])
    return found


def in_order(taken: Sequence[Message]) -> None:
    """Each key's messages first came in order, and a repetition came only behind its original."""
    for key, bodies in firsts(taken).items():
        if key is not None:
            assert bodies == sorted(bodies), key
