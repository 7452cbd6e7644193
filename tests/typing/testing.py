"""Tests of a plugin as its author writes them, without an error of mypy --strict. Not run."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, ClassVar, assert_type
from unittest.mock import AsyncMock

from pydantic import BaseModel

from inboxd import Connection, Handlers, Record
from inboxd.client import Emitted, NewCommand, NewEvent, Sent
from inboxd.testing import (
    Drained,
    Result,
    StoredCommand,
    StoredEvent,
    TestInbox,
    run_command,
    run_event,
)

handlers = Handlers("school")


class ActivityEnded(BaseModel):
    """A class that names its type, as an event and as a command."""

    inboxd_event: ClassVar[str] = "activity.ended"
    inboxd_command: ClassVar[str] = "school.end_activity"

    activity_id: int


class OneAnswer:
    """A connection with the one method that the handler calls."""

    async def fetchval(self, _query: str, *_args: object) -> int:
        """Return 7 for any query."""
        return 7


class Rows:
    """A connection with one other method."""

    async def fetch(self, _query: str, *_args: Any) -> list[dict[str, int]]:
        """Return a row for any query."""
        return [{"id": 1}]


async def test_with_a_fake() -> None:
    found = await run_command(handlers, "school.count", {}, connection=OneAnswer())
    assert_type(found, Result)
    await run_event(handlers, "a.b", {}, connection=Rows(), topic="x", now=datetime.now(UTC))
    await run_event(handlers, "a.b", {}, connection=AsyncMock(spec=Connection))


def test_with_an_inbox(inbox: TestInbox) -> None:
    ended = ActivityEnded(activity_id=1)
    assert_type(inbox.emit(ended, tenant="a"), Emitted)
    assert_type(inbox.send("school.end_activity", {"activity_id": 1}, priority=1), Sent)
    inbox.emit_many([NewEvent("a.b"), ended])
    inbox.send_many([NewCommand(ended), ended])
    assert_type(inbox.drain(check=False, timeout="5s"), Drained)
    assert_type(inbox.travel("1h"), datetime)
    assert_type(inbox.events("a.b", topic="x"), list[StoredEvent])
    assert_type(inbox.assert_sent(ended, count=1), StoredCommand)
    assert_type(inbox.assert_emitted("a.b", ended), StoredEvent)
    assert_type(inbox.fetch("select 1"), Sequence[Record])
