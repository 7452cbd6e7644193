"""Events of batch topics whose chunks no worker handles any more, or whose mode changed.

After the grace they move to their lanes, as events that run alone; if no worker takes them there,
`events` decides (promise 10). A topic whose workers ended less than a week ago is left alone: a
chunk waits in any case, and the workers may return in time.
"""

from inboxd.maintenance.unhandled.judgement import Judgement
from inboxd.model.horizon import BUCKETS
from inboxd.store import chunks, lines, topics
from inboxd.store.pools import lend, transaction
from inboxd.store.session import Session
from inboxd.telemetry.logs import get_logger

_log = get_logger(__name__)

_PAGE = 1_000


async def release_chunks_to_lanes(judgement: Judgement) -> None:
    context = judgement.context
    async with lend(context.pool) as session:
        async with transaction(context.pool, session):
            arrived, heads = await lines.survey(session)
            modes = await topics.modes(session)
            served = await topics.served(session)
        waiting = {each.topic for each in arrived if each.mode == "batch"}
        waiting |= {str(seen.key[0]) for seen, mode in heads if mode == "batch"}
        lost = [
            (topic,)
            for topic in sorted(waiting)
            if judgement.is_open("topic", topic, "")
            and not (modes.get(topic) == "batch" and topic in served)
        ]
        for (topic,) in judgement.due(lost):
            await _release(judgement, session, topic)


async def _release(judgement: Judgement, session: Session, topic: str) -> None:
    buckets = [(topic, bucket) for bucket in range(BUCKETS)]

    async def page() -> tuple[int, bool]:
        await lines.hold(session, buckets)
        moved = await chunks.release_topic_to_lanes(session, topic, _PAGE, judgement.grace)
        return moved, moved > 0

    if moved := await judgement.each_page(session, page):
        what = "events of a topic are in no chunk any more: they run alone"
        _log.error(what, topic=topic, events=moved)
