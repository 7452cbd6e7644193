"""The world around the workers: producers, workers' lives, the reaper, operators, the clock.

Owns the rules that do not claim, and the comparison after each step: no row differs from the model.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar
from uuid import UUID

import orjson
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
)

from inboxd import operations
from inboxd.errors import Conflict
from inboxd.store import commands, producing, unhandled, workers
from inboxd.store.unhandled import Way
from tests.machine.model import ABOUT, CRASHES, HOUR, Item, Key, Model
from tests.machine.site import SEATS, Claim, Site, Worker, item_of
from tests.support.verdicts import safety

T = TypeVar("T")

pick = st.integers(0, 7)  # selects one of the existing items
few = st.integers(1, 3)
count = st.sampled_from([1, 1, 3])
hours = st.sampled_from([0, 0, 0, -2, 1, 3])
priority = st.sampled_from([0, 0, 5])
producing_ways = st.sampled_from(["events", "commands", "functions", "again"])
type_ = st.sampled_from(["a", "b"])
acts = st.sampled_from(["replay", "replay", "dismiss", "cancel", "unhandled", "clock", "clock"])
lives = st.sampled_from(
    [
        "join",
        "declare_dead",
        "declare_dead",
        "declare_dead",
        "running",
        "running",
        "draining",
        "killed",
        "killed",
        "told to",
    ]
)
place = st.sampled_from(["events", "commands"])


def one(items: Iterable[T], number: int, first: Callable[[T], Any] = lambda _: 0) -> T:
    """Select one; 0 is the newest, or the newest of those that `first` ranks highest."""
    ranked = sorted(items, key=first)
    return ranked[-1 - number % len(ranked)]


class World(RuleBasedStateMachine):
    """Each step does the same to the database and to the model."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site
        site.run(site.empty())
        self.model = Model(site.run(site.rest())[0])
        self.staff: dict[int, Worker] = {}
        self.claims: list[Claim] = []

    def table(self, name: str) -> dict[int, Item]:
        """The model's rows of a table."""
        return self.model.events if name == "events" else self.model.commands

    @invariant()
    @safety()
    def no_difference(self) -> None:
        """Compare every row with the model; times known to the minute become exact."""
        self.model.now, staff, effects = self.site.run(self.site.rest())
        assert staff == self.model.workers, f"workers are {staff}, not {self.model.workers}"
        assert effects == self.model.effects, f"effects are {effects}, not {self.model.effects}"
        rows = self.site.run(self.site.rows())
        names = dict[object, object]()
        for row in rows:
            real, mine = item_of(row), self.table(row["name"]).get(row["id"])
            assert mine is not None, f"a row that no producer wrote: {real}"
            if mine.about and abs(mine.run_at - real.run_at) < ABOUT:
                mine.run_at, mine.about = real.run_at, False
            assert real == mine, f"{real} is not {mine}"
            assert names.setdefault(mine.group, real.group) == real.group, "groups mix"
            mine.group = real.group
        assert len(set(names.values())) == len(names), "a group was not split"
        assert len(rows) == len(self.model.events) + len(self.model.commands), (
            "a row is lost, or exists twice"
        )

    # ------------------------------------------------------------------------------- producers

    def produce(self, how: str, count: int, type_: str, hours: int, priority: int) -> None:
        if how == "events":
            self._insert_events(count, type_, hours)
        elif how == "commands":
            self._insert_commands(count, type_, hours, priority)
        elif how == "functions":
            self._call_functions(count, type_)
        elif self.model.events:
            self._emit_again(one(self.model.events.values(), count))

    def _insert_events(self, count: int, type_: str, hours: int) -> None:
        """By plain SQL, due now, earlier or later."""
        insert = (
            "insert into inboxd.events (type, run_at) select $1, now() + $2::interval"
            " from generate_series(1, $3::int) returning id"
        )
        for id_ in self._ids(insert, type_, hours * HOUR, count):
            self.wrote("events", id_, ("default", type_), hours)

    def _insert_commands(self, count: int, type_: str, hours: int, priority: int) -> None:
        """By plain SQL; each type has a queue of its own."""
        insert = (
            "insert into inboxd.commands (queue, type, run_at, priority)"
            " select 'q' || $1, $1, now() + $2::interval, $4 from generate_series(1, $3::int)"
            " returning id"
        )
        for id_ in self._ids(insert, type_, hours * HOUR, count, priority):
            self.wrote("commands", id_, ("q" + type_, type_, priority), hours)

    def _call_functions(self, count: int, type_: str) -> None:
        """By the bulk functions of producers."""
        items = orjson.dumps([{"type": type_}] * count).decode()
        for id_ in self._ids("select id from inboxd.emit_events($1::text::jsonb)", items):
            self.wrote("events", id_, ("default", type_))
        items = orjson.dumps([{"type": type_, "queue": "q" + type_}] * count).decode()
        for id_ in self._ids("select id from inboxd.send_commands($1::text::jsonb)", items):
            self.wrote("commands", id_, ("q" + type_, type_, 0))

    def _emit_again(self, item: Item) -> None:
        """Repeat an event_id: a duplicate as long as the first event is unsettled."""
        where = "events_history" if item.settled else "events"
        found = f"select event_id from inboxd.{where} where id = $1"
        again: UUID = self.site.run(self.site.work.connection.fetchval(found, item.id))
        entry = producing.Entry(type=str(item.lane[1]), payload="{}", uuid=again)
        receipt = self.site.run(producing.emit(self.site.operator, entry))
        assert receipt.id is not None
        if receipt.duplicate:
            assert not self.model.events[receipt.id].settled
        else:
            assert item.settled
            self.wrote("events", receipt.id, item.lane)

    def _ids(self, statement: str, *arguments: object) -> list[int]:
        return [
            row[0] for row in self.site.run(self.site.work.connection.fetch(statement, *arguments))
        ]

    def wrote(self, name: str, id_: int, lane: Key, hours: int = 0) -> None:
        """Record a new row in the model."""
        self.table(name)[id_] = Item(id_, lane, self.model.now + hours * HOUR)

    # -------------------------------------------------------------------------- workers' lives

    @initialize()
    def begin(self) -> None:
        """Begin with two workers and some rows."""
        self._join()
        self._join()
        for type_ in ("a", "b"):
            self._insert_events(2, type_, 0)
            self._insert_commands(1, type_, 0, 0)

    def live(self, what: str, pick: int) -> None:
        """Let a worker join, beat, end, or be declared dead."""
        if what == "declare_dead":
            self._declare_dead(pick)
        elif what == "join":
            self._join()
        elif what in ("running", "draining"):
            self._beat(self.somebody(pick), what)
        else:
            self._end(self.somebody(pick), what)

    def somebody(self, pick: int) -> Worker:
        """Select a worker, and start one if the staff is empty."""
        if not self.staff:
            self._join()
        return one(self.staff.values(), pick)

    def _join(self) -> None:
        """Start a process, if there is a seat."""
        for seat in range(SEATS):
            if seat not in self.staff:
                worker = self.staff[seat] = self.site.run(self.site.join(seat))
                self.model.workers[worker.id], self.model.beats[worker.id] = "running", 0
                return

    def _beat(self, worker: Worker, state: str) -> None:
        """Write a heartbeat and check its answer; a worker declared dead gets none, and ends."""
        news = self.site.run(workers.beat(self.site.work, worker.id, 0, state))
        if not self.model.lives(worker.id):
            assert news is None
            self._end(worker, "killed")
            return
        self.model.workers[worker.id] = state
        self.model.beats[worker.id] += 1
        assert news is not None
        asked = {i.id for i in self.model.running(worker.id) if i.cancel_requested}
        assert news.cancelled == asked
        others = [state for id_, state in self.model.workers.items() if id_ != worker.id]
        assert news.peers == others.count("running")

    def _end(self, worker: Worker, how: str) -> None:
        """End a worker: its transactions roll back; if it is killed, its leases stay."""
        for session in (worker.pages, worker.claims):
            self.site.run(session.connection.execute("ROLLBACK"))
        self.let_go("events", worker.page)
        self.let_go("commands", worker.leasing)
        if how == "told to":
            given = self.site.run(commands.release(self.site.work, worker.id))
            assert given == len(self.model.release(worker.id))
            self.site.run(workers.leave(self.site.work, worker.id))
            if self.model.lives(worker.id):
                self.model.workers[worker.id] = "stopped"
        del self.staff[next(seat for seat, who in self.staff.items() if who is worker)]

    def _holds_most(self, worker: UUID) -> tuple[bool, int]:
        return self.model.lives(worker), len(self.model.running(worker))

    def _declare_dead(self, pick: int) -> None:
        """Declare a worker dead as the reaper does; it may live, or have beaten meanwhile."""
        staff = {worker.id for worker in self.staff.values()}
        gone = [id_ for id_ in self.model.workers if id_ not in staff]
        worker = one([*gone, *staff], pick, first=self._holds_most)
        late = int(pick == 3)
        claiming = any(w.leasing is not None for w in self.staff.values() if w.id == worker)
        seen = self.model.beats[worker] - late
        returned = self.site.run(workers.declare_dead(self.site.pool, worker, seen, CRASHES))
        if late or claiming or not self.model.lives(worker):
            assert returned is None, (
                "declared dead, though it had beaten, was claiming, or had ended"
            )
        else:
            assert returned is not None
            assert {row["id"]: row["status"] for row in returned} == self.model.declare_dead(worker)

    def let_go(self, name: str, rows: Any) -> None:
        """Free the locks of an ended transaction."""
        for row in rows or ():
            self.table(name)[row["id"]].held = False

    # -------------------------------------------------- operators, unhandled lanes, the clock

    def act(self, what: str, name: str, pick: int) -> None:
        """Let an operator or a maintenance task change a row or a lane."""
        if what == "clock":
            self._step_clock((1, 2, 4, -1)[pick % 4])
        elif what == "unhandled":
            self._fail_unhandled(name, pick)
        elif what == "cancel" and self.model.commands:
            self._cancel(one(self.model.commands.values(), pick, lambda i: i.status == "running"))
        elif self.table(name):
            rows = self.table(name).values()
            item = one(rows, pick, lambda i: (i.status == "failed" and not i.settled, i.attempts))
            if not item.held:  # the operator would wait for the page
                (self._dismiss if what == "dismiss" else self._replay)(name, item)

    def _replay(self, name: Any, item: Item) -> None:
        """Replay a row, dead letter or not."""
        is_dead = item.status == "failed" and not item.settled
        act = operations.act(self.site.operator, name, "replay", [item.id], actor="me")
        try:
            done = self.site.run(act)
        except Conflict:
            assert not is_dead
        else:
            assert is_dead
            assert done.ids == (item.id,)
            (new_id,) = done.new_ids
            assert (new_id == item.id) == (name == "events")
            self.model.replay(item, new_id)

    def _dismiss(self, name: Any, item: Item) -> None:
        """Dismiss a row, dead letter or not."""
        is_dead = item.status == "failed" and not item.settled
        act = operations.act(self.site.operator, name, "dismiss", [item.id], actor="me")
        try:
            assert self.site.run(act).ids == (item.id,)
        except Conflict:
            assert not is_dead
        else:
            assert is_dead
            self.model.dismiss(item)

    def _cancel(self, item: Item) -> None:
        """Cancel a command, ended or not."""
        if item.held:
            return
        was, expected = item.status, self.model.cancel(item)
        try:
            done = self.site.run(
                operations.act(self.site.operator, "commands", "cancel", [item.id], actor="me")
            )
        except Conflict:
            assert not expected
        else:
            assert expected
            assert (done.requested if was == "running" else done.ids) == (item.id,)

    def _fail_unhandled(self, name: str, pick: int, rows: int = 2) -> None:
        """Make dead letters of a lane's due rows, as if it were unhandled."""
        lanes = self.model.sightings(self.table(name))
        if not lanes:
            return
        key = one(lanes, pick)
        way: Way = "events"
        if name == "commands":
            way = "suspects" if key[2] is None else "commands"
        fail = unhandled.fail(self.site.work, way, key, "{}", rows, 0 * HOUR)
        failed = self.site.run(fail)
        assert failed == len(self.model.unhandled(self.table(name), key, rows))

    def _step_clock(self, hours: int) -> None:
        """Step the database's clock (see tests/machine/site.py)."""
        if all(worker.is_idle for worker in self.staff.values()):
            self.model.step_clock(hours)
            self.site.run(self.site.step_clock(list(self.staff.values()), hours))
