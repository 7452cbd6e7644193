"""Whether a stream can be gone on with behind a stored position, or something would be left out.

Owns the identity that is stored beside a position, and what a durable consumer's description says.
Promises that what was removed from a stream before it was stored is never passed over in silence:

- by its limits, or a purge: the stream begins behind what follows the position. With a filter, what
  is gone may have been for others, so the description says now and then up to where nothing came.
- by an acknowledgement that an older database does not know of, where the stream drops what all
  have acknowledged: the consumer has acknowledged more deliveries than were stored. So the identity
  has the delivery, there.
- with the stream: there is another one of its name, or one from a backup, which ends too early.

A position without an identity is an operator's word, and taken as it is; a work queue then drops
what is not behind it. Known limits: a stream that drops what is acknowledged, and has limits too,
may drop by these what was not consumed, which is not seen with a filter; one that keeps few
messages of each subject drops others by design, and is lost once its first message is behind what
follows the position.
*See:* `consumer`, which asks.
"""

import re
from dataclasses import dataclass

from inboxd.brokers.contract import StreamPosition
from inboxd.brokers.nats.jetstream import LIMITS, WORK_QUEUE, NatsDurable, NatsStream
from inboxd.errors import BrokerUnavailable, StreamLost

_NOTE = re.compile(r"inboxd has stored up to (\d+) \(delivery (\d+)\); nothing came up to (\d+)")


@dataclass(frozen=True, slots=True)
class Note:
    """What the description of a durable consumer says.

    delivery: up to which of its own all were at or before the position; nothing: up to where
    nothing else came.
    """

    position: int
    delivery: int
    nothing: int

    def __str__(self) -> str:
        return (
            f"inboxd has stored up to {self.position} (delivery {self.delivery}); nothing came up "
            f"to {self.nothing}"
        )


def note_of(durable: NatsDurable | None) -> Note | None:
    """What its description says; None: it is not one of ours, or there is none."""
    found = None if durable is None else _NOTE.fullmatch(durable.description)
    return None if found is None else Note(*map(int, found.groups()))


def identity(stream: NatsStream, durable: NatsDurable, delivery: int) -> str:
    """What is stored beside the position of a message that came by a delivery."""
    if _keeps(stream):
        return stream.created
    return f"{stream.created} {durable.created} {delivery}"


@dataclass(frozen=True, slots=True)
class FollowedStream:
    """A stream, for the source that follows it."""

    name: str
    source: str
    place: str
    subjects: tuple[str, ...]

    @property
    def filtered(self) -> bool:
        """Whether it follows some subjects of it only."""
        return bool(self.subjects)

    def missing(self, stored: StreamPosition | None) -> StreamLost | BrokerUnavailable:
        """The error for there being no such stream."""
        if stored is not None:
            return self.lost(f"position {stored.position} is stored, and there is none")
        return BrokerUnavailable(
            f"{self.place}: there is no stream {self.name}: make it, or correct nats_stream."
        )

    def resumed(
        self, stream: NatsStream, durable: NatsDurable | None, stored: StreamPosition
    ) -> int:
        """Up to where nothing is left out, if it goes on from there. Raises StreamLost."""
        at = f"position {stored.position} is stored"
        created = stored.identity.partition(" ")[0]
        if created and created != stream.created:
            raise self.lost(
                f"{at} of the one made at {created}, and this one was made at {stream.created}"
            )
        if stream.last < stored.position:
            raise self.lost(f"{at}, and it ends at {stream.last}, as one from a backup does")
        if not created:
            return max(stored.position, stream.first - 1)
        self._check_acknowledged(stream, durable, stored)
        through = self.noted_behind(stored.position, durable) or stored.position
        self.check(stream, through)
        return through

    def noted_behind(self, position: int, durable: NatsDurable | None) -> int | None:
        """Up to where nothing came behind a position, as its consumer noted; None: it did not."""
        note = note_of(durable)
        if durable is None or note is None or durable.subjects != self.subjects:
            return None
        return note.nothing if note.position == position else None

    def check(self, stream: NatsStream | None, through: int, created: str = "") -> None:
        """Raise StreamLost if something is gone that may have followed `through`.

        created: of the stream that it was.
        """
        if stream is None or (created and stream.created != created):
            raise self.lost("it was deleted")
        if self.filtered and not _keeps(stream):
            return  # what others have acknowledged is gone too
        if stream.first > through + 1:
            raise self.lost(
                f"it begins at {stream.first} now: what followed position {through} was removed, "
                "by its limits, or by a purge"
            )

    def _check_acknowledged(
        self, stream: NatsStream, durable: NatsDurable | None, stored: StreamPosition
    ) -> None:
        if _keeps(stream) or (stream.retention == WORK_QUEUE and not self.filtered):
            return  # it shows by the first position
        _, _, came_by = stored.identity.partition(" ")
        if durable is None:
            if came_by:
                raise self.lost("its consumer is gone, for which it kept what is not stored yet")
            return  # nothing came yet since it was begun
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
                f"position {stored.position} is stored, and more than that was acknowledged, so it "
                "was dropped: the database is from a backup"
            )

    def lost(self, why: str) -> StreamLost:
        """The error for what does not pass; `why` names the cause."""
        return StreamLost(
            f"source {self.source!r}, stream {self.name} of {self.place}: {why}. Say where to go "
            f"on: inboxd messages reset {self.source} {self.name} --to oldest|newest|POSITION."
        )


def _keeps(stream: NatsStream) -> bool:
    """Whether it keeps what is acknowledged."""
    return stream.retention == LIMITS
