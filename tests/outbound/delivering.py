"""Sending webhooks to a customer's server, and waiting for what becomes of them."""

import json
from typing import Any

from tests.support import Config, Database, Worker, eventually
from tests.support.waiting import WITHIN

OTHER = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
# Farther away than anything is waited for, so that no poll helps.
NO_POLL: Config = {
    "worker": {"poll_interval": "1h"},
    # ::1 is loopback too, and refused here.
    "outbound": {
        "http": {"keep_answer": 200},
        "webhooks": {"enabled": True, "timeout": "10m", "allow": ["127.0.0.0/8"]},
    },
}
# Attempts that follow each other at once.
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
    """The rows of a query."""
    return [tuple(row) for row in await database.fetch(sql, *arguments)]


async def delivered(database: Database, endpoint: str, count: int, within: float = WITHIN) -> None:
    """Wait until so many deliveries of an endpoint have succeeded."""

    async def are() -> bool:
        found = await database.fetchval(
            "select count(*) from inboxd.commands_history"
            " where queue = $1 and status = 'succeeded'",
            f"webhooks.{endpoint}",
        )
        return bool(found >= count)

    await eventually(are, within)


def logged(worker: Worker, text: str) -> list[dict[str, Any]]:
    """The lines of a worker's log that say this."""
    lines = [json.loads(each) for each in worker.output().splitlines() if each.startswith("{")]
    return [each for each in lines if text in each.get("message", "")]
