"""Lists that an operator wants now.

Promises: those of the package; a list that is asked for holds what was filed and what has arrived,
as if it were due. Known limit: a list that is run at that moment is passed over.
"""

from inboxd.errors import NotFound, UnknownName
from inboxd.operations.naming import unknown
from inboxd.store import lists, wakeups
from inboxd.store import operations as audit
from inboxd.store.session import Session

_MOST = 10_000


async def flush(
    session: Session,
    topic: str,
    key: str | None = None,
    *,
    actor: str,
    reason: str | None = None,
) -> list[str]:
    """Let the lists of a batch topic that wait be due now, or that of one key; returns their keys.

    Of very many, the 10,000 that would be due first. Raises NotFound when none waits.
    """
    async with session.connection.transaction():
        keys = await lists.flush(session, topic, key, _MOST)
        if not keys:
            if told := await unknown(session, "topic", topic):
                raise UnknownName(told)
            what = f"the key {key!r} of the topic {topic!r}" if key is not None else repr(topic)
            raise NotFound(f"no list of {what} waits; `inboxd topics lists {topic}` shows them")
        await audit.record(session, actor, "flush", f"topic {topic}", reason, len(keys))
        await wakeups.notify(session.connection, session.sql, "events")
    return keys
