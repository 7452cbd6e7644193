"""Claims from queues with limits over all workers, and from the lines of ordering keys.

A queue from which nothing may run is not asked for a time, or until one of its commands has ended
here. If no other key waits for a turn, more commands of running keys are claimed before the first
ones are settled. *See:* `inboxd.store.limits.claim`, `key_runs`.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from time import monotonic
from uuid import UUID

from inboxd.commands.admission import Admission
from inboxd.commands.sources.key_runs import KeyRuns, QueueKey
from inboxd.commands.sources.source import Sightings, advance
from inboxd.commands.unwritten import UnwrittenOutcomes
from inboxd.engine.processor import Survey, soonest
from inboxd.model.key_round_robin import RUN, KeyRoundRobin, share
from inboxd.model.lane import Lane, Lanes
from inboxd.model.priority_order import Ask, PriorityOrder
from inboxd.store import limits
from inboxd.store.limits import Claimed, KeyedSighting, Wanted
from inboxd.store.pools import Pool, borrow
from inboxd.store.rows import ClaimedCommand
from inboxd.store.session import Session
from inboxd.telemetry.metrics import Metrics

# Seconds until a full queue is asked again: the first wait, doubled up to the longest.
_FULL, _LONGEST_FULL = 0.05, 1.0
# Commands of one key that are leased together should end within this many seconds.
_RUN_SECONDS = 0.1
# How often in a row a contended claim is retried: another worker's claim ends soon, and a retry
# costs less than a survey.
_CONTENDED_RETRIES = 10
# Claims count against a rate. Below this rate per second, commands are claimed only when they can
# start.
_HIGH_RATE = 1_000
# Seconds until the next survey while keys have runs here.
_LOOK_AGAIN = 1.0
# Keys that one search reads; a walk pauses while the round holds this many.
_PAGE = 1_000
# Maximum share of the time for walks of all keys.
_LOOK_SHARE = 1 / 20
# Search for new rows while there are enough keys: shortest interval in seconds, maximum share of
# the time, longest interval. After a full page the interval is the shortest.
_LEARN_SECONDS, _LEARN_SHARE, _LONGEST_LEARN_SECONDS = 0.05, 1 / 50, 0.25


class KeyFinder:
    """Finds the keys of a queue that may have something to run.

    One search finds new rows by time, from its cursor on. The other walks all keys, a page at a
    time, and finds keys that other workers have freed; it takes a small share of the time. Known
    limit: with very many blocked keys a walk takes seconds.
    """

    def __init__(self, queue: str, admission: Admission, key_runs: KeyRuns) -> None:
        # The keys in turn; mean number of rows that a key gave at the last claim.
        self.turns = KeyRoundRobin()
        self.of_each = 1.0
        # Whether a walk of all keys is under way.
        self.looking = False
        self._queue = queue
        self._admission = admission
        self._key_runs = key_runs
        # By type, how far the new rows were read; time of the next reading.
        self._arrivals: dict[str, Lane] = {}
        self._next_learn = 0.0
        # The walk: the last key read, the time of its begin, the time of the next walk.
        self._after: str | None = None
        self._look_began = 0.0
        self._next_look = 0.0

    @property
    def has_lines(self) -> bool:
        return bool(self._arrivals)

    @property
    def has_just_learnt(self) -> bool:
        return monotonic() < self._next_learn

    def on_sighting(self, line: KeyedSighting) -> None:
        now = monotonic()
        if line.type not in self._arrivals:
            self._arrivals[line.type] = Lane((self._queue, line.type), line.seen_at)
            self._next_look = 0.0
        if line.oldest is not None and not self.looking and now >= self._next_look:
            self.looking, self._after, self._look_began = True, None, now

    async def find(self, session: Session, types: Sequence[str], room: int) -> None:
        """Find keys with rows of these types, if the keys of the round might not fill the room."""
        await self._on_arrivals(session, types, room)
        await self._look(session)

    def add(self, keys: Iterable[str]) -> None:
        self.turns.add(key for key in keys if not self._key_runs.full(QueueKey(self._queue, key)))

    def gave(self, keys: Sequence[str], claimed: Claimed, *, cut: bool) -> None:
        """Note a claim's result for these keys; cut: it may not have reached the last keys."""
        # Other workers are claiming from these keys: put them at the end of the round.
        self.add(claimed.passed)
        passed = set(claimed.passed)
        keys = [key for key in keys if key not in passed]
        given = Counter([row["ordering_key"] for row in claimed.rows])
        del given[None]
        if cut:
            last = max((n for n, key in enumerate(keys) if key in given), default=-1)
            self.turns.put_back(keys[last + 1 :])
            keys = keys[: last + 1]
        if keys:
            self.of_each = max(1.0, given.total() / len(keys))

    async def _on_arrivals(self, session: Session, types: Sequence[str], room: int) -> None:
        now = monotonic()
        if len(self.turns) * self.of_each >= room and now < self._next_learn:
            return
        lanes = [self._arrivals[type_] for type_ in types if type_ in self._arrivals]
        rows = await limits.arrived(session, self._queue, lanes, _PAGE)
        for row in rows:
            if row["run_at"] is not None:
                self._arrivals[row["type"]].advance(row["run_at"], row["id"])
        pause = _LEARN_SECONDS
        if len(rows) < _PAGE:
            pause = min(
                max(_LEARN_SECONDS, (monotonic() - now) / _LEARN_SHARE), _LONGEST_LEARN_SECONDS
            )
        self._next_learn = now + pause
        self.add(dict.fromkeys(row["key"] for row in rows))

    async def _look(self, session: Session) -> None:
        """Read the next page of a walk of all keys."""
        if not self.looking or len(self.turns) >= _PAGE:
            return
        bounds = self._admission.bounds(self._queue)
        keys = await limits.find_keys(session, self._queue, self._after, bounds, _PAGE)
        self.add(each.key for each in keys if each.free)
        if len(keys) == _PAGE:
            self._after = keys[-1].key
        else:
            self.looking = False
            now = monotonic()
            self._next_look = now + (now - self._look_began) / _LOOK_SHARE


@dataclass(slots=True)
class _Known:
    keys: KeyFinder
    lanes_first: bool = False
    # Why none of its commands can run, until when, and the last wait in seconds.
    held_back: str | None = None
    until: float = 0.0
    wait: float = _FULL
    # Number of successive claims that met a claim of another worker.
    contended: int = 0


class LimitedQueues:
    def __init__(
        self,
        pool: Pool,
        me: UUID,
        metrics: Metrics,
        outcomes: UnwrittenOutcomes,
        key_runs: KeyRuns,
        admission: Admission,
        order: PriorityOrder,
    ) -> None:
        self._pool = pool
        self._me = me
        self._duration = metrics.claim_duration.labels("command")
        self._page_rows = metrics.page_rows.labels("command")
        self._held_back = metrics.held_back
        self._outcomes = outcomes
        self._key_runs = key_runs
        self._admission = admission
        self._order = order
        # Lanes of queues with limits, for commands without a key.
        self._lanes = Lanes()
        self._known: dict[str, _Known] = {}
        # The queues of this page's `asks`.
        self._asked: frozenset[str] = frozenset()
        # Whether the last claim from any queue found it full.
        self._any_full = False
        # Time of the last claim from a line, by the database's clock.
        self._claimed_until: float | None = None
        # Time of the last call of `ready`.
        self._told_at = 0.0

    def reload(self) -> None:
        """The limits have changed: ask every queue at once."""
        for known in self._known.values():
            known.held_back, known.until = None, 0.0

    def forget_lanes(self) -> None:
        self._lanes.forget()

    def forget(self) -> None:
        """Forget the server, since the connection was lost; a claim may have committed."""
        self._lanes.forget()
        self._known.clear()
        self._key_runs.expect_no_more(self._outcomes.handed_over)

    # ------------------------------------------------------------------------------------ looks

    async def survey(self, session: Session, seen: Sightings) -> Survey:  # noqa: ARG002 - the survey's rows are in `seen`
        """Rewind lanes with due rows; search for the keys of due lines."""
        lanes = self._admission.served(seen.lanes, limited=True)
        lines = [line for line in seen.lines if self._admission.serves(line.queue, line.type)]
        for line in lines:
            self._of(line.queue).keys.on_sighting(line)
        again = _LOOK_AGAIN if self._key_runs else None
        due = self._lanes.sweep(lanes) or any(line.oldest is not None for line in lines)
        times = (*(each.next for each in lanes), *(line.next for line in lines), again)
        return Survey(due, soonest(times))

    # ----------------------------------------------------------------------------------- claims

    def asks(self) -> list[Ask]:
        limited = self._admission.limited
        lanes: dict[str, list[Lane]] = {}
        for lane in self._admission.open(self._lanes.ordered()):
            if lane.key[0] in limited:  # the set may have shrunk since the survey
                lanes.setdefault(str(lane.key[0]), []).append(lane)
        asks = [
            self._order.alone(queue, lanes.get(queue, ()))
            for queue in self.ready(lanes)
            if self._admission.types(queue) and self._has_room(queue)
        ]
        self._asked = frozenset(ask.queue for ask in asks)
        return asks

    def _has_room(self, queue: str) -> bool:
        if self._room(queue) > 0:
            return True
        self._admission.turn_away()
        return False

    def _room(self, queue: str) -> int:
        room, bounds = self._admission.room(queue), self._admission.bounds(queue)
        probes = self._admission.probe_room(queue)
        if probes is not None:
            room = min(room, probes)
        if bounds.rate is None or bounds.rate / bounds.period >= _HIGH_RATE:
            return room
        # A claimed command must start at once: if commands waited for room, their starts would
        # exceed the rate.
        return min(room, self._admission.startable)

    def ready(self, lanes: Mapping[str, Sequence[Lane]]) -> list[str]:
        """The queues that may have something to run now; lanes: the lanes of queues with limits."""
        now = self._told_at = monotonic()
        lines = (q for q, known in self._known.items() if known.keys.has_lines)
        asked = dict.fromkeys([*lanes, *lines])
        return [queue for queue in asked if self._of(queue).until <= now]

    async def claim(self, ask: Ask, most: int) -> list[ClaimedCommand]:
        """Lease from a queue with limits, or from its lines."""
        if not self._has_room(ask.queue):
            return []
        room = min(most, self._room(ask.queue))
        with self._duration.time():
            rows = await self._claim(ask, room)
        self._page_rows.observe(len(rows))
        advance(ask.lanes, rows)
        return rows

    async def _claim(self, ask: Ask, room: int) -> list[ClaimedCommand]:
        queue = ask.queue
        known, bounds = self._of(queue), self._admission.bounds(queue)
        if self._key_runs.ended:
            for key in self._key_runs.written(self._outcomes.through):
                self._of(key.queue).keys.turns.add([key.key])
        async with borrow(self._pool) as session:
            want = await self._want(session, ask, known, room)
            if want is None:
                return []
            claimed = await limits.claim(session, self._me, queue, bounds, want)
        self._learn(queue, known, claimed, want, room)
        return claimed.rows

    async def claim_suspects(
        self, queue: str, group: UUID, types: Sequence[str], room: int, *, alone: bool
    ) -> list[ClaimedCommand]:
        """Lease up to `room` commands of a group of suspects, within the queue's limits."""
        known = self._of(queue)
        if known.until > monotonic():
            return []
        want = Wanted(room, types, suspects=group, alone=alone)
        async with borrow(self._pool) as session:
            claimed = await limits.claim(
                session, self._me, queue, self._admission.bounds(queue), want
            )
        self._learn(queue, known, claimed, want, room)
        return claimed.rows

    async def _want(self, session: Session, ask: Ask, known: _Known, room: int) -> Wanted | None:
        """The next useful claim from a queue; None: there is nothing to claim."""
        queue, lanes, types = ask.queue, ask.lanes, self._admission.types(ask.queue)
        longest = max(1, int(_RUN_SECONDS / self._admission.prefetch.took))
        may_follow = self._admission.follows(queue)
        if self._admission.keeps_order(queue) and not may_follow:
            longest = 1  # further commands of a key would be given back
        # If a search has just found no other key, continue with the keys that run here.
        following = (
            self._going_on(queue, room, longest)
            if may_follow and not known.keys.turns and known.keys.has_just_learnt
            else []
        )
        if known.keys.has_lines and not following:
            await known.keys.find(session, types, room)
            if may_follow and not known.keys.turns:
                following = self._going_on(queue, room, longest)
        if not (lanes or known.keys.turns or following):
            return None
        first = known.lanes_first = not known.lanes_first
        if following:
            of_each = share(room, len(following), longest)
            return Wanted(room, types, lanes, first, following, of_each, self._claimed_until)
        of_each = share(room, len(known.keys.turns), longest)
        # Twice as many keys as should suffice: keys that other workers hold give nothing.
        keys = known.keys.turns.take(min(room, ceil(2 * room / known.keys.of_each)))
        return Wanted(room, types, lanes, first, keys, of_each)

    def _going_on(self, queue: str, room: int, longest: int) -> list[str]:
        return self._key_runs.expect(queue, longest // 2, max(1, room // RUN))

    def _learn(self, queue: str, known: _Known, claimed: Claimed, want: Wanted, room: int) -> None:
        keys = want.keys if want.following is None else ()
        if claimed.rows:
            self._claimed_until = claimed.at
        known.held_back = claimed.held_back
        known.contended = known.contended + 1 if claimed.held_back == "busy" else 0
        if claimed.held_back is not None:
            known.until = monotonic() + (known.wait if claimed.again is None else claimed.again)
            if claimed.held_back == "full":
                known.wait = min(2 * known.wait, _LONGEST_FULL)
                self._any_full = True
            self._held_back.labels(queue, claimed.held_back).inc()
            if not claimed.passed:  # the claim did not reach the keys
                known.keys.turns.put_back(keys)
                return
        else:
            known.wait = _FULL
        limited = bool(claimed.rows) and self._admission.bounds(queue).over_all
        known.keys.gave(keys, claimed, cut=len(claimed.rows) >= room or limited)

    # --------------------------------------------------------------------------------- what ends

    def retry(self) -> bool:
        """Ask full queues again, since a command has ended; returns whether any queue was full."""
        was_full, self._any_full = self._any_full, False
        if was_full:
            for known in self._known.values():
                if known.held_back == "full":
                    known.held_back, known.until, known.wait = None, 0.0, _FULL
        return was_full

    @property
    def contended(self) -> bool:
        """Whether another worker was just claiming from one of this worker's queues."""
        now = monotonic()
        return any(
            0 < known.contended <= _CONTENDED_RETRIES and known.until > now
            for known in self._known.values()
        )

    @property
    def again(self) -> float | None:
        """Seconds until a queue may be asked again, or has more; None: only after a wake-up."""
        return self.again_in(self._asked)

    def again_in(self, asked: Collection[str]) -> float | None:
        """Like `again`; asked: the queues of the page's `asks`."""
        now, times = monotonic(), []
        for queue, known in self._known.items():
            if known.until > self._told_at:  # the wait may have ended while other queues were asked
                times.append(max(0.0, known.until - now))
            elif queue in asked and (known.held_back or known.keys.looking or known.keys.turns):
                times.append(0.0)
        return min(times, default=None)

    def _of(self, queue: str) -> _Known:
        known = self._known.get(queue)
        if known is None:
            keys = KeyFinder(queue, self._admission, self._key_runs)
            known = self._known[queue] = _Known(keys)
        return known
