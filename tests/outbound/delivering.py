"""Sends webhooks to a customer's server, and waits for their deliveries.

await send(database, {"id": 7})
await delivered(database, "acme", 1)
"""

import json
from typing import Any

from tests.support import Config, Database, Worker, eventually
from tests.support.waiting import WITHIN

OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
# Longer than any wait of the tests, so that no delivery depends on a poll.
NO_POLL: Config = {
    "worker": {"poll_interval": "1h"},
    # ::1 is also loopback, but is refused here.
    "outbound": {
        "http": {"keep_answer": 200},
        "webhooks": {"enabled": True, "timeout": "10m", "allow": ["127.0.0.0/8"]},
    },
}
# Attempts without a wait between them.
QUICK: Config = {
    **NO_POLL,
    "types": {"webhook.deliver": {"retry": {"kind": "fixed", "base": "50ms", "attempts": 1000}}},
}


async def send(database: Database, data: object = None, **options: object) -> None:
    """Send a webhook as a producer does."""
    names = "".join(f", {name} => ${place}" for place, name in enumerate(options, 2))
    text = json.dumps({} if data is None else data)
    await database.fetch(
        f"select inboxd.send_webhook('user.created', $1::jsonb{names})", text, *options.values()
    )


async def rows(database: Database, sql: str, *arguments: Any) -> list[tuple[Any, ...]]:
    """The rows of a query, as tuples."""
    return [tuple(row) for row in await database.fetch(sql, *arguments)]


async def delivered(database: Database, endpoint: str, count: int, within: float = WITHIN) -> None:
    """Wait until this many deliveries of an endpoint have succeeded."""

    async def are() -> bool:
        found = await database.fetchval(
            "select count(*) from inboxd.commands_history"
            " where queue = $1 and status = 'succeeded'",
            f"webhooks.{endpoint}",
        )
        return bool(found >= count)

    await eventually(are, within)


def logged(worker: Worker, text: str) -> list[dict[str, Any]]:
    """The lines of a worker's log with this text."""
    lines = [json.loads(each) for each in worker.output().splitlines() if each.startswith("{")]
    return [each for each in lines if text in each.get("message", "")]
