"""Commands that expire under a worker: before their claim, behind another, in a paused queue."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from inboxd.operations import controls
from tests.daemon.inbox import Inbox
from tests.support import StartWorker, Worker, eventually
from tests.support.rows import daemon_session

pytestmark = pytest.mark.anyio

# The worker's leader looks for expired commands each second; else it sleeps for an hour.
QUIET: dict[str, Any] = {"worker": {"poll_interval": "1h"}, "maintenance": {"interval": "1h"}}


def soon(seconds: float = 0) -> datetime:
    return datetime.now(UTC) + timedelta(seconds=seconds)


async def assert_expired(inbox: Inbox, row_id: int) -> None:
    row = await inbox.settled("command", row_id)
    assert (row["status"], row["attempts"], row["cancel_requested"]) == ("cancelled", 0, False)
    assert await inbox.notes(row_id) == [], "no handler began"


async def eventually_counted(worker: Worker, queue: str, type_: str) -> None:
    labels = f'{{queue="{queue}",type="{type_}"}}'

    async def is_counted() -> bool:
        return await worker.metric(f"inboxd_commands_expired_total{labels}") == 1

    await eventually(is_counted)


async def test_expired_command_never_begins(own: Inbox, start_worker: StartWorker) -> None:
    """It was late when the worker came."""
    late = await own.write("command", "test.ledger", expires_at=soon())
    early = await own.write("command", "test.ledger", expires_at=soon(3600))
    worker = await start_worker(QUIET)
    await own.succeeded("command", early)
    await assert_expired(own, late)
    await eventually_counted(worker, "default", "test.ledger")


async def test_command_behind_another_of_its_key_expires(
    own: Inbox, start_worker: StartWorker
) -> None:
    """It may be leased already. The next one of its key goes on."""
    first, second, third = [
        await own.write(
            "command", "test.block", {"seconds": seconds}, ordering_key="a", expires_at=expires_at
        )
        for seconds, expires_at in ((3, None), (0, soon(2)), (0, soon(3600)))
    ]
    await start_worker(QUIET)
    await own.succeeded("command", first, third)
    await assert_expired(own, second)


async def test_command_of_a_paused_queue_expires(own: Inbox, start_worker: StartWorker) -> None:
    async with daemon_session(own.database) as session:
        await controls.pause(session, "queue", "held", actor="ada", reason=None)
    worker = await start_worker(QUIET)
    late = await own.write("command", "test.ledger", queue="held", expires_at=soon(1))
    unserved = await own.write("command", "nobody.serves", expires_at=soon(1))
    await assert_expired(own, late)
    await assert_expired(own, unserved)
    await worker.logged("commands have expired before they started")
    await eventually_counted(worker, "held", "test.ledger")


async def test_retry_does_not_expire(own: Inbox, start_worker: StartWorker) -> None:
    """It waits for an hour; a command that expires later shows that its own time has passed."""
    tried = await own.write("command", "test.slow_thread", {"seconds": 1}, expires_at=soon(3600))
    await start_worker(QUIET)
    await own.errors("command", tried)
    await own.database.execute("update inboxd.commands set expires_at = now()")
    await assert_expired(own, await own.write("command", "nobody.serves", expires_at=soon()))
    row = await own.hot("command", tried)
    assert row is not None
    assert (row["status"], row["attempts"]) == ("pending", 1)
