"""The model: what inboxd promises of rows, in plain Python.

Owns the prediction of every column that decides something: status, attempts, crashes, fence, owner,
table, due time; and the rule for the rows that a claim may return. It knows no SQL and no inboxd.
It counts in hours: due "now" and due "in an hour" cannot be confused, however long a step takes.
Known limit: the database chooses the microsecond of a new `run_at`; the model checks it to the
minute, and adopts it, since the order of claims follows from it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID, uuid4

HOUR = timedelta(hours=1)
ABOUT = timedelta(minutes=1)
# A claim may also return rows this far behind its cursor: they may have committed late.
HELD_BACK = timedelta(milliseconds=100)

# The last of these makes a dead letter; two, so that examples reach it.
ATTEMPTS = 2
CRASHES = 2

Key = tuple[str | int | None, ...]
Place = tuple[datetime, int]


@dataclass(slots=True)
class Item:
    """A row. lane: topic and type of an event; queue, type and priority of a command."""

    id: int
    lane: Key
    run_at: datetime
    status: str = "pending"
    attempts: int = 0
    crashes: int = 0
    fence: int = 0
    worker: UUID | None = None
    cancel_requested: bool = False
    errors: int = 0
    lone: int | None = None  # deaths alone; None: it need not run alone
    settled: bool = False
    about: bool = field(default=True, compare=False)  # run_at is known to the minute only
    held: bool = field(default=False, compare=False)  # locked by an open transaction
    group: UUID | None = field(
        default=None, compare=False
    )  # suspects; independent of the database's name
    alone: bool = field(default=False, compare=False)  # leased so that nothing runs beside it

    @property
    def place(self) -> Place:
        """Its place in the order of its lane."""
        return (self.run_at, self.id)

    @property
    def seen_in(self) -> Key:
        """The lane of a survey; suspects of a queue and type have no priority."""
        is_suspect = len(self.lane) == 3 and self.crashes > 0
        return (*self.lane[:2], None) if is_suspect else self.lane

    def is_held_by(self, fence: int, worker: UUID) -> bool:
        """Whether this claim holds the lease."""
        running = self.status == "running" and not self.settled
        return running and (self.fence, self.worker) == (fence, worker)

    def due_in(self, now: datetime, hours: float) -> None:
        """Set the next run, counted from now."""
        self.run_at, self.about = now + hours * HOUR, True


@dataclass(frozen=True, slots=True)
class Query:
    """A claim: lanes in order of preference with cursors, maximum of rows, room per queue."""

    lanes: Sequence[tuple[Key, Place]]
    most: int
    room: Mapping[str, int] | None = None


@dataclass(slots=True)
class Model:
    """All committed rows, workers and effects."""

    now: datetime
    events: dict[int, Item] = field(default_factory=dict)
    commands: dict[int, Item] = field(default_factory=dict)
    workers: dict[UUID, str] = field(default_factory=dict)
    beats: dict[UUID, int] = field(default_factory=dict)
    effects: set[tuple[int, int]] = field(default_factory=set)

    # ---------------------------------------------------------------------------- waiting rows

    def lives(self, worker: UUID) -> bool:
        """Whether a worker has neither ended nor been declared dead."""
        return self.workers[worker] in ("running", "draining")

    def is_due(self, item: Item) -> bool:
        """Whether its time has come."""
        return item.run_at <= self.now

    def pending(self, items: Mapping[int, Item]) -> list[Item]:
        """The unsettled rows that no worker runs."""
        return [i for i in items.values() if i.status == "pending" and not i.settled]

    def sightings(self, items: Mapping[int, Item]) -> dict[Key, tuple[bool, bool]]:
        """The result of a survey per lane: whether rows are due, and whether rows are due later."""
        seen: dict[Key, tuple[bool, bool]] = {}
        for item in self.pending(items):
            due, later = seen.get(item.seen_in, (False, False))
            seen[item.seen_in] = (due or self.is_due(item), later or not self.is_due(item))
        return seen

    # ---------------------------------------------------------------------------------- claims

    def judge(self, offered: Iterable[Item], query: Query, returned: Sequence[int]) -> None:
        """Raise AssertionError unless a claim may return exactly these rows in this order."""
        by_id = {item.id: item for item in offered if self.is_due(item) and not item.held}
        assert len(set(returned)) == len(returned), "a row came twice"
        assert len(returned) <= query.most, "more than a page"
        assert set(returned) <= set(by_id), "a row that may not be claimed"
        taken = [by_id[id_] for id_ in returned]
        cursors = dict(query.lanes)
        for item in taken:
            late = item.run_at > self.now - HELD_BACK
            assert late or item.place > cursors[item.lane], "a row behind the cursor"
        for queue, rows in (query.room or {}).items():
            assert sum(item.lane[0] == queue for item in taken) <= rows, (
                "more rows than the queue has room for"
            )
        self._judge_order(by_id.values(), query, taken)

    def _judge_order(self, offered: Iterable[Item], query: Query, taken: Sequence[Item]) -> None:
        """A claim with room passes over no row in front of its cursor."""
        order = [key for key, _ in query.lanes]
        for number, (key, cursor) in enumerate(query.lanes):
            mine = [i for i in offered if i.lane == key and i.place > cursor and i not in taken]
            if not mine:
                continue
            first = min(item.place for item in mine)
            assert all(i.place < first for i in taken if i.lane == key), (
                "an older row was passed over"
            )
            queue_full = query.room is not None and query.room[str(key[0])] == sum(
                item.lane[0] == key[0] for item in taken
            )
            assert queue_full or len(taken) == query.most, (
                "a due row was left although there is room"
            )
            later = [k for k in order[number + 1 :] if query.room is None or k[0] == key[0]]
            assert not any(i.lane in later for i in taken), "a lane was passed over"

    def suspects(self, group: UUID) -> list[Item]:
        """The claimable commands of a group of suspects, in order."""
        due = [i for i in self.pending(self.commands) if i.group == group and self.is_due(i)]
        return sorted((i for i in due if not i.held), key=lambda item: item.place)

    def lease(self, ids: Collection[int], worker: UUID, *, alone: bool = False) -> None:
        """Record a committed claim of commands."""
        for id_ in ids:
            item = self.commands[id_]
            item.status, item.worker, item.fence = "running", worker, item.fence + 1
            item.alone = alone

    # -------------------------------------------------------------------------------- outcomes

    def settle(self, item: Item, status: str, worker: UUID | None) -> None:
        """Move an ended row to history."""
        item.status, item.settled, item.worker = status, True, worker
        item.attempts += 1
        item.group = item.lone = None

    def retry(self, item: Item, hours: float) -> None:
        """Record a failed attempt: retried later, or a dead letter after the last one."""
        item.attempts += 1
        item.errors += 1
        if item.attempts >= ATTEMPTS:
            self._give_back(item, "failed")
        else:
            self._clear(item)
            self._give_back(item, "pending", hours)

    def reject(self, item: Item) -> None:
        """Make a dead letter at once."""
        item.attempts += 1
        item.errors += 1
        self._give_back(item, "failed")

    def give_back(self, item: Item, hours: float | None = None) -> None:
        """Defer (by this many hours) or release (at the old time), without an attempt."""
        if hours is not None:
            self._clear(item)
        self._give_back(item, "pending", hours)

    def _clear(self, item: Item) -> None:
        """A row that has come through a run is not a suspect."""
        item.crashes, item.group, item.lone = 0, None, None

    def _give_back(self, item: Item, status: str, hours: float | None = None) -> None:
        item.status, item.worker = status, None
        if status == "failed":
            item.group = None
        if item.cancel_requested:
            item.due_in(self.now, 0)
        elif hours is not None:
            item.due_in(self.now, hours)

    def release(self, worker: UUID, but: Collection[int] = ()) -> list[int]:
        """Release a worker's commands; unlike a requeue, this changes no time."""
        items = [i for i in self.running(worker) if i.id not in but]
        for item in items:
            item.status, item.worker = "pending", None
        return [item.id for item in items]

    def running(self, worker: UUID) -> list[Item]:
        """The commands that a worker runs."""
        return [i for i in self.commands.values() if i.status == "running" and i.worker == worker]

    def declare_dead(self, worker: UUID) -> dict[int, str]:
        """Declare a worker dead: its commands return with one more crash, as suspects.

        Those that were not suspects become a group; an old group is halved. A command left by
        itself runs alone, and only deaths while it ran alone convict.
        """
        items = sorted(self.running(worker), key=lambda item: item.id)
        self.workers[worker] = "dead"
        groups: dict[UUID | None, list[Item]] = {}
        for item in items:
            groups.setdefault(item.group, []).append(item)
        for group, members in groups.items():
            middle = len(members) if group is None else (len(members) + 1) // 2
            for half in (members[:middle], members[middle:]):
                name = uuid4()
                for item in half:
                    if item.lone is not None:
                        item.lone += int(item.alone and len(items) == 1)
                    elif group is not None and len(half) == 1:
                        item.lone = 0
                    item.group = name
        for item in items:
            item.crashes += 1
            item.errors += 1
            item.status = "failed" if (item.lone or 0) >= CRASHES else "pending"
            item.worker = None
            if item.status == "failed":
                item.group = None
        return {item.id: item.status for item in items}

    def unhandled(self, items: Mapping[int, Item], key: Key, rows: int) -> list[int]:
        """Make dead letters of an unhandled lane."""
        lane = [item for item in self.pending(items) if item.seen_in == key]
        free = [item for item in lane if self.is_due(item) and not item.held]
        failed = sorted(free, key=lambda item: item.place)[:rows]
        for item in failed:
            item.status, item.errors, item.group = "failed", item.errors + 1, None
        return [item.id for item in failed]

    # ------------------------------------------------------------------------------- operators

    def replay(self, item: Item, new_id: int) -> None:
        """Replay a dead letter: an event in place, a command as a new row in its place."""
        assert item.status == "failed"
        assert not item.settled
        if new_id == item.id:
            item.status, item.attempts = "pending", 0
            self._clear(item)
        else:
            item.settled, item.lone = True, None
            item = self.commands[new_id] = Item(new_id, item.lane, self.now)
        item.due_in(self.now, 0)

    def dismiss(self, item: Item) -> None:
        assert item.status == "failed"
        assert not item.settled
        item.status, item.settled, item.lone = "dismissed", True, None

    def cancel(self, item: Item) -> bool:
        """Cancel a row: at once, or by a request to its worker; False: it has ended."""
        if item.settled or item.status == "failed":
            return False
        item.cancel_requested = True
        if item.status == "pending":
            item.status, item.settled = "cancelled", True
            item.group = item.lone = None
        return True

    def step_clock(self, hours: int) -> None:
        """Step the database's clock: all times come nearer, or recede."""
        for item in [*self.events.values(), *self.commands.values()]:
            if not item.settled:
                item.run_at -= hours * HOUR
