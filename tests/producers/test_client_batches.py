"""`inboxd.client` sends batches and workflows on every kind of connection."""

import json
from datetime import UTC, datetime
from typing import Any, cast
from uuid import UUID, uuid4

import pytest

from inboxd.client import Inbox, NewCommand, NewStep
from inboxd.errors import PayloadError, UsageError
from tests.producers.conftest import Producer, settled
from tests.support import Database

pytestmark = pytest.mark.anyio

inbox = Inbox()
THEN, ALERT, END = (NewCommand(f"school.{name}", queue="q") for name in ("then", "alert", "end"))
LATER = datetime(2030, 1, 1, tzinfo=UTC)


def mails(count: int) -> list[NewCommand]:
    return [NewCommand("school.mail", {"n": n}, queue="email") for n in range(count)]


async def waiting(database: Database) -> dict[str, str]:
    """The commands that wait for a batch, with their conditions."""
    rows = await database.fetch(
        "select c.type, d.condition from inboxd.dependencies d "
        "join inboxd.commands c on c.command_id = d.waiting"
    )
    return {row["type"].removeprefix("school."): row["condition"] for row in rows}


async def test_a_batch_is_written_with_the_producers_rows(
    producer: Producer, database: Database
) -> None:
    cause = uuid4()
    members = [
        *mails(2),
        NewCommand("school.mail", {"é": 1}, queue="email", priority=3, run_at=LATER, tenant="b"),
    ]
    sent = await settled(
        inbox.send_batch(
            producer.connection,
            "mails",
            members,
            then=THEN,
            otherwise=[ALERT],
            finally_=END,
            type="school.mails",
            tenant="a",
            correlation_id="story",
            causation_id=cause,
            traceparent="00-1-2-01",
        )
    )
    assert await database.fetch("select from inboxd.batches") == []
    await settled(producer.commit())
    (row,) = await database.fetch("select * from inboxd.batches")
    assert (row["id"], row["batch_id"]) == tuple(sent)
    assert row["type"] == "school.mails"
    assert (row["name"], row["size"], row["tenant"], row["correlation_id"]) == (
        "mails",
        3,
        "a",
        "story",
    )
    assert (row["causation_id"], row["traceparent"]) == (cause, "00-1-2-01")
    assert row["closed_at"] is not None
    rows = await database.fetch(
        "select payload, priority, run_at, tenant from inboxd.commands where batch_id = $1 "
        "order by id",
        row["id"],
    )
    assert [json.loads(each["payload"]) for each in rows] == [{"n": 0}, {"n": 1}, {"é": 1}]
    assert (rows[2]["priority"], rows[2]["run_at"], rows[2]["tenant"]) == (3, LATER, "b")
    assert rows[0]["tenant"] == "a"
    assert await waiting(database) == {"then": "succeeded", "alert": "failed", "end": "finished"}


async def test_a_batch_larger_than_a_page_is_filled_page_by_page(
    producer: Producer, database: Database
) -> None:
    sent = await settled(
        inbox.send_batch(producer.connection, "mails", iter(mails(2_500)), then=THEN)
    )
    await settled(producer.commit())
    (row,) = await database.fetch("select * from inboxd.batches")
    assert (row["batch_id"], row["size"], row["status"]) == (sent.batch_id, 2_500, "pending")
    assert row["closed_at"] is not None


async def test_an_open_batch_is_filled_and_closed(producer: Producer, database: Database) -> None:
    opened = await settled(
        inbox.open_batch(producer.connection, "big", expires="2h", then=THEN, batch_id=uuid4())
    )
    for _ in range(2):
        added = await settled(
            inbox.add_to_batch(producer.connection, opened.batch_id, mails(1_200))
        )
        assert added == 1_200
    assert await settled(inbox.add_to_batch(producer.connection, opened.batch_id, [])) == 0
    assert await settled(inbox.close_batch(producer.connection, opened.batch_id)) is None
    await settled(producer.commit())
    (row,) = await database.fetch(
        "select *, expires_at - created_at as open_for from inboxd.batches"
    )
    assert (row["size"], row["closed_at"] is not None) == (2_400, True)
    assert 7_199 < row["open_for"].total_seconds() < 7_210


async def test_a_workflow_is_sorted_and_sent(producer: Producer, database: Database) -> None:
    steps = [
        NewStep("users", THEN, after="basic"),
        NewStep("undo", ALERT, after=[("basic", "failed")]),
        NewStep("report", END, after=["basic", ("users", "finished")]),
        NewStep("basic", NewCommand("school.basic", queue="q")),
    ]
    sent = await settled(inbox.send_workflow(producer.connection, "seed", steps, then=mails(1)))
    await settled(producer.commit())
    rows = await database.fetch(
        "select s.name, c.needs, c.status, "
        "array(select n.name || ' ' || d.condition from inboxd.dependencies d "
        "join inboxd.steps n on n.member = d.needs where d.waiting = c.command_id order by 1) "
        "as waits from inboxd.steps s join inboxd.commands c on c.command_id = s.member "
        "where s.batch_id = $1",
        sent.id,
    )
    assert {row["name"]: row["waits"] for row in rows} == {
        "basic": [],
        "users": ["basic succeeded"],
        "undo": ["basic failed"],
        "report": ["basic succeeded", "users finished"],
    }


A = NewCommand("a", queue="q")


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ([NewStep("a", A, after="b"), NewStep("b", A, after="a")], "in a circle"),
        ([NewStep("a", A, after="b")], "'a' waits for 'b', which is not a step"),
        ([NewStep("a", A), NewStep("a", A)], "a step 'a' already"),
        ([NewStep("a", A, after="a")], "'a' waits for itself"),
        ([NewStep("", A)], "step 0: name has 0 bytes"),
        ([NewStep("a", A), NewStep("b", A, after=[("a", "won")])], "'won' is not a condition"),
        ([A], "step 0 is a NewCommand"),
    ],
)
def test_a_wrong_graph_is_refused_before_anything_is_sent(steps: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        inbox.send_workflow(SILENT, "seed", steps)


class _Silent:
    """A connection that fails when a statement is sent."""

    def cursor(self, **_: object) -> Any:
        pytest.fail("a statement was sent")


# The client recognizes drivers by these names.
_Silent.__module__, _Silent.__name__ = "psycopg", "Connection"
SILENT: Any = _Silent()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (NewCommand("a", correlation_id="x"), "correlation_id belongs to the whole"),
        (NewCommand(""), "type has 0 bytes"),
        (NewCommand("a", priority=10**6), "priority must lie between"),
        ({"type": "a"}, "command 0 is a dict"),
    ],
)
def test_a_bad_member_is_named(command: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        inbox.send_batch(SILENT, "b", [command])
    with pytest.raises(UsageError, match=message):
        inbox.send_batch(SILENT, "b", [], then=[command])


def test_other_mistakes_are_named() -> None:
    with pytest.raises(PayloadError, match=r"x: .* cannot be stored"):
        inbox.send_batch(SILENT, "b", [NewCommand("a", {"x": "\0"})])
    with pytest.raises(UsageError, match="expires must be longer than 0s"):
        inbox.open_batch(SILENT, "b", expires="0s")
    with pytest.raises(UsageError, match=r"must be a uuid\.UUID"):
        inbox.close_batch(SILENT, cast("UUID", "x"))
    with pytest.raises(UsageError, match="name has 300 bytes"):
        inbox.send_batch(SILENT, "b" * 300, [])


async def test_a_closed_batch_is_refused_by_the_database(
    producer: Producer, database: Database
) -> None:
    sent = await settled(inbox.send_batch(producer.connection, "b", mails(1)))
    with pytest.raises(Exception, match="is closed: nothing can be added"):
        await settled(inbox.add_to_batch(producer.connection, sent.batch_id, mails(1)))
