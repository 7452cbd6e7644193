"""The verdict finds every broken promise: each invariant notices the row that breaks it."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from inboxd_testplugin.chaos import CHUNK
from tests.chaos.fleet import AT_ONCE, PER_SECOND
from tests.chaos.lanes import LANES
from tests.chaos.ledger import TABLES
from tests.chaos.rows import ROWS
from tests.chaos.verdict import figures, judge
from tests.support import Database
from tests.support.groups import WRONG_GROUPS

pytestmark = pytest.mark.anyio

# -------------------------------------------------------------------- the statements of a run


def key(number: int) -> str:
    """The uuid of a row."""
    return f"00000000-0000-4000-8000-{number:012}"


def produced(number: int, kind: str = "event", wave: int = 1, **script: Any) -> str:
    """A producer's line for one row."""
    return (
        "insert into chaos_produced (producer, wave, kind, key, script)"
        f" values ('p', {wave}, '{kind}', '{key(number)}', '{json.dumps(script)}')"
    )


def promised(kind: str, **script: object) -> str:
    """A line of a producer or an operator, without a row."""
    return f"insert into chaos_produced (kind, script) values ('{kind}', '{json.dumps(script)}')"


def ended(
    number: int, type_: str = "chaos.fact", script: Mapping[str, Any] | None = None, **more: object
) -> str:
    """An event in history, or a command if it has a queue; `more` are further columns."""
    about = {
        "id": number,
        "type": type_,
        "schema_version": 1,
        "payload": json.dumps(script or {}),
        "status": "succeeded",
        "attempts": 1,
        "crashes": 0,
        **dict.fromkeys(("run_at", "created_at", "updated_at", "finished_at"), "now"),
    }
    if "queue" in more:
        place = "commands_history"
        about |= {"command_id": key(number), "priority": 0, "fence": 1}
        about |= {"cancel_requested": "f", "origin_kind": "api"}
    else:
        place = "events_history"
        about |= {"event_id": key(number), "topic": "default", "mode": "single"}
        about |= {"occurred_at": "now"}
    return _insert(f"inboxd.{place}", about | more)


def trace(number: int, kind: str = "event", line: str | None = None, **more: object) -> str:
    given = {} if line is None else {"line": line}
    return _insert("chaos_ledger", {"kind": kind, "key": key(number), **given, **more})


def move(number: int, status: str, at: float, queue: str = "chaos.scarce", **more: object) -> str:
    """A line for a change of a command's status, this many seconds after a fixed moment."""
    when = f"2020-01-01 00:00:{at:09.6f}+00"
    about = {"id": number, "queue": queue, "status": status, "at": when, "started_at": when}
    return _insert("chaos_moves", about | more)


def batch(number: int, **more: object) -> str:
    """A batch that has succeeded."""
    about = {
        "batch_id": key(number),
        "status": "succeeded",
        **dict.fromkeys(("closed_at", "finished_at"), "now"),
    }
    return _insert("inboxd.batches", about | more)


def _insert(table: str, columns: Mapping[str, object]) -> str:
    values = ", ".join(f"'{value}'" for value in columns.values())
    return f"insert into {table} ({', '.join(columns)}) values ({values})"


# -------------------------------------------------------------------------- good and bad runs

_EVENT = f"insert into inboxd.events (type, event_id) values ('chaos.fact', '{key(1)}')"
_DONE = [produced(1), ended(1), trace(1)]
_CHILD = (
    "insert into inboxd.commands (type, origin_kind, origin_id, causation_id, correlation_id)"
    f" values ('chaos.act', 'event', 1, '{key(1)}', '{{}}')"
)


def _lined(number: int, wave: int = 1, topic: str = "chaos_lines", **script: Any) -> list[str]:
    """An event of a line, without its trace."""
    return [
        produced(number, wave=wave, **script),
        ended(number, "chaos.of_lines", script, topic=topic, mode="sequential"),
    ]


def _chunked(number: int) -> list[str]:
    return [produced(number), ended(number, "chaos.of_chunks", topic="chaos_chunks", mode="batch")]


def _keyed(number: int, wave: int = 1) -> list[str]:
    return [
        produced(number, "command", wave),
        ended(number, "chaos.keyed", queue="chaos.keyed", ordering_key="k"),
    ]


def _time(second: int) -> str:
    return f"2020-01-01 00:00:{second:02}+00"


_GOOD = [
    *_DONE,
    # A line in order; an event that leaves its line and is replayed comes late.
    *_lined(2),
    *_lined(3),
    *_lined(4, topic="chaos_skips", heals=key(90)),
    *_lined(5, topic="chaos_skips"),
    *(trace(number, line="l") for number in (2, 3, 5, 4)),
    # Chunks in order, except an event that runs alone.
    *(line for number in (12, 13, 14) for line in _chunked(number)),
    *(trace(n, line="m", chunk=key(chunk_)) for n, chunk_ in ((13, 1), (14, 1), (12, 2))),
    *(line for number in (6, 7) for line in _keyed(number)),
    trace(6, "command", "k", began=_time(1), ended=_time(2)),
    trace(7, "command", "k", began=_time(2), ended=_time(3)),
    # A replayed dead letter: its successor takes its place.
    produced(8, "command"),
    ended(8, "chaos.act", queue="default", status="failed"),
    ended(9, "chaos.act", queue="default", origin_kind="replay", origin_id=8, replay_of=8,
          causation_id=key(8), correlation_id=key(8)),
    trace(9, "command"),
    # The most that the limits allow.
    *(move(n, "running", 1) for n in range(AT_ONCE)),
    *(move(n, "gone", 2) for n in range(AT_ONCE)),
    *(move(n, "running", 2) for n in range(AT_ONCE)),
    *(move(n, "running", 1 + n // PER_SECOND, "chaos.paced") for n in range(2 * PER_SECOND)),
    *(move(n, status, at, "chaos.sole", unique_key="u")
      for n, status, at in [(1, "pending", 1), (1, "failed", 2), (2, "pending", 2)]),
    # Sent twice, written once; sent when it was due.
    promised("once", dedup="shop 1"),
    promised("once", dedup="shop 1"),
    produced(10, dedup="shop 1"),
    ended(10, "chaos.once", {"dedup": "shop 1"}),
    trace(10),
    promised("due", story="a@1"),
    ended(11, "chaos.tick", queue="default", origin_kind="schedule", origin_id=1,
          correlation_id="a@1"),
    trace(11, "command"),
]  # fmt: skip


async def _broken(database: Database, *statements: str) -> set[str]:
    await database.execute(TABLES)
    await database.execute(";\n".join(statements))
    found = {broken.promise for broken in await judge(database, [])}
    await figures(database)
    return found


async def test_a_good_run_breaks_no_promise(database: Database) -> None:
    assert await _broken(database, *_GOOD) == set()


_CASES: list[tuple[str, list[str]]] = [
    ("nothing accepted is lost", [produced(1)]),
    ("rolled-back rows are not there", [ended(1), trace(1)]),
    ("a row is in one place, once", [produced(1), ended(1), ended(1), trace(1)]),
    ("a row is in one place, once", [produced(1), ended(1), _EVENT, trace(1)]),
    ("a payload is the written one", [produced(1), ended(1, script={"n": 1}), trace(1)]),
    ("each row is settled as its script says", [produced(1), _EVENT]),
    (
        "each row is settled as its script says",
        [ended(1, "chaos.act", queue="default", status="cancelled")],
    ),
    ("every effect exactly once", [produced(1), ended(1)]),
    ("every effect exactly once", [*_DONE, trace(1)]),
    (
        "every effect outside the database at least once",
        [ended(1, "chaos.light", queue="light")],
    ),
    ("every child once, and only of rows that succeeded", [*_DONE, _CHILD]),
    (
        "every child once, and only of rows that succeeded",
        [ended(1, script={"children": [{}]})],
    ),
    ("every child once, and only of rows that succeeded", [ended(1, script={"sends": 1})]),
    ("a child's lineage leads to its parent", [ended(1), _CHILD.replace("{}", "another story")]),
    (
        "a child's lineage leads to its parent",
        [ended(1), ended(2, causation_id=key(1), correlation_id="another story")],
    ),
    (
        "no failure without a cause in the script",
        [_EVENT, """update inboxd.events set errors = '[{"error": "ValueError: no"}]'"""],
    ),
    (
        "no failure without a cause in the script",
        [_EVENT, """update inboxd.events set errors = '[{"error": "Reject: until mended"}]'"""],
    ),
    ("ids are not ahead of their sequences", [_EVENT, ended(7)]),
    # --- lines
    (
        "events of a line, and chunks of a key, take effect in the order of ids",
        [*_lined(1), *_lined(2), trace(2, line="l"), trace(1, line="l")],
    ),
    (
        "events of a line, and chunks of a key, take effect in the order of ids",
        [
            statement
            for n, chunk_ in ((2, 1), (3, 1), (1, 2), (4, 2))
            for statement in (*_chunked(n), trace(n, line="l", chunk=key(chunk_)))
        ],
    ),
    (
        "rows of one producer in a line take effect in the order of writing",
        [*_lined(2), *_lined(1, wave=2), trace(1, line="l"), trace(2, line="l")],
    ),
    (
        "rows of one producer in a line take effect in the order of writing",
        [*_keyed(1), *_keyed(2), trace(2, "command", "k"), trace(1, "command", "k")],
    ),
    (
        "two commands of a key never run at once",
        [
            *_keyed(1),
            *_keyed(2),
            trace(1, "command", "k", began=_time(1), ended=_time(4)),
            trace(2, "command", "k", began=_time(3), ended=_time(5)),
        ],
    ),
    (
        "only one worker has claimed commands of a key",
        [
            move(1, "running", 1, ordering_key="k", worker=key(1)),
            move(2, "running", 2, ordering_key="k", worker=key(2)),
        ],
    ),
    # --- chunks
    (
        "a chunk has one key, is in order, and within its length",
        [ended(1), ended(2), trace(1, line="a", chunk=key(1)), trace(2, line="b", chunk=key(1))],
    ),
    (
        "a chunk has one key, is in order, and within its length",
        [ended(1), ended(2), trace(2, line="a", chunk=key(1)), trace(1, line="a", chunk=key(1))],
    ),
    (
        "a chunk has one key, is in order, and within its length",
        [
            statement
            for n in range(CHUNK + 1)
            for statement in (ended(n), trace(n, line="a", chunk=key(1)))
        ],
    ),
    # --- queues and keys
    (
        "running commands of a queue stay within its limit",
        [move(n, "running", 1) for n in range(AT_ONCE + 1)],
    ),
    (
        "claims of a queue stay within its rate",
        [move(n, "running", 1 + n / 100, "chaos.paced") for n in range(PER_SECOND + 1)],
    ),
    (
        "one unsettled command has a unique key",
        [move(n, "pending", n, unique_key="u") for n in (1, 2)],
    ),
    (
        "a command cancelled for its unique key has a successor",
        [ended(1, "chaos.sole", queue="q", status="cancelled", unique_key="u")],
    ),
    (
        "an event with a dedup key happens once",
        [promised("once", dedup="a")],
    ),
    (
        "an event with a dedup key happens once",
        [
            promised("once", dedup="a"),
            *(
                statement
                for n in (1, 2)
                for statement in (ended(n, "chaos.once", {"dedup": "a"}), trace(n))
            ),
        ],
    ),
    ("each run of a schedule is sent once", [promised("due", story="a")]),
    (
        "each run of a schedule is sent once",
        [promised("due", story="a")]
        + [ended(n, source="schedule s", correlation_id="a") for n in (1, 2)],
    ),
    # --- batches and workflows
    (
        "batches and workflows: edges left",
        [f"insert into inboxd.dependencies (needs, waiting) values ('{key(1)}', '{key(2)}')"],
    ),
    ("batches and workflows: batches not ended", [batch(1, status="running")]),
    ("batches and workflows: counts", [batch(1, size=2, succeeded=2)]),
    (
        "batches and workflows: condition",
        [
            batch(1, status="failed"),
            ended(1, "chaos.told", {"say": "then"}, queue="q", origin_kind="batch", origin_id=1),
        ],
    ),
    (
        "batches and workflows: early",
        [
            batch(1),
            ended(1, "chaos.told", {"say": "then"}, queue="q", origin_kind="batch", origin_id=1,
                  started_at="yesterday"),
            ended(2, "chaos.act", queue="q", batch_id=1),
        ],
    ),
    (
        "batches and workflows: steps",
        [
            batch(1, kind="workflow", origin_kind="event", origin_id=1),
            ended(1, "chaos.group", {"steps": [["a", {}, []], ["b", {}, ["a failed"]]]}),
            ended(2, "chaos.act", queue="q"),
            ended(3, "chaos.act", queue="q"),
            _insert("inboxd.steps", {"batch_id": 1, "name": "a", "member": key(2)}),
            _insert("inboxd.steps", {"batch_id": 1, "name": "b", "member": key(3)}),
        ],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("promise", "statements"), _CASES)
async def test_each_case_breaks_its_promise(
    database: Database, promise: str, statements: list[str]
) -> None:
    assert promise in await _broken(database, *statements)


def test_each_promise_has_a_case() -> None:
    groups = {f"batches and workflows: {name}" for name in WRONG_GROUPS}
    assert {promise for promise, _ in _CASES} == {*ROWS, *LANES, *groups}
