"""`inboxd commands edit` changes waiting commands where that is safe; shows and audits it."""

import json
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import anyio
import pytest

from inboxd import operations
from inboxd.errors import Conflict
from inboxd.model.lane import Lane
from inboxd.operations import CommandEdit
from inboxd.store import commands
from tests.cli.conftest import Cli
from tests.cli.dead_letters import Sql, audited, dead, insert, operator, run
from tests.support import Database
from tests.support.locks import lock_awaited
from tests.support.rows import daemon_session, join
from tests.support.verdicts import safety

EXACT = '{"big": 12345678901234567890123, "long": 0.10000000000000000001}'


def _row(sql: Sql, id_: int) -> Any:
    return sql("SELECT *, payload::text AS said FROM inboxd.commands WHERE id = $1", id_)[0]


def test_waiting_command_gets_another_payload_time_and_priority(cli: Cli, sql: Sql) -> None:
    id_ = insert(sql, "commands", payload='{"n": 1, "kept": true}', priority=3)
    at = "2030-01-31T08:00:00Z"
    given = ("--payload", '{"n": 2, "kept": true}', "--at", at, "--priority", "-5")
    done = cli("commands", "edit", id_, *given, "--reason", "after the sale")
    assert done.code == 0, done.err
    assert f"Edited: command {id_}" in done.out
    for line in ('-   "n": 1', '+   "n": 2', "priority: 3 -> -5", "run at: "):
        assert line in done.out
    row = _row(sql, id_)
    assert json.loads(row["said"]) == {"n": 2, "kept": True}
    assert (row["run_at"], row["priority"]) == (datetime.fromisoformat(at), -5)
    assert audited(sql) == [
        ("edit to another payload, 2030-01-31T08:00:00Z, priority -5", f"commands {id_}", 1)
    ]
    assert "after the sale" in cli("audit", "--action", "edit", "--json").out
    assert '"n"' not in cli("audit", "--json").out, "the audit has no payload"


def test_dry_run_shows_the_changes_and_makes_none(cli: Cli, sql: Sql) -> None:
    id_ = insert(sql, "commands", payload='{"n": 1}')
    before = _row(sql, id_)
    dry = cli("commands", "edit", id_, "--payload", '{"n": 2}', "--dry-run")
    assert (dry.code, '+   "n": 2' in dry.out) == (0, True)
    assert "These fields would change." in dry.err
    found = cli("commands", "edit", id_, "--priority", "0", "--dry-run", "--json")
    assert found.json == {"command": id_, "changes": []}
    same = cli("commands", "edit", id_, "--payload", '{ "n":1 }')
    assert (same.code, "has these values already" in same.err) == (1, True)
    with safety():
        assert _row(sql, id_) == before
        assert audited(sql) == []


def test_payload_keeps_all_digits_and_may_be_large(cli: Cli, sql: Sql) -> None:
    id_ = insert(sql, "commands", payload="{}")
    assert cli("commands", "edit", id_, "--payload", EXACT).code == 0
    assert _row(sql, id_)["said"] == EXACT
    large = json.dumps({"text": "x" * 300_000})
    done = cli("commands", "edit", id_, "--payload", "-", stdin=large)
    assert (done.code, "too large to show" in done.out) == (0, True), done.err
    assert json.loads(_row(sql, id_)["said"]) == json.loads(large)
    # The command refers to no body any longer.
    assert (_row(sql, id_)["body_id"], _row(sql, id_)["body_bytes"]) == (None, None)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ((), "the edit has no change"),
        (("--payload", '{"n": '), "is not valid JSON"),
        (("--payload", r'"\u0000"'), "the database refuses it"),
        (("--at", "soon"), "neither a duration"),
        (("--priority", "99999"), "priority 99999"),
    ],
)
def test_invalid_edits_are_refused(cli: Cli, sql: Sql, given: tuple[str, ...], told: str) -> None:
    id_ = insert(sql, "commands", payload="{}")
    refused = cli("commands", "edit", id_, *given)
    assert (refused.code, told in refused.err) == (2, True), refused.err
    assert audited(sql) == []


def test_edit_of_a_started_command_is_refused_with_the_reason(cli: Cli, sql: Sql) -> None:
    """The payload is fixed after the first attempt; all fields once it runs or has ended."""
    again = insert(sql, "commands", payload="{}")
    sql("UPDATE inboxd.commands SET fence = 1, attempts = 1 WHERE id = $1", again)
    refused = cli("commands", "edit", again, "--payload", "[]", "--priority", "7")
    assert (refused.code, "had an attempt already" in refused.err) == (1, True)
    assert _row(sql, again)["priority"] == 0, "nothing was changed"
    assert cli("commands", "edit", again, "--priority", "7").code == 0
    runs, failed = insert(sql, "commands"), dead(sql, "commands")
    run(sql, runs)
    for id_, status in ((runs, "running"), (failed, "failed")):
        refused = cli("commands", "edit", id_, "--priority", "7")
        assert f"{id_} is {status}: only pending or waiting can be edited" in refused.err
        assert "replay-with" in refused.err
    sent = insert(sql, "commands", queue="webhooks.acme", type="webhook.deliver", payload="{}")
    refused = cli("commands", "edit", sent, "--payload", "[]")
    assert (refused.code, "is a delivery of a fact" in refused.err) == (1, True)
    assert cli("commands", "edit", sent, "--at", "2h").code == 0
    assert cli("commands", "edit", 999, "--at", "2h").code == 1


def test_edit_payload_changes_only_commands_that_never_started(sql: Sql) -> None:
    """The function changes only payloads of commands that never started."""
    ids = [insert(sql, "commands", payload="{}") for _ in range(5)]
    for id_, change in zip(
        ids,
        ("fence = 1", "attempts = 1", "crashes = 1", "status = 'failed'", "priority = 1"),
        strict=True,
    ):
        sql(f"UPDATE inboxd.commands SET {change} WHERE id = $1", id_)
    changed = [sql("SELECT inboxd.edit_payload($1, '[]')", id_)[0][0] for id_ in ids]
    with safety():
        assert changed == [None, None, None, None, ids[-1]]


def test_edit_during_a_claim_is_refused(database: Database, sql: Sql) -> None:
    """A claim commits while the edit waits for the row: the edit is refused."""
    id_ = insert(sql, "commands", payload='{"n": 1}')

    async def both() -> Any:
        ended: list[Any] = []

        async def edit() -> None:
            wanted = CommandEdit(payload='{"n": 2}', run_at=datetime.now(UTC) + timedelta(hours=2))
            edit_it = partial(operations.edit_command, id=id_, wanted=wanted, actor="me")
            try:
                ended.append(await operator(database, edit_it))
            except Conflict as error:
                ended.append(str(error))

        async with daemon_session(database) as worker, anyio.create_task_group() as group:
            me = await join(worker)
            transaction = worker.transaction()
            await transaction.start()
            lane = Lane(("default", "a.b", 0))
            taken = await commands.claim(worker, me, {"default": 1}, [lane], 1)
            assert [row["id"] for row in taken] == [id_]
            group.start_soon(edit)
            await lock_awaited(database, 1)
            await transaction.commit()
        return ended

    (ended,) = anyio.run(both)
    with safety():
        assert "is running: only pending or waiting can be edited" in ended
        assert json.loads(_row(sql, id_)["said"]) == {"n": 1}
        assert audited(sql) == []
