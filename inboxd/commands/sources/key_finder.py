"""Finds the keys of a queue that may have something to run.

One search finds new rows by time, from its cursor on. The other walks all keys, a page at a time,
and finds keys that other workers have freed; it takes a small share of the time. Known limit: with
very many blocked keys a walk takes seconds. *See:* `limited`, which claims from these keys.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from time import monotonic

from inboxd.commands.admission import Admission
from inboxd.commands.sources.key_runs import KeyRuns, QueueKey
from inboxd.model.key_round_robin import KeyRoundRobin
from inboxd.model.lane import Lane
from inboxd.store import limits
from inboxd.store.limits import Claimed, KeyedSighting
from inboxd.store.session import Session

# Keys that one search reads; a walk pauses while the round holds this many.
_PAGE = 1_000
# Maximum share of the time for walks of all keys.
_LOOK_SHARE = 1 / 20
# Search for new rows while there are enough keys: shortest interval in seconds, maximum share of
# the time, longest interval. After a full page the interval is the shortest.
_LEARN_SECONDS, _LEARN_SHARE, _LONGEST_LEARN_SECONDS = 0.05, 1 / 50, 0.25


class KeyFinder:
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
