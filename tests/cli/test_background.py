"""Actions that are ordered with --background: the orders, and their execution by workers."""

from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import pytest

from inboxd import operations
from inboxd.errors import Conflict, NotFound
from inboxd.operations import OrderTerms, Selection
from inboxd.store.operator_sessions import open_session
from tests.cli.conftest import Cli
from tests.cli.dead_letters import (
    Sql,
    audited,
    dead,
    fail,
    insert,
    operator,
    run,
    statuses,
)
from tests.support import Database
from tests.support.bulk_actions import ordered, steps
from tests.support.locks import lock_awaited
from tests.support.rows import daemon_session, settings_of

BACKGROUND = ("--background", "--delay", "0s")


def _dead(sql: Sql, count: int, table: str = "commands", **values: Any) -> list[int]:
    return [dead(sql, table, **values) for _ in range(count)]


def _shown(cli: Cli, id_: int = 1) -> Any:
    return cli("actions", "show", id_, "--json").json


def test_order_is_described_and_starts_later(cli: Cli, sql: Sql) -> None:
    ids = _dead(sql, 3, type="mail")
    result = cli("commands", "replay", "--type", "mail", "--reason", "it is back", "--background")
    assert result.code == 0, result.err
    assert result.out.startswith("Action 1: replay 3 commands, starts at ")
    assert "To abort it: inboxd actions abort 1" in result.out
    assert set(statuses(sql)) == set(ids)
    assert audited(sql) == [("replay", "commands type=mail", 0)]
    (row,) = sql("SELECT *, starts_at - created_at AS delay FROM inboxd.actions")
    assert (row["status"], row["reason"], row["counted"]) == ("scheduled", "it is back", 3)
    assert 4 < row["delay"].total_seconds() < 6


@pytest.mark.parametrize("table", ["events", "commands"])
def test_matching_rows_are_replayed_once_and_the_audit_grows(
    cli: Cli, sql: Sql, database: Database, table: str
) -> None:
    ids = _dead(sql, 5, table, type="mail", tenant="a")
    other = dead(sql, table, type="post")
    assert cli(table, "replay", "--type", "mail", "--rate", "2", *BACKGROUND).code == 0
    later = dead(sql, table, type="mail")
    steps(database)
    assert audited(sql) == [("replay", f"{table} type=mail", 2)]
    assert _shown(cli)["share"] == 0.4
    # Rows that fail again, in place or as new rows, are not replayed twice.
    sql(f"UPDATE inboxd.{table} SET status = 'failed' WHERE status = 'pending'")
    steps(database, 5)
    assert audited(sql) == [("replay", f"{table} type=mail", 5)]
    shown = _shown(cli)
    assert (shown["status"], shown["done"], shown["left_out"]) == ("completed", 5, 0)
    replays = sql("SELECT old_id FROM inboxd.replays ORDER BY old_id")
    assert [row["old_id"] for row in replays] == ids
    hot = {id_: status for id_, status in statuses(sql, table).items() if id_ in (other, later)}
    assert set(hot.values()) == {"failed"}


def test_dismiss_cancel_reschedule_and_prioritize(cli: Cli, sql: Sql, database: Database) -> None:
    gone = _dead(sql, 2)
    pending, running, other = (insert(sql, "commands", type=t) for t in ("x", "x", "y"))
    moved = insert(sql, "commands", type="z")
    run(sql, running)
    for line in (
        ("dismiss", "--all"),
        ("cancel", "--type", "x"),
        ("reschedule", "--type", "z", "--at", "2100-01-01T00:00Z"),
        ("prioritize", "--type", "z", "--priority", "-7"),
    ):
        result = cli("commands", *line, *BACKGROUND)
        assert result.code == 0, result.err
    steps(database, 8)
    assert statuses(sql) == {
        **dict.fromkeys(gone, "dismissed"),
        pending: "cancelled",
        running: "running",
        other: "pending",
        moved: "pending",
    }
    assert sql("SELECT id FROM inboxd.commands WHERE cancel_requested")[0]["id"] == running
    (row,) = sql("SELECT priority, run_at FROM inboxd.commands WHERE id = $1", moved)
    assert (row["priority"], row["run_at"].year) == (-7, 2100)
    assert audited(sql) == [
        ("dismiss", "commands", 2),
        ("cancel", "commands type=x", 2),
        ("reschedule to 2100-01-01T00:00:00Z", "commands type=z", 1),
        ("prioritize to -7", "commands type=z", 1),
    ]


def test_row_that_was_settled_meanwhile_is_skipped_and_counted(
    cli: Cli, sql: Sql, database: Database
) -> None:
    first, second, third = _dead(sql, 3)
    unique = dead(sql, "commands", unique_key="k")
    assert cli("commands", "replay", "--all", *BACKGROUND).code == 0
    insert(sql, "commands", unique_key="k")  # now this command holds the key
    assert cli("commands", "replay", second).code == 0
    steps(database, 2)
    shown = _shown(cli)
    assert (shown["status"], shown["done"], shown["left_out"]) == ("completed", 2, 1)
    found = statuses(sql)
    assert found[unique] == "failed"
    assert len([row for row in found.values() if row == "pending"]) == 4
    assert audited(sql)[0] == ("replay", "commands", 2)
    assert {first, third} < set(found)


def test_abort_undoes_an_order_only_before_its_start(
    cli: Cli, sql: Sql, database: Database
) -> None:
    ids = _dead(sql, 4)
    cli("commands", "dismiss", "--all", "--background")
    told = cli("actions", "abort", 1, "--reason", "the wrong ones")
    assert told.out == (
        "Action 1. Undone: it was aborted before it began, and nothing was changed.\n"
    )
    steps(database, 2)
    assert set(statuses(sql).values()) == {"failed"}
    cli("commands", "dismiss", "--all", "--rate", "1", *BACKGROUND)
    steps(database)
    told = cli("actions", "abort", 2)
    assert told.out == "Action 2. Aborted: 1 command of 4 dismissed.\n"
    steps(database, 3)
    assert list(statuses(sql).values()).count("dismissed") == 1
    assert statuses(sql)[ids[0]] == "dismissed"
    assert audited(sql) == [
        ("dismiss", "commands", 0),
        ("abort", "action 1", 0),
        ("dismiss", "commands", 1),
        ("abort", "action 2", 1),
    ]
    assert (
        cli("actions", "abort", 2).err.strip().endswith("has ended (aborted); nothing was changed")
    )


def test_resumed_order_continues_where_its_pause_began(
    cli: Cli, sql: Sql, database: Database
) -> None:
    _dead(sql, 4)
    cli("commands", "dismiss", "--all", "--rate", "1", *BACKGROUND)
    steps(database)
    assert cli("actions", "pause", 1, "--reason", "look").code == 0
    steps(database, 3)
    shown = _shown(cli)
    assert (shown["status"], shown["done"], shown["share"]) == ("paused", 1, 0.25)
    assert shown["note"].endswith(": look")
    out = cli("actions", "show", 1).out
    assert f"[{'#' * 7}{'.' * 23}] 25%  Paused: 1 command of 4 dismissed." in out
    assert "at most 1 row a second" in out
    listed = cli("actions", "list").out
    assert "dismiss commands" in listed
    assert "25%" in listed
    assert cli("actions", "list", "--limit", "1", "--json").json["next"] == 1
    assert cli("actions", "show", 2).code == 1
    assert "is paused already" in cli("actions", "pause", 1).err
    assert cli("actions", "resume", 1).code == 0
    assert "not paused" in cli("actions", "resume", 1).err
    steps(database, 5)
    assert _shown(cli)["status"] == "completed"
    assert set(statuses(sql).values()) == {"dismissed"}
    assert [line[:2] for line in audited(sql)] == [
        ("dismiss", "commands"),
        ("pause", "action 1"),
        ("resume", "action 1"),
    ]
    assert audited(sql)[0][2] == 4


def _succeed(sql: Sql, *ids: int) -> None:
    sql(
        """WITH gone AS (DELETE FROM inboxd.commands WHERE id = ANY ($1) RETURNING *)
           INSERT INTO inboxd.commands_history
                  (id, command_id, queue, type, schema_version, priority, status, attempts,
                   crashes, fence, run_at, cancel_requested, origin_kind, created_at, updated_at,
                   finished_at, awaited)
           SELECT id, command_id, queue, type, schema_version, priority, 'succeeded', 1, 0, 1,
                  run_at, false, 'api', created_at, now(), now(), false FROM gone""",
        list(ids),
    )


def _pending(sql: Sql) -> list[int]:
    return [
        row["id"]
        for row in sql("SELECT id FROM inboxd.commands WHERE status = 'pending' ORDER BY id")
    ]


def test_successful_canary_is_followed_by_the_other_rows(
    cli: Cli, sql: Sql, database: Database
) -> None:
    _dead(sql, 14)
    cli("commands", "replay", "--all", "--canary", *BACKGROUND)
    steps(database, 4)
    canary = _pending(sql)
    assert len(canary) == 10
    assert _shown(cli)["status"] == "canary"
    _succeed(sql, *canary[:9])
    steps(database, 2)
    assert _shown(cli)["done"] == 10
    _succeed(sql, canary[9])
    steps(database, 3)
    shown = _shown(cli)
    assert (shown["status"], shown["done"]) == ("completed", 14)
    assert audited(sql) == [("replay", "commands", 14)]


def test_failed_canary_pauses_the_order(cli: Cli, sql: Sql, database: Database) -> None:
    _dead(sql, 14)
    cli("commands", "replay", "--all", "--canary", *BACKGROUND)
    steps(database)
    first, *canary = _pending(sql)
    _succeed(sql, *canary)
    fail(sql, "commands", first)
    steps(database, 3)
    shown = _shown(cli)
    assert (shown["status"], shown["done"]) == ("paused", 10)
    assert shown["note"] == (
        f"the canary failed: 1 of the first 10 did not succeed: command {first} is failed"
    )
    # To resume it is to continue in spite of the canary.
    cli("actions", "resume", 1)
    steps(database, 2)
    assert (_shown(cli)["status"], _shown(cli)["done"]) == ("completed", 14)


def test_order_smaller_than_its_canary_ends_with_it(cli: Cli, sql: Sql, database: Database) -> None:
    _dead(sql, 3)
    cli("commands", "replay", "--all", "--canary", *BACKGROUND)
    steps(database, 3)
    assert _shown(cli)["status"] == "canary"
    _succeed(sql, *_pending(sql))
    steps(database)
    assert _shown(cli)["status"] == "completed"


def test_failing_transaction_is_retried_then_the_order_pauses(
    cli: Cli, sql: Sql, database: Database
) -> None:
    _dead(sql, 12)
    cli("commands", "replay", "--all", "--canary", *BACKGROUND)
    sql(
        "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN RAISE EXCEPTION 'not now'; END $$"
    )
    sql(
        "CREATE TRIGGER refuse BEFORE DELETE ON inboxd.commands"
        " FOR EACH ROW EXECUTE FUNCTION refuse()"
    )
    steps(database, 2)
    assert _shown(cli)["status"] == "scheduled"
    steps(database)
    shown = _shown(cli)
    assert (shown["status"], shown["done"]) == ("paused", 0)
    assert "not now" in shown["note"]
    assert audited(sql) == [("replay", "commands", 0)]
    sql("DROP TRIGGER refuse ON inboxd.commands")
    # After the resume the canary comes first.
    cli("actions", "resume", 1)
    steps(database, 3)
    assert (_shown(cli)["status"], _shown(cli)["done"]) == ("canary", 10)


def test_order_of_some_tenants_is_hidden_from_other_tenants(sql: Sql, database: Database) -> None:
    mine, other = dead(sql, "commands", tenant="a"), dead(sql, "commands", tenant="b")

    async def act(session: Any) -> None:
        limited = Selection(tenants=("a", "c"))
        shown = await operations.order(
            session, "commands", "dismiss", limited, OrderTerms(), actor="me"
        )
        assert shown["counted"] == 1
        assert (await operations.orders(session, tenants={"a", "c"}))[0]["id"] == shown["id"]
        assert await operations.orders(session, tenants={"a"}) == []
        for control in (operations.one_order, operations.abort_order):
            who = {} if control is operations.one_order else {"actor": "me"}
            with pytest.raises(NotFound, match="no bulk action 1"):
                await control(session, shown["id"], tenants={"a"}, **who)
        theirs = Selection(tenant="b", tenants=("a",))
        with pytest.raises(NotFound, match="no matching row"):
            await operations.order(session, "commands", "dismiss", theirs, OrderTerms(), actor="me")

    anyio.run(operator, database, act)
    steps(database, 2)
    assert statuses(sql) == {mine: "dismissed", other: "failed"}
    assert audited(sql) == [("dismiss", "commands tenants=a,c", 1)]


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["replay", "--all", "--canary"], 2, "need --background"),
        (["replay", "--all", "--delay", "5s"], 2, "need --background"),
        (["replay", "1", "--background"], 2, "--background does not take ids"),
        (["dismiss", "--all", "--background", "--canary"], 2, "there is no canary for dismiss"),
        (["replay", "--all", "--background", "--rate", "0"], 2, "a rate of 0"),
        (["replay", "--all", "--background", "--rate", "1e6"], 2, "give 0.001 to 10,000"),
        (["replay", "--all", "--background", "--delay", "8d"], 2, "at most 7 days"),
        (["replay", "--type", "y", "--background"], 66, "y"),
        (["replay", "--type", "y", "--force", "--background"], 1, "no matching row"),
        (["reschedule", "--type", "x", "--at", "2h"], 2, "only with --background"),
        (["prioritize", "--priority", "1"], 2, "choose the rows to be prioritized"),
        (["prioritize", "--all", "--priority", "40000", "--background"], 2, "priority 40000"),
    ],
)
def test_invalid_orders_are_refused(
    cli: Cli, sql: Sql, arguments: list[str], code: int, said: str
) -> None:
    dead(sql, "commands", type="x")
    result = cli("commands", *arguments)
    assert (result.code, result.out) == (code, "")
    assert said in result.err
    assert sql("SELECT * FROM inboxd.actions") == []
    assert audited(sql) == []


def test_order_at_a_terminal_asks_for_confirmation(cli: Cli, sql: Sql) -> None:
    dead(sql, "commands")
    dry = cli("commands", "replay", "--all", "--background", "--dry-run")
    assert "1 command would be replayed" in dry.err
    refused = cli("commands", "replay", "--all", "--background", stdin="n\n", terminal=True)
    assert refused.code == 1
    assert sql("SELECT * FROM inboxd.actions") == []
    cli("commands", "replay", "--all", "--background", stdin="y\n", terminal=True)
    assert len(sql("SELECT * FROM inboxd.actions")) == 1


def test_too_many_unfinished_orders_are_refused(cli: Cli, sql: Sql) -> None:
    dead(sql, "commands")
    for _ in range(20):
        assert cli("commands", "replay", "--all", "--background").code == 0
    result = cli("commands", "replay", "--all", "--background")
    assert result.code != 0
    assert "has 20 unfinished bulk actions" in result.err
    assert "the limit of one actor" in result.err
    assert len(audited(sql)) == 20


@pytest.mark.anyio
async def test_unfinished_orders_have_a_limit_per_actor_and_one_for_all(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.operations.bulk_orders.MOST_OPEN", 2)
    monkeypatch.setattr("inboxd.operations.bulk_orders.MOST_OPEN_OF_ALL", 3)
    await database.execute("INSERT INTO inboxd.commands (type, status) VALUES ('x', 'failed')")

    async def order(actor: str) -> None:
        await operator(
            database,
            lambda session: operations.order(
                session, "commands", "dismiss", Selection(), OrderTerms(), actor=actor
            ),
        )

    for actor in ("user eve", "user eve", "user ada"):
        await order(actor)
    for actor, limit in (("user eve", "user eve has 2 unfinished"), ("user bob", "of all actors")):
        with pytest.raises(Conflict, match=limit):
            await order(actor)
    await database.execute(
        "UPDATE inboxd.actions SET status = 'aborted', ended_at = now() WHERE actor = 'user ada'"
    )
    await order("user bob")


@pytest.mark.anyio
async def test_concurrent_orders_do_not_exceed_the_limit(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.operations.bulk_orders.MOST_OPEN", 1)
    await database.execute(
        "INSERT INTO inboxd.commands (queue, type, status) VALUES ('q', 'x', 'failed')"
    )

    async def order(session: Any) -> None:
        await operations.order(
            session, "commands", "dismiss", Selection(), OrderTerms(), actor="me"
        )

    async def second() -> None:
        with pytest.raises(Conflict, match="me has 1 unfinished bulk actions"):
            await operator(database, order)

    async with (
        daemon_session(database) as session,
        anyio.create_task_group() as tasks,
        session.transaction(),
    ):
        await order(session)
        tasks.start_soon(second)
        await lock_awaited(database)
    assert await database.fetchval("SELECT count(*) FROM inboxd.actions") == 1


def test_incomplete_count_is_described_as_at_least(
    cli: Cli, sql: Sql, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inboxd.operations.bulk_orders.COUNTED_TO", 3)
    monkeypatch.setattr("inboxd.operations.bulk_orders.LOOKED_AT", 4)
    monkeypatch.setattr("inboxd.operations.bulk_orders.LOOK", 2)
    monkeypatch.setattr("inboxd.operations.bulk_runs.LOOK", 2)
    _dead(sql, 5)
    dry = cli("commands", "dismiss", "--all", "--background", "--dry-run")
    assert "At least 3 commands would be dismissed" in dry.err
    assert "dismiss at least 3 commands" in cli("commands", "dismiss", "--all", *BACKGROUND).out
    pending = [insert(sql, "commands", type="x" if n == 3 else "y") for n in range(4)]
    told = cli("commands", "cancel", "--type", "x", "--force", *BACKGROUND)
    assert "cancel at least 0 commands" in told.out
    steps(database, 20)
    assert _shown(cli, 1)["done"] == 5
    assert _shown(cli, 2)["done"] == 1
    assert statuses(sql)[pending[3]] == "cancelled"


@pytest.mark.parametrize("table", ["commands", "events"])
def test_dead_letters_are_read_in_steps_even_if_few_match(
    cli: Cli, sql: Sql, database: Database, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    monkeypatch.setattr("inboxd.operations.bulk_runs.LOOK", 4)
    monkeypatch.setattr("inboxd.operations.bulk_orders.LOOK", 4)
    monkeypatch.setattr("inboxd.store.operations._LOOK", 4)
    met = []
    for n in range(30):
        # One type has fewer rows than the others, so that its share grows.
        type_ = "c" if n > 20 else "ab"[n % 2]
        one = dead(sql, table, type=type_, tenant="acme" if n % 10 == 3 else "zeta")
        if n % 10 == 3:
            met.append(one)
    cli(table, "replay", "--tenant", "acme", *BACKGROUND)
    begun = _shown(cli)
    assert (begun["counted"], begun["whole"]) == (3, True)
    steps(database)
    assert (_shown(cli)["status"], _shown(cli)["done"]) == ("running", 1)
    assert 0 < _shown(cli)["share"] < 1
    steps(database, 40)
    assert (_shown(cli)["status"], _shown(cli)["done"]) == ("completed", 3)
    replays = sql("SELECT old_id FROM inboxd.replays ORDER BY old_id")
    assert [row["old_id"] for row in replays] == met
    assert cli(table, "dismiss", "--tenant", "zeta", "--yes").code == 0
    assert list(statuses(sql, table).values()).count("dismissed") == 27


@pytest.mark.direct("the pooler knows one role")
@pytest.mark.anyio
async def test_viewers_cannot_see_selection_and_note_of_an_order(
    database: Database,
) -> None:
    """The role in the database decides, because both may quote an error."""
    id_ = await ordered(database)
    await database.execute("UPDATE inboxd.actions SET note = 'canary'")
    name = f"{database.name}_viewer"
    await database.execute(f"CREATE ROLE {name} LOGIN IN ROLE inboxd_viewer")
    try:
        parts = urlsplit(database.dsn)
        host = parts.netloc.rpartition("@")[2]
        dsn = urlunsplit(parts._replace(netloc=f"{name}@{host}"))
        settings = settings_of(replace(database, dsn=dsn))
        async with open_session(settings, part="admin") as session:
            one = await operations.one_order(session, id_)
            [listed] = await operations.orders(session)
        assert one == listed
        assert (one["selection"], one["note"], one["status"]) == (None, None, "scheduled")
    finally:
        await database.execute(f"DROP ROLE {name}")
    async with daemon_session(database) as session:
        seen = await operations.one_order(session, id_)
    assert (seen["selection"], seen["note"]) == ({"type": "a.b"}, "canary")
