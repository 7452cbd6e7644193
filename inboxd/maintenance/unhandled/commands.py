"""Commands that no living worker handles: dead letters after a grace (promise 10, R0.38).

Promises that a type which any living worker declares is never touched. *See:* `judgement`.
"""

from collections.abc import Sequence

from inboxd.maintenance.unhandled.judgement import Judgement, dead_letter
from inboxd.model.lane import Key
from inboxd.store import commands, limits, unhandled, workers
from inboxd.store.pools import lend, transaction
from inboxd.store.session import Session
from inboxd.store.unhandled import Way
from inboxd.store.workers import LiveWorker
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE = 1000


async def fail_commands(judgement: Judgement) -> None:
    context = judgement.context
    async with lend(context.pool) as session:
        async with transaction(context.pool, session):
            living = await workers.living(session)
            lanes = await commands.survey(session)
            keyed = await limits.survey(session)
        ways: dict[Key, Way] = {
            lane.key: "suspects" if lane.key[2] is None else "commands" for lane in lanes
        }
        ways |= {(line.queue, line.type, "keyed"): "keyed" for line in keyed}
        lost = [key for key in ways if _is_lost(judgement, key, living)]
        for key in judgement.due(lost):
            await _fail(judgement, session, key, ways[key])


def _is_lost(judgement: Judgement, key: Key, living: Sequence[LiveWorker]) -> bool:
    queue, type_, _ = key
    return judgement.is_open("queue", str(queue), str(type_)) and not any(
        type_ in row["commands"] and (not row["queues"] or queue in row["queues"]) for row in living
    )


async def _fail(judgement: Judgement, session: Session, key: Key, way: Way) -> None:
    type_ = str(key[1])
    error = dead_letter("command", type_)

    async def page() -> tuple[int, bool]:
        failed = await unhandled.fail(session, way, key, error, _PAGE, judgement.grace)
        return failed, failed > 0

    if total := await judgement.each_page(session, page):
        _log.error("no handler", kind="command", type=type_, dead_letters=total)
