"""Decides whether reading can continue behind a stored position without gaps.

Messages that a stream removed before they were stored are never skipped silently. They are removed
- by limits or a purge: the stream then begins later than the message after the position. With a
filter, the removed messages may have been for other consumers, so the durable consumer's
description notes at intervals the position up to which nothing came;
- by an acknowledgement that a restored older database does not know, if the stream drops messages
that all consumers have acknowledged: so the identity contains the delivery there;
- with the stream: another stream has its name, or a stream from a backup, which ends too early.

A position without an identity was set by an operator, and is not checked; a work queue then drops
the messages up to it. Known limits: a filter hides messages that a stream's limits dropped, if the
stream also drops acknowledged ones; a stream that keeps few messages per subject counts as lost
when its first message is later than the one after the position.
"""

import re
from dataclasses import dataclass

from inboxd.brokers.contract import StreamPosition
from inboxd.brokers.nats.jetstream import LIMITS, WORK_QUEUE, NatsDurable, NatsStream
from inboxd.errors import BrokerUnavailable, StreamLost

_NOTE = re.compile(r"inboxd has stored up to (\d+) \(delivery (\d+)\); nothing came up to (\d+)")


@dataclass(frozen=True, slots=True)
class Note:
    """delivery: the last of messages up to `position`. nothing: no other message came up to it."""

    position: int
    delivery: int
    nothing: int

    def __str__(self) -> str:
        return (
            f"inboxd has stored up to {self.position} (delivery {self.delivery}); nothing came up "
            f"to {self.nothing}"
        )


def note_of(durable: NatsDurable | None) -> Note | None:
    """The note in its description; None: it has no note of inboxd."""
    found = None if durable is None else _NOTE.fullmatch(durable.description)
    return None if found is None else Note(*map(int, found.groups()))


def identity(stream: NatsStream, durable: NatsDurable, delivery: int) -> str:
    if _keeps(stream):
        return stream.created
    return f"{stream.created} {durable.created} {delivery}"


@dataclass(frozen=True, slots=True)
class FollowedStream:
    name: str
    source: str
    place: str
    subjects: tuple[str, ...]

    @property
    def filtered(self) -> bool:
        return bool(self.subjects)

    def missing(self, stored: StreamPosition | None) -> StreamLost | BrokerUnavailable:
        if stored is not None:
            return self.lost(f"position {stored.position} is stored, but the stream does not exist")
        return BrokerUnavailable(
            f"{self.place}: there is no stream {self.name}: make it, or correct nats_stream."
        )

    def resumed(
        self, stream: NatsStream, durable: NatsDurable | None, stored: StreamPosition
    ) -> int:
        """The position from which reading continues without gaps. Raises StreamLost."""
        at = f"position {stored.position} is stored"
        created = stored.identity.partition(" ")[0]
        if created and created != stream.created:
            raise self.lost(
                f"{at} of the stream created at {created}, but this one was created at "
                f"{stream.created}"
            )
        if stream.last < stored.position:
            raise self.lost(f"{at}, but it ends at {stream.last}: it may be from a backup")
        if not created:
            return max(stored.position, stream.first - 1)
        self._check_acknowledged(stream, durable, stored)
        through = self.noted_behind(stored.position, durable) or stored.position
        self.check(stream, through)
        return through

    def noted_behind(self, position: int, durable: NatsDurable | None) -> int | None:
        """The noted end up to which nothing came behind a position; None: it has no note."""
        note = note_of(durable)
        if durable is None or note is None or durable.subjects != self.subjects:
            return None
        return note.nothing if note.position == position else None

    def check(self, stream: NatsStream | None, through: int, created: str = "") -> None:
        """Raises StreamLost if messages behind `through` might be gone. created: of that stream."""
        if stream is None or (created and stream.created != created):
            raise self.lost("it was deleted")
        if self.filtered and not _keeps(stream):
            return  # messages that other consumers have acknowledged are gone, too
        if stream.first > through + 1:
            raise self.lost(
                f"it begins at {stream.first} now: what followed position {through} was removed, "
                "by its limits, or by a purge"
            )

    def _check_acknowledged(
        self, stream: NatsStream, durable: NatsDurable | None, stored: StreamPosition
    ) -> None:
        if _keeps(stream) or (stream.retention == WORK_QUEUE and not self.filtered):
            return  # the stream's first position shows a loss
        _, _, came_by = stored.identity.partition(" ")
        if durable is None:
            if came_by:
                raise self.lost(
                    "its consumer is gone, and with it messages that were not stored yet"
                )
            return  # no message was stored since reading began
        note = note_of(durable)
        made, _, delivery = came_by.partition(" ")
        if made == durable.created:
            most = int(delivery)
        elif note is not None and note.position == stored.position:
            most = note.delivery
        else:
            most = -1
        if durable.acknowledged > most:
            raise self.lost(
                f"position {stored.position} is stored, but later messages were acknowledged, and "
                "so dropped: the database is from a backup"
            )

    def lost(self, why: str) -> StreamLost:
        return StreamLost(
            f"source {self.source!r}, stream {self.name} of {self.place}: {why}. Set where to "
            f"continue: inboxd messages reset {self.source} {self.name} "
            "--to oldest|newest|POSITION."
        )


def _keeps(stream: NatsStream) -> bool:
    """Whether the stream keeps acknowledged messages."""
    return stream.retention == LIMITS
