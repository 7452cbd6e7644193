"""Which commands this worker may claim now, and how many: handled types, pauses, and room.

A queue has at most its limit of commands here: during a page its room only shrinks; commands that
end make room for the next page. An endpoint takes at most half of the free places for deliveries.
Known limit: `concurrency` of a queue holds within this process (`inboxd.commands.sources.limited`
has limits over all workers). *See:* `processing`, before it; `sources/lanes.py`, after it.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from heapq import heapify, heappop, heappush

from inboxd.commands.key_turns import distance
from inboxd.commands.leases import Expiries, Prefetch
from inboxd.engine.breakers import Breakers
from inboxd.engine.controls import Controls
from inboxd.model.endpoints import is_of_deliveries
from inboxd.model.lane import Lane, Sighting
from inboxd.registry.registry import Registry
from inboxd.settings import Commands, Queue, Settings
from inboxd.store.limits import Bounds
from inboxd.store.rows import ClaimedCommand

_UNLIMITED = Bounds()


class Admission:
    def __init__(
        self,
        settings: Settings,
        queues: Mapping[str, Queue],
        registry: Registry,
        controls: Controls,
        breakers: Breakers,
    ) -> None:
        """queues: their limits now; `reload` takes later ones."""
        self._settings = settings
        self._registry = registry
        self._controls = controls
        self._breakers = breakers
        # How many commands may be leased beyond those that can start at once.
        self.prefetch = Prefetch()
        self.expiries = Expiries()
        # Leased commands that have not ended: their number, their ids, their number by queue.
        self.in_flight = 0
        self.known: set[int] = set()
        self._leased: Counter[str] = Counter()
        # How many more commands the page may lease, by queue; an entry is made at the first
        # question.
        self._room: dict[str, int] = {}
        # Deliveries of all endpoints: the leased ones, their limit, and how many more the page may
        # lease (None: not computed yet).
        self._delivering, self._most_delivering = 0, 0
        self._deliverable: int | None = None
        # Whether a queue had no room since the last page began; the end of a command may make room.
        self.turned_away = False
        self.reload(settings.commands, queues)

    def reload(self, limits: Commands, queues: Mapping[str, Queue]) -> None:
        self.limits, self.queues = limits, queues
        self._bounds = {queue: _bounds_of(settings) for queue, settings in queues.items()}
        # Queues with limits over all workers.
        self.limited = frozenset(q for q, bounds in self._bounds.items() if bounds.over_all)
        self._most_delivering = self._most_deliveries()

    def _most_deliveries(self) -> int:
        """By the settings, or half of all commands; all, if the worker serves only deliveries."""
        settings = self._settings
        if (most := settings.outbound.webhooks.concurrency) is not None:
            return most
        wanted = settings.worker.queues
        if wanted and all(map(is_of_deliveries, wanted)):
            return self.limits.concurrency
        return (self.limits.concurrency + 1) // 2

    def bounds(self, queue: str) -> Bounds:
        return self._bounds.get(queue, _UNLIMITED)

    def key_concurrency(self, queue: str) -> int:
        return self.bounds(queue).key_concurrency

    def keeps_order(self, queue: str) -> bool:
        """Whether commands of one key run in order, that is one at a time."""
        return self.bounds(queue).key_concurrency == 1

    def follows(self, queue: str) -> bool:
        """Whether a command of a key may start as soon as the one before it has ended."""
        return self.keeps_order(queue) and distance(self.queues.get(queue)) is None

    def serves(self, queue: str, type_: str) -> bool:
        wanted = self._settings.worker.queues
        return (
            type_ in self._registry.commands
            and (not wanted or queue in wanted)
            and self._controls.allow("queue", queue, type_)
        )

    def served(self, seen: Sequence[Sighting], *, limited: bool) -> list[Sighting]:
        """The lanes that this worker serves, of queues with limits or without; not of suspects."""
        return [
            each
            for each in seen
            if each.key[2] is not None
            and (each.key[0] in self.limited) is limited
            and self.serves(str(each.key[0]), str(each.key[1]))
        ]

    def types(self, queue: str) -> list[str]:
        return [type_ for type_ in self._registry.command_types if self.serves(queue, type_)]

    def is_paused(self, row: ClaimedCommand) -> bool:
        allow = self._controls.allow_row
        return not allow("queue", row["queue"], row["type"], row["id"])

    def open(self, lanes: Sequence[Lane]) -> list[Lane]:
        if not self._controls.are_quiet:
            lanes = [lane for lane in lanes if self.serves(str(lane.key[0]), str(lane.key[1]))]
        return [lane for lane in lanes if self.has_room(str(lane.key[0]))]

    # ------------------------------------------------------------------------------------ room

    @property
    def startable(self) -> int:
        """How many commands could start at once if they were leased now."""
        return self.limits.concurrency - self.in_flight

    def probe_room(self, queue: str, type_: str = "") -> int | None:
        """None: this worker does not probe it. Without a type: the queue's own breaker decides."""
        breakers = self._breakers
        return breakers.room("queue", queue, type_) if breakers.probing else None

    def begin_page(self) -> None:
        """Use the room of commands that have ended since the last page."""
        self._room.clear()
        self._deliverable = None
        self.turned_away = False

    def room(self, queue: str) -> int:
        """How many commands of a queue this page may still lease, if it leases from no other."""
        room = self._own_room(queue)
        if is_of_deliveries(queue):
            # At most half of the free places for deliveries.
            spare = self._places_to_deliver() - self._leased[queue]
            room = self._room[queue] = min(room, max(0, (spare + 1) // 2))
        return room

    def rooms(self, queues: Iterable[str]) -> dict[str, int]:
        """How many commands of each of these queues one claim may lease."""
        found = {queue: self.room(queue) for queue in queues}
        of_deliveries = [queue for queue in found if is_of_deliveries(queue)]
        if len(of_deliveries) > 1:
            found |= self._shared({queue: found[queue] for queue in of_deliveries})
        return found

    def _shared(self, wanted: Mapping[str, int]) -> dict[str, int]:
        """Distribute the places for deliveries one by one, each to the queue with the fewest."""
        free, given = self._places_to_deliver(), dict.fromkeys(wanted, 0)
        turns = [(self._leased[queue], place, queue) for place, queue in enumerate(wanted)]
        heapify(turns)
        while turns:
            has, place, queue = heappop(turns)
            if given[queue] < wanted[queue] and has < free:
                given[queue] += 1
                free -= 1
                heappush(turns, (has + 1, place, queue))
        if any(given[queue] < room for queue, room in wanted.items()):
            self.turn_away()
        return given

    def _places_to_deliver(self) -> int:
        if self._deliverable is None:
            self._deliverable = self._most_delivering - self._delivering
        return self._deliverable

    def _own_room(self, queue: str) -> int:
        room = self._room.get(queue)
        if room is None:
            settings = self.queues.get(queue)
            limit = None if settings is None else settings.concurrency
            room = self.limits.page_rows
            if limit is not None:
                room = min(room, limit - self._leased[queue])
            self._room[queue] = room
        return room

    def has_room(self, queue: str) -> bool:
        """Whether a queue has room; if not, the end of a command causes the next page."""
        if self.room(queue) > 0:
            return True
        self.turn_away()
        return False

    def turn_away(self) -> None:
        self.turned_away = True

    def ask_again(self) -> None:
        self.turned_away = False

    def took(self, rows: Sequence[ClaimedCommand]) -> None:
        self.in_flight += len(rows)
        self.known.update([row["id"] for row in rows])
        self.expiries.lease(rows)
        leased = Counter([row["queue"] for row in rows])
        for queue, count in leased.items():
            self._room[queue] = self._own_room(queue) - count
            if is_of_deliveries(queue):
                self._deliverable = self._places_to_deliver() - count
                self._delivering += count
        self._leased.update(leased)

    def ended(self, row: ClaimedCommand) -> None:
        """Count a command that has ended, or was given back; the next page may use its room."""
        queue = row["queue"]
        if self._breakers.held:
            self._breakers.release("queue", row["id"])
        self.known.discard(row["id"])
        self.expiries.end(row)
        self.in_flight -= 1
        self._delivering -= is_of_deliveries(queue)
        self._leased[queue] -= 1
        if self._leased[queue] <= 0:
            del self._leased[queue]


def _bounds_of(queue: Queue) -> Bounds:
    rate, period = (None, 1.0) if queue.rate is None else (queue.rate.rows, queue.rate.seconds)
    return Bounds(
        queue.total_concurrency, rate, period, queue.key_concurrency, queue.on_failure == "block"
    )
