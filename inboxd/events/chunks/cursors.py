"""A worker's notes on chunks, kept between visits.

Owns the cursors of buckets, the shorter sizes of long chunks, and up to which id a period's end can
be trusted. Promises to be bounded, and that nothing depends on it: forgotten notes are found again.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Iterable
from datetime import datetime

from inboxd.api.records import ChunkHandler
from inboxd.engine.controls import Controls
from inboxd.model.arrivals import Bucket

_MOST_CUT = 1_000
_MOST_CLOSING = 1_000

Key = tuple[Bucket, str]


class ChunkCursors:
    """Notes of visits for later visits."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls
        self._cursors: dict[Bucket, int] = {}
        # Sizes of chunks that are cut down, since one was too long or spoiled its transaction.
        self._cut: OrderedDict[Key, int] = OrderedDict()
        # By end of a period: the largest id that had been drawn soon after it.
        self.closing: OrderedDict[datetime, int] = OrderedDict()
        # Lines that may be due, by bucket.
        self.due: dict[Bucket, set[str]] = defaultdict(set)
        # Lines whose chunk may have killed its worker.
        self.suspects: list[Key] = []

    def forget(self) -> None:
        """Forget everything: the connection may reach another server now."""
        self._cursors.clear()
        self.closing.clear()
        self.due.clear()
        self.suspects.clear()

    def allows(self, handler: ChunkHandler) -> bool:
        """Whether chunks of a topic may be run now; a paused type stops them as well."""
        allow = self._controls.allow
        return all(allow("topic", handler.topic, type_) for type_ in handler.readers)

    def after(self, bucket: Bucket) -> int:
        """The id up to which all events were settled or lined up."""
        return self._cursors.get(bucket, 0)

    def advance(self, bucket: Bucket, last: int) -> None:
        """Events up to this id were settled or lined up, and that has committed."""
        self._cursors[bucket] = last

    def rewind(self, bucket: Bucket, after: int) -> None:
        """A look from the beginning found no event up to this id, and none will come there."""
        self._cursors[bucket] = after

    def hint(self, bucket: Bucket, keys: Iterable[str] = ()) -> None:
        """A bucket may have something to do; keys: lines that may be due."""
        self.due[bucket].update(keys)

    def cut(self, bucket: Bucket, key: str, most: int) -> None:
        """The next chunk of a line has at most `most` events."""
        self._cut[bucket, key] = max(1, most)
        if len(self._cut) > _MOST_CUT:
            self._cut.popitem(last=False)
        self.hint(bucket, [key])

    def is_cut(self, bucket: Bucket, key: str) -> bool:
        """Whether the chunks of a line are kept short for now."""
        return (bucket, key) in self._cut

    def most(self, bucket: Bucket, key: str, usual: int) -> int:
        """How many events the next chunk of a line may have."""
        return min(usual, self._cut.get((bucket, key), usual))

    def went_well(self, bucket: Bucket, key: str, size: int) -> None:
        """A chunk of a line succeeded: the next may be twice as long."""
        most = self._cut.pop((bucket, key), None)
        if most is not None and size >= most:
            self._cut[bucket, key] = 2 * most

    def close(self, ends_at: datetime, drawn: int) -> None:
        """Note that no id above `drawn` had been drawn at the end of a period."""
        self.closing[ends_at] = drawn
        if len(self.closing) > _MOST_CLOSING:
            self.closing.popitem(last=False)
