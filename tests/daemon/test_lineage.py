"""Lineage as workers write it, without the handlers' help: the whole story, from its last row."""

from collections import Counter
from uuid import uuid4

import pytest

from inboxd import operations
from tests.daemon.inbox import Inbox
from tests.support import eventually
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio

TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


async def test_a_story_is_found_from_its_last_row(inbox: Inbox) -> None:
    """An event's handler makes a batch of three members, one of them a batch; `then` runs last."""
    key = uuid4()
    await inbox.write(
        "event",
        "batch.make",
        {"members": ["", ""], "inner": [[""]]},
        event_id=key,
        traceparent=TRACE,
    )

    async def last() -> int | None:
        found: int | None = await inbox.database.fetchval(
            "select id from inboxd.commands_history where correlation_id = $1"
            " and type = 'batch.told' and payload ->> 'say' = 'then'",
            str(key),
        )
        return found

    await eventually(last)
    async with daemon_session(inbox.database) as session:
        told = await last()
        assert told is not None
        found = await operations.trace(session, told, kind="command")
    rows = [node.member for node in found.top.walk()]
    assert found.asked == ("command", told)
    assert found.top.member.uuid == key
    assert {row.correlation_id for row in rows} == {str(key)}
    assert {row.traceparent for row in rows} == {TRACE}
    uuids = {row.uuid for row in rows}
    assert all(row.causation_id in uuids for row in rows[1:])
    assert all(row.origin_kind in ("event", "batch") for row in rows[1:])
    (made,) = found.top.children
    assert (made.member.kind, made.member.type) == ("batch", "made")
    below = Counter(child.member.type for child in made.children)
    # The continuations of the inner batch belong to the outer batch, which ends after them.
    assert below == {"batch.work": 2, "inner": 1, "batch.told": 6}
    (inner,) = (child for child in made.children if child.member.kind == "batch")
    assert "batch.work" in {child.member.type for child in inner.children}
