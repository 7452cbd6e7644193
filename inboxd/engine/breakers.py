"""Breakers of one worker: rows that need a target which is down are not claimed.

A type whose breaker is open is treated like a paused type. Breakers still follow this worker's own
calls while the database is away. The number of undeclared breakers (hosts of `http.request`, names
of `ctx.breaker`) is bounded: a new one replaces the least recently called one.
"""

import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

import anyio
from prometheus_client import Counter, Gauge

from inboxd.api.records import Handler
from inboxd.registry.registry import Registry
from inboxd.resilience.breaker import Breaker, Ticket
from inboxd.resilience.rules import WAIT, BreakerRules
from inboxd.telemetry.metrics import Metrics

# A row, by its kind and id.
Holder = tuple[str, int]
# Maximum number of undeclared breakers: each needs memory and series of metrics.
_MOST_UNDECLARED = 1000


class Breakers:
    def __init__(self, registry: Registry, metrics: Metrics, on_change: Callable[[], None]) -> None:
        """on_change: called when the set of rows that must wait changes."""
        self._registry = registry
        self._rules = registry.breakers
        self._metrics = metrics
        self._on_change = on_change
        self.by_name: dict[str, Breaker] = {}
        # Undeclared breakers, in the order of their last calls.
        self._called_names: dict[str, None] = {}
        # `shut`: breakers that let no call pass. `_shut_commands`: shut breakers without a
        # fallback, so commands wait for them. `_shut_topics`: topics in which every type must wait.
        # `probing`: breakers that this worker probes.
        self.shut: frozenset[str] = frozenset()
        self._shut_commands: frozenset[str] = frozenset()
        self._shut_topics: frozenset[str] = frozenset()
        self.probing: frozenset[str] = frozenset()
        # Rows that may begin as probes, with their tickets.
        self.held: dict[Holder, list[tuple[Breaker, Ticket]]] = {}
        # Change counter.
        self.version = 0
        self.work = anyio.Event()
        self._told: dict[str, tuple[int, ...]] = {}
        # Breaker by queue.
        self._of_queues: dict[str, str] = {}
        # Uses of breakers, and new rules, that are not in the database yet.
        self.undeclared: set[tuple[str, str | None]] = set()
        for name, _ in registry.breaker_uses:
            self.declared(name)

    def declared(self, name: str) -> Breaker:
        """The breaker of a declared name; it is never forgotten."""
        self._called_names.pop(name, None)
        return self.by_name.get(name) or self._make(name)

    def called(self, name: str) -> Breaker:
        """The breaker of a name that a call gave; an undeclared one has the default rules."""
        found = self.by_name.get(name)
        if found is not None and name not in self._called_names:
            return found
        if found is None and len(self._called_names) >= _MOST_UNDECLARED:
            self._make_room()
        self._called_names.pop(name, None)
        self._called_names[name] = None
        return found or self._make(name)

    def _make(self, name: str) -> Breaker:
        made = self.by_name[name] = Breaker(name, self._rules.get(name, BreakerRules()))
        self.work.set()  # the database may have its state
        return made

    def _make_room(self) -> None:
        """Forget the least recently called undeclared breaker, a closed one if possible.

        After the next call this worker reads an open one again. Probed and unwritten ones are kept.
        """
        names = [
            name
            for name in self._called_names
            if not self.by_name[name].is_probing and self.by_name[name].unwritten is None
        ]
        closed = (name for name in names if self.by_name[name].passes)
        name = next(closed, names[0] if names else None)
        if name is not None:
            del self.by_name[name], self._called_names[name]
            self._told.pop(name, None)
            _forget_series(self._metrics, name)
            self.look()

    def need(self, queues: Mapping[str, str]) -> None:
        if queues == self._of_queues:
            return
        new = queues.items() - self._of_queues.items()
        self.undeclared |= {(name, f"queue {queue}") for queue, name in new}
        self._of_queues = dict(queues)
        for name in queues.values():
            self.declared(name)
        self.work.set()
        self.version += 1
        self._on_change()

    def reload(self, rules: Mapping[str, BreakerRules]) -> None:
        new = rules.keys() - self._rules.keys()
        self._rules = rules
        self.undeclared |= {(name, None) for name in new}
        for name in new:
            self.declared(name)
        if new:
            self.work.set()
        for name, breaker in self.by_name.items():
            breaker.reload(rules.get(name, BreakerRules()))
        self.look()

    # ------------------------------------------------------------------------------- questions

    @property
    def is_quiet(self) -> bool:
        return not (self.shut or self.probing)

    def allow(self, kind: str, lane: str, type_: str) -> bool:
        if kind == "queue":
            return self._shut_commands.isdisjoint(self._needed(kind, lane, type_))
        if kind != "topic" or not self.shut:
            return True
        if not type_:
            return lane not in self._shut_topics
        handlers = self._registry.handlers_of(lane, type_)
        return not any(each.breaker in self.shut for each in handlers if not each.command_type)

    def room(self, kind: str, lane: str, type_: str) -> int | None:
        """How many rows of a lane may be claimed as probes; None: this worker does not probe it."""
        needed = self._needed(kind, lane, type_)
        return min((self.by_name[n].room for n in needed if n in self.probing), default=None)

    def admit(self, kind: str, lane: str, type_: str, row_id: int) -> bool:
        """If this worker probes its breaker, the row becomes a probe."""
        names = [name for name in self._needed(kind, lane, type_) if name in self.probing]
        holder = (kind, row_id)
        if not names or holder in self.held:
            return True
        held: list[tuple[Breaker, Ticket]] = []
        for name in names:
            breaker = self.by_name[name]
            taken = breaker.begin()
            if taken is None:
                for one, given in held:
                    one.give_back(given)
                return False
            held.append((breaker, taken))
        self.held[holder] = held
        self.look()
        return True

    def is_admitted(self, kind: str, lane: str, type_: str, row_id: int) -> bool:
        if any(name in self.probing for name in self._needed(kind, lane, type_)):
            return (kind, row_id) in self.held
        return self.allow(kind, lane, type_)

    def release(self, kind: str, row_id: int) -> None:
        """Give back the tickets of a row that has ended, or did not begin."""
        held = self.held.pop((kind, row_id), None)
        if held is not None:
            for breaker, ticket in held:
                breaker.give_back(ticket)
            self.look()

    def falls_back(self, queue: str, type_: str, row_id: int) -> tuple[str, str] | None:
        """The command type to send instead, and the breaker; None: the command itself runs."""
        if self.is_quiet or ("queue", row_id) in self.held:
            return None
        for name in self._needed("queue", queue, type_):
            instead = self.by_name[name].rules.fallback
            if instead not in (WAIT, type_) and name in self.shut | self.probing:
                return instead, name
        return None

    def needed_by(self, handler: Handler, queue: str | None) -> Collection[str]:
        """The breakers that a handler needs. queue: the command's queue, or None for an event."""
        of_queue = self._of_queues.get(queue) if queue is not None else None
        if of_queue is None or of_queue == handler.breaker:
            return () if handler.breaker is None else (handler.breaker,)
        return (of_queue,) if handler.breaker is None else (handler.breaker, of_queue)

    def _needed(self, kind: str, lane: str, type_: str) -> Collection[str]:
        if kind == "queue":
            handler = self._registry.commands.get(type_)
            if handler is not None:
                return self.needed_by(handler, lane)
            return (self._of_queues[lane],) if lane in self._of_queues else ()
        handlers = self._registry.handlers_of(lane, type_)
        return {each.breaker for each in handlers if each.breaker and not each.command_type}

    # ----------------------------------------------------------------------------------- calls

    def begin(self, name: str, holder: Holder) -> Ticket | None:
        """Begin a call; returns its ticket, or None if no call may begin now."""
        breaker = self.called(name)
        if self.held:
            for each, ticket in self.held.get(holder, ()):
                if each is breaker:
                    return ticket
        begun = breaker.begin()
        if name in self.probing:
            self.look()
        return begun

    def end(
        self,
        name: str,
        holder: Holder,
        ticket: Ticket,
        *,
        failed: bool | None,
        began: float,
        after: float = 0.0,
        reason: str = "",
    ) -> None:
        """failed: None if the end says nothing about the target. began: by the monotonic clock."""
        breaker = self.called(name)  # the breaker may have been forgotten during the call
        held = self.held.get(holder)
        if held is not None:
            rest = [each for each in held if each[0] is not breaker]
            if len(rest) == len(held) and ticket == breaker.generation and breaker.is_probing:
                return  # the row counts as one probe, and its result is already known
            self.held[holder] = rest
        if failed is None:
            breaker.give_back(ticket)
            changed = False
        else:
            now = time.monotonic()
            changed = breaker.ended(
                ticket, now, failed=failed, seconds=now - began, after=after, reason=reason
            )
        if changed:
            self.work.set()
        if changed or name in self.probing:
            self.look()

    def rejected(self, name: str) -> float:
        """Count a handler's refused call; returns the seconds until the next call may be tried."""
        breaker = self.by_name[name]
        breaker.rejected += 1
        return breaker.rest(time.monotonic())

    # ------------------------------------------------------------------------------ other workers

    def on_notify(self) -> None:
        self.work.set()

    async def wait(self, within: float) -> None:
        with anyio.move_on_after(within):
            await self.work.wait()
        self.work = anyio.Event()

    def look(self) -> None:
        breakers = self.by_name.items()
        shut = frozenset(name for name, each in breakers if not each.passes)
        probing = frozenset(name for name, each in breakers if each.is_probing)
        waits = frozenset(name for name in shut if self.by_name[name].rules.fallback == WAIT)
        if (shut, waits, probing) == (self.shut, self._shut_commands, self.probing):
            return
        self.shut, self._shut_commands, self.probing = shut, waits, probing
        types: dict[str, list[bool]] = {}
        for topic, type_ in self._registry.in_topics:
            types.setdefault(topic, []).append(self.allow("topic", topic, type_))
        self._shut_topics = frozenset(topic for topic, open_ in types.items() if not any(open_))
        self.version += 1
        self._on_change()

    # ----------------------------------------------------------------------------------- metrics

    def show(self) -> None:
        """Set the metrics, about once a second: once per call would cost too much."""
        metrics = self._metrics
        for name, breaker in self.by_name.items():
            is_open = breaker.mode == "open" or (breaker.mode == "auto" and breaker.state == "open")
            half = breaker.mode == "auto" and breaker.state == "half_open"
            metrics.breaker_state.labels(name).set(2 if is_open else int(half))
            metrics.breaker_forced.labels(name).set(breaker.mode in ("open", "closed"))
            counts = (breaker.succeeded, breaker.failed, breaker.slow, breaker.rejected)
            before = self._told.get(name, (0, 0, 0, 0))
            self._told[name] = counts
            for place, outcome in enumerate(("succeeded", "failed", "slow")):
                new = counts[place] - before[place]
                metrics.breaker_calls.labels(name, outcome).inc(new)
            if counts[3] > before[3]:
                metrics.breaker_rejected.labels(name).inc(counts[3] - before[3])


def _forget_series(metrics: Metrics, name: str) -> None:
    of_name = (metrics.breaker_state, metrics.breaker_forced, metrics.breaker_rejected)
    series: list[tuple[Gauge | Counter, tuple[str, ...]]] = [(each, (name,)) for each in of_name]
    outcomes, states = ("succeeded", "failed", "slow"), ("open", "half-open", "close")
    series += [(metrics.breaker_calls, (name, outcome)) for outcome in outcomes]
    series += [(metrics.breaker_transitions, (name, to)) for to in states]
    for metric, labels in series:
        with suppress(KeyError):  # older libraries raise KeyError
            metric.remove(*labels)
