"""A worker's notes on chunks, kept between visits: bounded, and found again if forgotten."""

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
    def __init__(self, controls: Controls) -> None:
        self._controls = controls
        self._cursors: dict[Bucket, int] = {}
        # Reduced sizes of chunks, since one took too long or made its transaction fail.
        self._cut: OrderedDict[Key, int] = OrderedDict()
        # By end of a period: the largest id that was drawn soon after it.
        self.closing: OrderedDict[datetime, int] = OrderedDict()
        # Lines that may be due, by bucket.
        self.due: dict[Bucket, set[str]] = defaultdict(set)
        # Lines whose chunk may have killed its worker.
        self.suspects: list[Key] = []

    def forget(self) -> None:
        self._cursors.clear()
        self.closing.clear()
        self.due.clear()
        self.suspects.clear()

    def allows(self, handler: ChunkHandler) -> bool:
        """Whether chunks of a topic may run now; a paused type stops them, too."""
        allow = self._controls.allow
        return all(allow("topic", handler.topic, type_) for type_ in handler.readers)

    def after(self, bucket: Bucket) -> int:
        return self._cursors.get(bucket, 0)

    def advance(self, bucket: Bucket, last: int) -> None:
        """Note that events up to this id are settled or lined up, after the commit."""
        self._cursors[bucket] = last

    def rewind(self, bucket: Bucket, after: int) -> None:
        """Set the cursor to an id up to which a sweep found no event, and no event will come."""
        self._cursors[bucket] = after

    def hint(self, bucket: Bucket, keys: Iterable[str] = ()) -> None:
        self.due[bucket].update(keys)

    def cut(self, bucket: Bucket, key: str, most: int) -> None:
        self._cut[bucket, key] = max(1, most)
        if len(self._cut) > _MOST_CUT:
            self._cut.popitem(last=False)
        self.hint(bucket, [key])

    def is_cut(self, bucket: Bucket, key: str) -> bool:
        return (bucket, key) in self._cut

    def most(self, bucket: Bucket, key: str, usual: int) -> int:
        return min(usual, self._cut.get((bucket, key), usual))

    def went_well(self, bucket: Bucket, key: str, size: int) -> None:
        """Double the reduced size of a line's chunks, since one succeeded."""
        most = self._cut.pop((bucket, key), None)
        if most is not None and size >= most:
            self._cut[bucket, key] = 2 * most

    def close(self, ends_at: datetime, drawn: int) -> None:
        """Note that ids above `drawn` were drawn after the end of a period."""
        self.closing[ends_at] = drawn
        if len(self.closing) > _MOST_CLOSING:
            self.closing.popitem(last=False)
