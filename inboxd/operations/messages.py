"""What an operator makes of sources of messages: where the reading of a stream goes on.

Promises: who reads the stream stores nothing more of it under its old position, and reads from the
new one within seconds; the action is audited in the transaction that does it. Known limits: what
was stored of the messages that are read again stays, so what is settled by then becomes an event
once more; a position is not held against the broker, which may not have it.
*See:* `cli/messages.py`, before it; `inbound/messages/streams.py`, which notices.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from inboxd.errors import NotFound, UsageError
from inboxd.model.spelling import did_you_mean
from inboxd.store import message_readers
from inboxd.store import operations as audit
from inboxd.store import stream_positions as store
from inboxd.store.session import Session
from inboxd.store.stream_positions import Begins

_BEGINS: Mapping[str, Begins] = {"oldest": "oldest", "newest": "newest"}
# Of several workers, the first of these tells most of why nobody reads.
_TELLING = ("reading", "lost", "paused", "away", "failing", "standby")
_DIGITS = 18  # what fits into a bigint in any case


async def reset_stream(
    session: Session, source: str, stream: str, to: str, *, actor: str, reason: str | None = None
) -> None:
    """Let a stream be read from the oldest message on, from the newest, or behind a position.

    Raises UsageError for what is no such place, NotFound for a stream that nobody has opened yet.
    """
    position, begins = _place(to)
    async with session.connection.transaction():
        if not await store.reset(session, source, stream, position=position, begins=begins):
            raise NotFound(await _unknown(session, source, stream))
        await audit.record(session, actor, "reset", f"stream {source} {stream}", reason, 1, to=to)


def _place(to: str) -> tuple[int | None, Begins | None]:
    if to in _BEGINS:
        return None, _BEGINS[to]
    if to.isascii() and to.isdecimal() and len(to) <= _DIGITS:
        return int(to), None
    raise UsageError(
        f"{to!r} is no place to go on at: give oldest, newest, or the position of the message "
        "that it is to go on behind."
    )


async def _unknown(session: Session, source: str, stream: str) -> str:
    rows = await store.listed(session)
    streams = [row["stream"] for row in rows if row["source"] == source]
    if streams:
        hint = did_you_mean(stream, streams) or "; `inboxd messages list` has its streams."
        return f"the source {source!r} has no stream {stream!r}{hint}"
    hint = did_you_mean(source, {row["source"] for row in rows})
    return (
        f"nobody has read the source {source!r} yet{hint or '.'} Where it begins is said by "
        f"inbound.messages.{source}.begin"
    )


async def streams(session: Session) -> dict[str, Any]:
    """The streams of sources, and what living workers tell of sources."""
    return {
        "streams": [dict(row) for row in await store.listed(session)],
        "readers": [dict(row) for row in await message_readers.listed(session)],
    }


def streams_read(
    streams: Sequence[Mapping[str, Any]], readers: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """A row for each stream, and for each source without any, with who reads it."""
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
    told = sorted(readers, key=lambda each: _TELLING.index(each["state"]))
    own = [each for each in told if each["worker_id"] == stream["reader"]]
    reader = next((each for each in own if each["state"] != "standby"), told[0] if told else {})
    # A RabbitMQ queue, which has no position, is opened by the first message that comes of it.
    unopened = stream["position"] is None and stream["reader"] is not None
    may_be = bool(own) or unopened or stream["stream"] is None
    reads = reader.get("state") == "reading" and may_be
    return {
        **stream,
        "broker": reader.get("broker"),
        "worker": reader["worker"] if reads else None,
        "state": reader.get("state", "nobody reads it"),
        "lag": reader["lag"] if reads else None,
        "trouble": reader.get("trouble"),
    }
