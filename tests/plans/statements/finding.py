"""Cases of the statements of lists, with the planner settings that each list uses."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Literal
from uuid import UUID

from inboxd.store import endpoints, finding
from inboxd.store.finding import Filter, Index, Looked, Turn
from inboxd.store.session import Session
from tests.plans.filling import Known
from tests.plans.statements.case import Case

_TOP = 2**63 - 1
_EVER = (datetime(1970, 1, 1, tzinfo=UTC), datetime(9999, 1, 1, tzinfo=UTC))
_NONE = ((_EVER[1], _EVER[1]), (_EVER[1], _EVER[1]))
_TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
_DAY = (_TODAY, _TODAY + timedelta(days=1))
# All columns that a filter can name, with names that no row has.
_ABSENT_NAMES: Mapping[str, Any] = dict.fromkeys(
    ("type", "tenant", "lane", "error", "entity_type", "entity_id"), "none"
)
_NOTHING = Filter(
    **_ABSENT_NAMES,
    statuses=["succeeded"],
    since=_EVER[0],
    until=_EVER[1],
    payload=['{"a": 1}'],
)
_THEN = Filter(since=_TODAY, until=_EVER[1], by="done")
_COMMANDS = Filter(commands=["failed", "running", "succeeded"])

# Topics, queues, and types of commands.
_LANES = (["lines", "long", "default"], ["keyed", "big"], ["few", "keyed"])

_INDEXES: tuple[Index, ...] = ("type", "tenant", "entity")

Table = Literal["events", "commands"]


def _events(known: Known) -> list[tuple[int, UUID, datetime]]:
    return [(id_, known.one("events"), _TODAY) for id_ in known.of("events big")]


def _case(work: Callable[[Session], Awaitable[object]]) -> Case:
    async def look(session: Session, known: Known) -> object:
        await finding.plan_looks(session, walk=True)
        return await work(session)

    return look


def _turn(table: Table, wanted: Filter = _NOTHING, below: int = _TOP) -> Turn:
    return Turn(table, wanted, below, 10, 10)


async def _in_range(session: Session, table: Table) -> Looked:
    await finding.plan_looks(session, walk=False)
    return await finding.look_at_settled(session, _turn(table, below=100), _EVER, _NONE, dense=True)


async def _by_index(table: Table, index: Index, session: Session) -> Looked:
    return await finding.look_by_index(session, _turn(table), index, _DAY)


def _of(table: Table) -> dict[str, tuple[Case, tuple[str, ...]]]:
    key = (f"{table}_pkey",)
    found = [(1, None), (2, None), (3, _TODAY)]
    return {
        f"find_{table}": (_case(lambda s: finding.look_at_unsettled(s, _turn(table))), key),
        f"find_{table}_settled": (
            _case(lambda s: finding.look_at_settled(s, _turn(table), _EVER, _NONE)),
            (),
        ),
        f"find_{table}_in_range": (_case(lambda s: _in_range(s, table)), ()),
        **{
            f"find_{table}_by_{index}": (
                _case(partial(_by_index, table, index)),
                (f"{table}_history_{_TODAY:%Y%m%d}_{index}",),
            )
            for index in _INDEXES
        },
        f"statuses_{table}": (_case(lambda s: finding.statuses(s, table, found)), key),
        f"found_{table}": (_case(lambda s: finding.rows(s, table, found)), key),
        f"lowest_after_{table}": (
            _case(lambda s: finding.lowest_after(s, table, _TODAY, _DAY, none=_TOP, near=5)),
            (),
        ),
    }


FINDING = {
    **_of("events"),
    **_of("commands"),
    "find_events, done then": (
        _case(lambda s: finding.look_at_unsettled(s, _turn("events", _THEN))),
        ("events_pkey",),
    ),
    "find_events_settled, done then": (
        _case(lambda s: finding.look_at_settled(s, _turn("events", _THEN), _EVER, _NONE)),
        (),
    ),
    "find_events, commands": (
        _case(lambda s: finding.look_at_unsettled(s, _turn("events", _COMMANDS))),
        ("events_pkey", "commands_children", "commands_running"),
    ),
    "commands_of_events": (
        lambda s, k: finding.commands_of(s, _events(k), 11, timedelta(days=1)),
        ("commands_children", "commands_running", "batches_causation"),
    ),
    "rows_of_key": (
        lambda s, _: finding.of_key(s, "k7", *_LANES, 20),
        ("events_lines", "commands_line", "commands_holding", "commands_unique_key"),
    ),
    "correlated": (
        lambda s, _: finding.correlated(s, "none", 20, 20, _DAY[0]),
        ("events_pkey", "commands_pkey"),
    ),
    "found_deliveries": (
        _case(lambda s: endpoints.found_deliveries(s, "commands", [(1, None), (3, _TODAY)])),
        ("commands_pkey",),
    ),
    "begin_looks": (lambda s, _: finding.begin_looks(s, "events", "type"), ()),
}
