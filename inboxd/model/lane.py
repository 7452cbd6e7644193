"""Lanes: where claims look for due rows, and their cursors.

A lane is a (topic, type) of events or a (queue, type, priority) of commands, so that rows that are
paused, over a limit or served by other workers are skipped without a scan. A claim from the cursor
passes no dead index entry twice. Known limit: a row behind a cursor waits for the next sweep.
"""

from dataclasses import dataclass, field

# Before any row: the tables accept no time earlier than the epoch, from which seconds are counted.
BEGINNING = 0.0

Key = tuple[str | int | None, ...]


@dataclass(slots=True)
class Lane:
    """A lane and its cursor, the place (run_at, id) of the last row taken."""

    key: Key
    after_at: float = BEGINNING
    after_id: int = 0

    def advance(self, run_at: float, row_id: int) -> None:
        self.after_at, self.after_id = run_at, row_id

    def rewind(self, run_at: float | None = None, row_id: int | None = None) -> None:
        self.after_at = BEGINNING if run_at is None else run_at
        self.after_id = 0 if row_id is None else row_id - 1


@dataclass(frozen=True, slots=True)
class Sighting:
    """All times are seconds by the database's clock; None: no such row.

    oldest: how long its oldest due row has waited. next: until its next row is due. run_at and id:
    the place of its first row, if that was asked for.
    """

    key: Key
    oldest: float | None
    next: float | None
    run_at: float | None = None
    id: int | None = None


# Topics and queues are free text: a producer that invents them must not fill the memory.
_MOST_IDLE_LANES = 500


@dataclass(slots=True)
class Lanes:
    _lanes: dict[Key, Lane] = field(default_factory=dict)

    def sweep(self, seen: list[Sighting]) -> bool:
        """Rewind lanes that have due rows; returns whether any has. Others keep their cursors."""
        due = [sighting for sighting in seen if sighting.oldest is not None]
        if len(self._lanes) > _MOST_IDLE_LANES:
            self._lanes.clear()
        for lane in due:
            self._lanes.setdefault(lane.key, Lane(lane.key)).rewind(lane.run_at, lane.id)
        return bool(due)

    def forget(self) -> None:
        self._lanes.clear()

    def ordered(self) -> list[Lane]:
        """All lanes, the lane that has waited longest for its turn first."""
        return list(self._lanes.values())

    def took(self, lane: Lane) -> None:
        if self._lanes.pop(lane.key, None) is not None:
            self._lanes[lane.key] = lane
