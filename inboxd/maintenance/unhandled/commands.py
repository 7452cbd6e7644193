"""Commands that no living worker handles: visible dead letters, after a grace (promise 10, R0.38).

Promises that a type which any living worker declares is never touched. *See:* `judgement`.
"""

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

from inboxd.maintenance.unhandled.judgement import Judgement, dead_letter
from inboxd.model.lane import Key, Sighting
from inboxd.store import commands, limits, workers
from inboxd.store.connections import Connection
from inboxd.store.pools import lend, transaction
from inboxd.store.statements import Statements
from inboxd.store.workers import LiveWorker
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE = 1000

Fail = Callable[[Connection, Statements, Sighting, str, int, timedelta], Awaitable[int]]


async def fail_commands(judgement: Judgement) -> None:
    """Make dead letters of the commands, in lanes and with keys, that nobody has handled."""
    context = judgement.context
    async with lend(context.pool) as connection:
        async with transaction(context.pool, connection):
            living = await workers.living(connection, context.sql)
            lanes = await commands.survey(connection, context.sql)
            keyed = await limits.survey(connection, context.sql)
        fails: dict[Key, Fail] = {lane.key: commands.fail_unhandled for lane in lanes}
        fails |= {(line.queue, line.type, "keyed"): limits.fail_unhandled for line in keyed}
        lost = [key for key in fails if _is_lost(judgement, key, living)]
        for key in judgement.due(lost):
            await _fail(judgement, connection, key, fails[key])


def _is_lost(judgement: Judgement, key: Key, living: Sequence[LiveWorker]) -> bool:
    queue, type_, _ = key
    return judgement.is_open("queue", str(queue), str(type_)) and not any(
        type_ in row["commands"] and (not row["queues"] or queue in row["queues"]) for row in living
    )


async def _fail(judgement: Judgement, connection: Connection, key: Key, fail: Fail) -> None:
    sql, type_, lane = judgement.context.sql, str(key[1]), Sighting(key, None, None)
    error = dead_letter("command", type_)

    async def page() -> tuple[int, bool]:
        failed = await fail(connection, sql, lane, error, _PAGE, judgement.grace)
        return failed, failed > 0

    if total := await judgement.each_page(connection, page):
        _log.error("no handler", kind="command", type=type_, dead_letters=total)
