"""Behind a pooler in transaction mode nothing is kept in a session, and nothing is prepared.

Run here on a direct connection: the mode is the same, and what it forbids itself shows.
"""

from typing import Any

import pytest

from tests.support import Database, StartWorker, eventually

pytestmark = pytest.mark.anyio

LEDGER = "create table ledger (kind text, row_id bigint, note text)"
POOLER: dict[str, dict[str, Any]] = {
    "database": {"transaction_pooler": True},
    "wakeups": {"mode": "off"},
    "worker": {"poll_interval": "200ms"},
}


async def test_everything_works_without_sessions(
    database: Database, start_worker: StartWorker
) -> None:
    await database.execute(LEDGER)
    worker = await start_worker(POOLER)
    await database.fetch(
        "select inboxd.emit_event('test.ledger', jsonb_build_object('n', n, 'sends', 1)) "
        "from generate_series(1, 20) as n"
    )

    async def all_done() -> bool:
        counts = await database.fetch(
            "select kind, count(*) as effects, count(distinct row_id) as rows "
            "from ledger group by kind"
        )
        seen = {row["kind"]: (row["effects"], row["rows"]) for row in counts}
        return seen == {"event": (20, 20), "command": (20, 20)}

    await eventually(all_done)
    assert await database.fetchval("select last_value from inboxd.events_flag") == 2, "it is off"
    assert (await worker.stop()) == 0
