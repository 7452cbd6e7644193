"""Sources of messages: shows their streams, and resets where a stream continues.

Promises: after a reset the reader stores nothing more from the old position, and reads from the new
one within seconds. Known limits: a message whose event is settled becomes an event again; it is not
checked whether the broker has the position.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from inboxd.errors import NotFound, UsageError
from inboxd.model.spelling import did_you_mean
from inboxd.operations.audit import refuse_if_done_since
from inboxd.settings import Settings
from inboxd.store import message_readers
from inboxd.store import operations as audit
from inboxd.store import stream_positions as store
from inboxd.store.session import Session
from inboxd.store.stream_positions import Begins, StreamRow

_BEGINS: Mapping[str, Begins] = {"oldest": "oldest", "newest": "newest"}
# States of workers, the most informative first.
_STATES = ("reading", "lost", "paused", "away", "failing", "standby")
MOST_SHOWN = 1000  # streams in a list
_MOST_DIGITS = 18  # that fit into a bigint


async def one_stream(session: Session, source: str, stream: str) -> StreamRow:
    found = await store.one(session, source, stream)
    if found is None:
        raise NotFound(await _unknown(session, source, stream))
    return found


def has_positions(settings: Settings, source: str) -> bool:
    """Return False for a source without positions, as a RabbitMQ queue."""
    found = settings.inbound.messages.get(source)
    broker = None if found is None else settings.brokers.get(found.broker)
    return not (found and found.rabbitmq_queue and broker and broker.kind == "rabbitmq")


def check_has_positions(settings: Settings, source: str) -> None:
    """Raise UsageError for a source whose streams have no positions."""
    if not has_positions(settings, source):
        raise UsageError(
            f"{source} is a RabbitMQ queue, which has no positions: the broker delivers the "
            "messages that wait in it."
        )


def target_of(source: str, stream: str) -> str:
    return f"stream {source} {stream}"


async def reset_stream(
    session: Session,
    source: str,
    stream: str,
    to: str,
    *,
    actor: str,
    reason: str | None = None,
    seen: int | None = None,
) -> None:
    """seen: the newest entry of its reset that the actor saw.

    Raises UsageError for an invalid place, NotFound for a stream that was never opened, Conflict if
    it was reset since.
    """
    position, begins = _place(to)
    async with session.transaction():
        if seen is not None:
            await refuse_if_done_since(session, "reset", target_of(source, stream), seen)
        if not await store.reset(session, source, stream, position=position, begins=begins):
            raise NotFound(await _unknown(session, source, stream))
        await audit.record(session, actor, "reset", target_of(source, stream), reason, 1, to=to)


def _place(to: str) -> tuple[int | None, Begins | None]:
    if to in _BEGINS:
        return None, _BEGINS[to]
    if to.isascii() and to.isdecimal() and len(to) <= _MOST_DIGITS:
        return int(to), None
    raise UsageError(
        f"{to!r} is not a valid place: give oldest, newest, or the position of the message after "
        "which the stream continues."
    )


async def _unknown(session: Session, source: str, stream: str) -> str:
    if streams := [row["stream"] for row in await store.listed(session, source)]:
        hint = did_you_mean(stream, streams) or "; `inboxd messages list` shows its streams."
        return f"the source {source!r} has no stream {stream!r}{hint}"
    hint = did_you_mean(source, {row["source"] for row in await store.listed(session)})
    return (
        f"no worker has read the source {source!r} yet{hint or '.'} The setting "
        f"inbound.messages.{source}.begin says where it begins"
    )


async def streams(session: Session) -> dict[str, Any]:
    shown, left_out = await store.first(session, MOST_SHOWN)
    return {
        "streams": [dict(row) for row in shown],
        "streams_left_out": left_out,
        "readers": [dict(row) for row in await message_readers.listed(session)],
    }


def streams_read(
    streams: Sequence[Mapping[str, Any]], readers: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return a row for each stream, and for each source without streams, with its reader."""
    by_source: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for reader in readers:
        by_source[reader["source"]].append(reader)
    found = [_row(stream, by_source.get(stream["source"], ())) for stream in streams]
    known = {stream["source"] for stream in streams}
    nothing = {"stream": None, "position": None, "stored_at": None, "opened_at": None}
    nothing |= {"reader": None}
    others = by_source.keys() - known
    found += [_row({"source": each, **nothing}, by_source[each]) for each in others]
    return sorted(found, key=lambda row: (row["source"], row["stream"] or ""))


def _row(stream: Mapping[str, Any], readers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    ranked = sorted(readers, key=lambda each: _STATES.index(each["state"]))
    own = [each for each in ranked if each["worker_id"] == stream["reader"]]
    reader = next((each for each in own if each["state"] != "standby"), ranked[0] if ranked else {})
    # A RabbitMQ queue has no position, and its first message opens it.
    unopened = stream["position"] is None and stream["reader"] is not None
    may_be = bool(own) or unopened or stream["stream"] is None
    reads = reader.get("state") == "reading" and may_be
    return {
        **stream,
        "broker": reader.get("broker"),
        "worker": reader["worker"] if reads else None,
        "state": reader.get("state", "not read"),
        "lag": reader["lag"] if reads else None,
        "trouble": reader.get("trouble"),
    }
