"""What a worker that joins tells the database: queues, retry rules, schedules, topics.

Owns the order of it. Promises that producers' inserts are filled in by what the newest worker
declared. Known limit: what a worker declares stays when it ends, until somebody declares otherwise
or nobody has declared it for a week.
"""

from collections.abc import Sequence

from inboxd.api.schedules import Schedule
from inboxd.runtime.registry import Registry
from inboxd.runtime.rules import declared_rules
from inboxd.settings import Settings
from inboxd.store import schedules, topics, workers
from inboxd.store.connections import Connection
from inboxd.store.statements import Statements
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)


async def declare(
    connection: Connection,
    sql: Statements,
    settings: Settings,
    registry: Registry,
    to_send: Sequence[Schedule],
) -> None:
    """Publish what this worker declares; `to_send`: its schedules."""
    queues = {type_: handler.queue for type_, handler in registry.commands.items()}
    await workers.declare(connection, sql, queues, declared_rules(settings, registry))
    await schedules.declare(connection, sql, to_send)
    changed = await topics.declare(
        connection, sql, registry.topics.values(), registry.subscriptions
    )
    for row in changed:
        _log.warning(
            "a topic has another mode now; what was written before keeps the old one",
            topic=row["name"],
            mode=row["mode"],
            was=row["was"],
        )
