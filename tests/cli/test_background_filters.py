"""Filters of actions on all rows that match: the same rows as in a list with the same filter."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inboxd import operations
from inboxd.operations.bulk import match_of
from inboxd.operations.bulk_orders import statuses_of
from inboxd.store import operations as store
from inboxd.store.operator_sessions import open_session
from inboxd.store.session import Session
from inboxd.store.wakeups import HotTable
from tests.cli.conftest import Cli
from tests.cli.dead_letters import Sql, audited, dead, statuses
from tests.support import Database
from tests.support.bulk_actions import steps
from tests.support.rows import settings_of

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def _at(minute: int) -> datetime:
    return NOON + timedelta(minutes=minute)


# Number, minute of creation, minutes of failed attempts, minute of the dead letter, entity.
ROWS: list[tuple[int, int, list[int], int | None, tuple[str, str] | None]] = [
    (1, 0, [10], 10, ("order", "1")),
    (2, 0, [10, 30], 30, ("order", "2")),
    (3, 20, [30], 30, ("user", "1")),
    (4, 0, [10], None, ("order", "1")),
    (5, 20, [], None, None),
]
# A filter, with minutes as times; the dead letters and the waiting rows that match it.
FILTERS: list[tuple[dict[str, Any], list[int], list[int]]] = [
    ({"until": 15}, [1, 2], [4]),
    ({"since": 15}, [3], [5]),
    ({"since": 5, "until": 25}, [3], [5]),
    ({"by": "ended", "since": 5, "until": 15}, [1], []),
    ({"by": "failed", "since": 25, "until": 35}, [2, 3], []),
    ({"by": "failed", "since": 5, "until": 15}, [1, 2], [4]),
    ({"by": "done", "since": 5, "until": 15}, [1, 2], [4]),
    ({"by": "done", "until": 5}, [], []),
    ({"by": "waiting", "since": 12, "until": 18}, [2], [4]),
    ({"entity": "order"}, [1, 2], [4]),
    ({"entity": "order:1"}, [1], [4]),
    ({"entity": ":1"}, [1, 3], [4]),
    ({"entity": "order:1", "by": "failed", "since": 25}, [], []),
]


def _texts(filters: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: _at(value).isoformat() if isinstance(value, int) else value
        for name, value in filters.items()
    }


async def _fill(database: Database, table: str) -> None:
    """Write the rows; the database gives them their numbers as ids."""
    lane, names = "queue", "'default'"
    if table == "events":
        lane, names = "topic, mode", "'default', 'single'"
    await database.execute(f"alter table inboxd.{table} disable trigger user")
    for _, created, failed, died, entity in ROWS:
        errors = [{"error": "gone", "at": _at(minute).isoformat()} for minute in failed]
        await database.execute(
            f"insert into inboxd.{table} ({table[:-1]}_id, {lane}, type, payload, status, attempts,"
            " errors, created_at, updated_at, entity_type, entity_id)"
            f" values (gen_random_uuid(), {names}, 'a.b', '{{}}', $1, 1, $2::text::jsonb, $3, $4,"
            " $5, $6)",
            "pending" if died is None else "failed",
            json.dumps(errors) if errors else None,
            _at(created),
            _at(created if died is None else died),
            *(entity or (None, None)),
        )


@pytest.mark.anyio
@pytest.mark.parametrize("table", ["events", "commands"])
async def test_filter_of_an_action_matches_the_rows_of_a_list(
    database: Database, table: HotTable
) -> None:
    await _fill(database, table)
    async with open_session(settings_of(database), part="admin") as session:
        for filters, dead_ones, waiting in FILTERS:
            for verb, expected in (("replay", dead_ones), ("reschedule", waiting)):
                allowed = statuses_of(verb)  # type: ignore[arg-type] # both are verbs
                listed = operations.read_filter(_texts(filters), statuses=allowed)
                found = await operations.find(session, table, listed, limit=100)
                assert sorted(row["id"] for row in found.rows) == expected, (filters, verb)
                assert await _matched(session, table, allowed, filters) == [expected] * 3, filters
                wanted = operations.read_selection(_texts(filters))
                shown = await operations.preview_all(session, table, verb, wanted)  # type: ignore[arg-type]
                assert (shown.count, shown.whole) == (len(expected), True)


async def _matched(
    session: Session, table: HotTable, allowed: tuple[str, ...], filters: Mapping[str, Any]
) -> list[list[int]]:
    """Return the ids by the statements that look ahead, check held rows, and count."""
    wanted = operations.read_selection(_texts(filters))
    match = await match_of(session, table, allowed, wanted)
    shown = await operations.preview_all(
        session, table, "replay" if "failed" in allowed else "reschedule", wanted
    )
    held: Any = [{"id": number} for number, *_ in ROWS]
    still = await store.still_matching(session, table, match, held)
    count, last = await store.count(session, table, match)
    ahead = [row["id"] for row in shown.sample]
    assert last == max(ahead, default=0)
    by_count = ahead if count == len(ahead) else [count]
    return [ahead, [row["id"] for row in still], by_count]


def test_dead_letters_of_a_moment_are_replayed_and_audited(
    cli: Cli, sql: Sql, database: Database
) -> None:
    before, within, again, other = (dead(sql, "commands") for _ in range(4))
    sql("update inboxd.commands set updated_at = $1", _at(10))
    sql("update inboxd.commands set updated_at = $1 where id = $2", _at(-1), before)
    sql("update inboxd.commands set entity_type = 'user', entity_id = '1' where id = $1", other)
    sql("update inboxd.commands set entity_type = 'order', entity_id = '1' where id <> $1", other)
    filters = ("--by", "ended", "--since", _at(0), "--until", _at(20), "--entity", "order:1")
    dry = cli("commands", "replay", *filters, "--dry-run", "--json").json
    assert [row["id"] for row in dry["sample"]] == [within, again]
    told = cli("commands", "replay", *filters, "--background", "--delay", "0s")
    assert told.out.startswith("Action 1: replay 2 commands, starts at "), told.err
    assert cli("actions", "show", 1, "--json").json["selection"] == {
        "since": "2026-01-31T12:00:00+00:00",
        "until": "2026-01-31T12:20:00+00:00",
        "by": "ended",
        "entity_type": "order",
        "entity_id": "1",
    }
    # A colleague replayed it by hand, and it failed again.
    sql("update inboxd.commands set updated_at = $1 where id = $2", _at(60), again)
    steps(database, 2)
    shown = cli("actions", "show", 1, "--json").json
    assert (shown["status"], shown["done"], shown["left_out"]) == ("completed", 1, 0)
    hot = sql("select id from inboxd.commands where status = 'failed' order by id")
    assert [row["id"] for row in hot] == [before, again, other]
    times = "since=2026-01-31 12:00:00+00:00 until=2026-01-31 12:20:00+00:00"
    assert audited(sql) == [("replay", f"commands {times} by=ended entity=order:1", 1)]


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (("--by", "failed"), "by 'failed' needs a time"),
        (("--by", "yesterday", "--since", "2h"), "by must be one of created, ended"),
        (("--entity", ""), "is not a valid entity"),
        (("--entity", ":"), "is not a valid entity"),
        (("--until", "soon"), "soon"),
    ],
)
def test_filter_that_would_match_any_row_is_refused(
    cli: Cli, sql: Sql, filters: tuple[str, ...], said: str
) -> None:
    row = dead(sql, "commands")
    for more in ((), ("--background",)):
        refused = cli("commands", "replay", *filters, *more)
        assert (refused.code, said in refused.err) == (2, True), refused.err
    assert statuses(sql) == {row: "failed"}
