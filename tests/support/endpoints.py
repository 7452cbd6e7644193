"""Endpoints as rows of the database, and the deliveries to them.

In a test: `await add(database, "shop", "order.paid")`, then `await deliveries(database)`.
"""

import json
from typing import Any

from tests.support.databases import Database

SECRET = "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"


async def add(database: Database, name: str, *types: str, **columns: Any) -> None:
    """Insert an endpoint for these types (all, if none is named), with one secret."""
    given: dict[str, Any] = {
        "name": name,
        "url": f"https://{name}.example/hooks",
        "types": list(types or ["*"]),
        "secrets": json.dumps([{"secret": SECRET, "created_at": "2026-01-01T00:00:00Z"}]),
        **columns,
    }
    places = ", ".join(f"${number}" for number in range(1, len(given) + 1))
    await database.execute(
        f"insert into inboxd.endpoints ({', '.join(given)}) values ({places})", *given.values()
    )


async def deliveries(database: Database) -> list[dict[str, Any]]:
    """The unsettled deliveries, ordered by endpoint, with decoded payloads."""
    rows = await database.fetch(
        "select * from inboxd.commands where type = 'webhook.deliver' order by queue, id"
    )
    return [{**row, "payload": json.loads(row["payload"])} for row in rows]
