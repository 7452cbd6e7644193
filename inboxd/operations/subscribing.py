"""Subscriptions that an operator ends before their week is over.

Promises: those of the package; what a living worker declares is not ended, since it would be back
at that worker's next start. Known limit: events that were written for the topic already stay.
"""

from inboxd.errors import Conflict, NotFound, UnknownName
from inboxd.operations.naming import unknown
from inboxd.store import operations as audit
from inboxd.store import topics
from inboxd.store.session import Session


async def unsubscribe(
    session: Session,
    topic: str,
    type: str | None = None,
    *,
    actor: str,
    reason: str | None = None,
) -> list[str]:
    """Give no more events of `type`, or of any, to a topic; returns the types.

    Raises NotFound when the topic has no such subscription, Conflict when a living worker declares
    it.
    """
    async with session.connection.transaction():
        known = [each for each in await topics.listed(session) if each["topic"] == topic]
        types = [each for each in (known[0]["types"] if known else ()) if type in (None, each)]
        if not types:
            if told := await unknown(session, "topic", topic):
                raise UnknownName(told)
            what = f"no subscription to {type!r}" if type else "no subscriptions"
            raise NotFound(f"the topic {topic!r} has {what}; `inboxd topics list` shows them")
        ended = await topics.unsubscribe(session.connection, session.sql, topic, type)
        if not ended:
            raise Conflict(
                f"a living worker declares the topic {topic!r} for {', '.join(types)}: "
                "take the handler out of its plugin first"
            )
        await audit.record(session, actor, "unsubscribe", f"topic {topic}", reason, len(ended))
    return ended
