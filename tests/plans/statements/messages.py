# ruff: noqa: ARG005 - all cases take the same arguments, whether they need them or not
"""Cases of messages from brokers: streams, their readers, and the storing of pages."""

from inboxd.model.lineage import uuid7
from inboxd.model.receipt import ReceivedEvent
from inboxd.store import leases, message_readers, topics
from inboxd.store import stream_positions as store
from inboxd.store.session import Session
from inboxd.store.stream_positions import OpenedStream
from tests.plans.filling import WORKER, Known
from tests.plans.statements.case import Case
from tests.support.messages import received

_STREAM = ("stream_positions_pkey",)


async def _open(session: Session) -> OpenedStream:
    return await store.open_stream(session, "big", "7", WORKER)


def _store(*indexes: str, own: bool = False, **event: str) -> tuple[Case, tuple[str, ...]]:
    """Store a page; own: messages carry their senders' ids."""

    async def case(session: Session, _: Known) -> None:
        opened = await _open(session)
        page = [
            received((opened.position or 0) + n, ReceivedEvent(uuid7(), "few", "{}", **event))
            for n in range(1, 11)
        ]
        for message in page:
            message.stream = opened.stream
            message.other_id = uuid7() if own else None
        await store.store(session, "big", page, [opened])

    return case, (*_STREAM, *indexes)


async def _begin(session: Session, _: Known) -> None:
    opened = await store.open_stream(session, "big", "new", WORKER)
    await store.begin(session, "big", opened, 7, "i")


async def _moved(session: Session, _: Known) -> None:
    await store.moved(session, "big", [await _open(session)])


async def _show(session: Session, _: Known) -> None:
    await message_readers.show(
        session, "big", WORKER, broker="nats", state="reading", trouble=None, lag=7
    )


MESSAGES: dict[str, tuple[Case, tuple[str, ...]]] = {
    "make_lease": (lambda s, k: leases.make(s, "source big"), ()),
    "show_reader": (_show, ()),
    "leave_reader": (lambda s, k: message_readers.leave(s, WORKER), ()),
    "forget_readers": (lambda s, k: message_readers.forget(s), ()),
    "topics_of_types": (
        lambda s, k: topics.of_types(s, ["few", "big"]),
        ("subscriptions_pkey",),
    ),
    "open_stream": (lambda s, k: _open(s), ()),
    "begin_stream": (_begin, _STREAM),
    "moved_streams": (_moved, _STREAM),
    "store_messages": _store(),
    "store_messages, in a line": _store(topic="lines", ordering_key="k1"),
    "store_messages, broken": _store("events_event_id", broken="not JSON"),
    "store_messages, ids of senders": _store("events_event_id", own=True),
    "store_messages, known": _store("dedup_pkey", "events_event_id", dedup_key="7"),
}
STREAMS: dict[str, tuple[Case, tuple[str, ...]]] = {
    "list_streams": (lambda s, k: store.listed(s, limit=10), ()),
    "count_streams": (lambda s, k: s.fetchval("count_streams"), ()),
    "events_there": (
        lambda s, k: store.there(s, [uuid7() for _ in range(100)]),
        ("events_event_id",),
    ),
    "list_readers": (lambda s, k: message_readers.listed(s), ()),
    "reset_stream": (
        lambda s, k: store.reset(s, "big", "7", position=None, begins="oldest"),
        _STREAM,
    ),
}
