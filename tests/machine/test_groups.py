"""A state machine of batches and workflows over the real database: the model always agrees.

Hypothesis draws the steps: batches are sent, opened, filled, closed and cancelled; graphs of steps
are sent; workers claim, settle, fail and die; operators replay, dismiss and cancel; folds come at
any time, late or twice. After each step every member and every batch equals the model's
(tests/machine/groups.py). At the end everything is run and folded: no command may still wait for
one that has ended. Known limit: steps follow one another; races are in tests/store/test_batches.py.
"""

import asyncio
from collections.abc import Awaitable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import orjson
import pytest
import uvloop
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from inboxd import operations
from inboxd.engine.breakers import Breakers
from inboxd.engine.controls import Controls
from inboxd.errors import Conflict
from inboxd.model.lane import Lane
from inboxd.registry.registry import make_registry
from inboxd.settings import Database as Settings
from inboxd.store import commands, controls
from inboxd.store.session import Session, connect
from inboxd.store.settlements import Requeue, Settlement
from inboxd.telemetry.metrics import Metrics
from tests.machine.groups import UNSETTLED, Group, Groups, Member
from tests.support import Database
from tests.support.rows import SQL, join
from tests.support.verdicts import safety

T = TypeVar("T")

_LANE = ("default", "test.noop", 0)
_COMMAND = {"type": "test.noop", "queue": "default"}
_TABLES = (
    "controls, commands, commands_history, batches, batch_progress, dependencies, steps, workers"
)

pick = st.integers(0, 7)
size = st.integers(0, 3)
ends = st.sampled_from(["succeeded", "succeeded", "failed", "failed", "cancelled"])
conditions = st.sampled_from(["succeeded", "succeeded", "failed", "finished"])
# A graph: each step waits for some of those before it.
graphs = st.lists(
    st.lists(st.tuples(st.integers(0, 3), conditions), max_size=2), min_size=1, max_size=5
)
told = st.sets(st.sampled_from(["succeeded", "failed", "finished"]))


def _step(name: str, /, **draws: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Any]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(draws))


_STEPS = st.one_of(
    _step("send", size=size, told=told, opened=st.booleans()),
    _step("send_workflow", graph=graphs),
    _step("append", pick=pick, size=size),
    _step("close", pick=pick),
    *[_step("claim", pick=pick)] * 3,
    *[_step("end", pick=pick, how=ends)] * 5,
    *[_step("fold", pick=pick)] * 3,
    *[_step("run_again", pick=pick)] * 2,
    _step("dismiss", pick=pick),
    _step("die"),
    _step("cancel", pick=pick),
    _step("cancel_batch", pick=pick),
    _step("pause"),
)


class Site:
    """The database, emptied between examples."""

    def __init__(self, runner: asyncio.Runner, session: Session) -> None:
        self._runner = runner
        self.session = session

    def run(self, work: Awaitable[T]) -> T:
        """Run the work of a step to its end."""

        async def waited() -> T:
            return await work

        return self._runner.run(waited())

    def fetch(self, statement: str, *arguments: object) -> list[Any]:
        """The rows of a statement."""
        return self.run(self.session.connection.fetch(statement, *arguments))


class Machine(RuleBasedStateMachine):
    """Each step does the same to the database and to the model."""

    def __init__(self, site: Site) -> None:
        super().__init__()
        self.site = site
        tables = ", ".join(f"inboxd.{table}" for table in _TABLES.split(", "))
        site.run(site.session.connection.execute(f"truncate {tables}"))
        self.worker = site.run(join(site.session))
        self.model = Groups()
        self.paused = False
        self.operator = site.session
        self.fences: dict[UUID, tuple[int, int]] = {}

    # -------------------------------------------------------------------------------- invariants

    @invariant()
    @safety()
    def no_difference(self) -> None:
        """Every member and every batch equals the model's."""
        rows = self.site.fetch(
            "select command_id, status, needs, cancel_requested from inboxd.commands union all "
            "select command_id, status, 0, cancel_requested from inboxd.commands_history "
            "where status <> 'failed'"  # its replay took its place
        )
        real = {row[0]: tuple(row)[1:] for row in rows}
        expected = {m.uuid: (m.status, len(m.edges), m.asked) for m in self.model.members.values()}
        assert real == expected
        assert len(rows) == len(real), "a command exists twice"
        groups = self.site.fetch(
            "select id, status, size, succeeded, failed, cancelled, skipped from inboxd.batches"
        )
        mine = {g.id: (g.status, g.size, *g.counts.values()) for g in self.model.groups.values()}
        assert {row[0]: tuple(row)[1:] for row in groups} == mine

    @safety()
    def teardown(self) -> None:
        """Run and fold everything; commands that still wait then must wait for a dead letter."""
        if self.paused:
            self.pause()
        for _ in range(40):
            while self.model.some("pending", "running"):
                self.claim(9)
                for member in self.model.some("running"):
                    self._end(member, "succeeded")
            for group in list(self.model.groups.values()):
                self._close(group)
                self._fold(group)
            if not self.model.some("pending", "running"):
                break
        self.no_difference()
        unsettled = {m.uuid for m in self.model.some("failed", "waiting")}
        failed = {g.uuid for g in self.model.groups.values() if g.status in ("failed", *UNSETTLED)}
        for member in self.model.some("waiting"):
            assert all(needs in unsettled | failed for needs, _ in member.edges)

    @initialize(size=st.integers(1, 3), told=told)
    def begin(self, size: int, told: set[str]) -> None:
        """Send and claim some commands first."""
        self.send(size, told, opened=False)
        self.claim(7)

    @rule(step=_STEPS)
    @safety()
    def step(self, step: tuple[str, dict[str, Any]]) -> None:
        """Take a step. One rule for all: of several, Hypothesis leaves out half in each example."""
        name, draws = step
        getattr(self, name)(**draws)

    # ----------------------------------------------------------------------------------- sending

    @rule(size=size, told=told, opened=st.booleans())
    @safety()
    def send(self, size: int, told: set[str], opened: bool) -> None:
        """Send a batch with some continuations, closed or open."""
        arguments = [orjson.dumps(_COMMAND).decode() if c in told else None for c in _CONDITIONS]
        if opened:
            call = "select * from inboxd.open_batch('b', $1, $2, $3)"
            [(id_, uuid)] = self.site.fetch(call, *arguments)
        else:
            call = "select * from inboxd.send_batch('b', $4, $1, $2, $3)"
            [(id_, uuid)] = self.site.fetch(call, *arguments, _page(size))
        group = self.model.groups[id_] = Group(id_, uuid, closed=not opened)
        for row in self.site.fetch(
            "select d.waiting, d.condition from inboxd.dependencies d where needs = $1", uuid
        ):
            self.model.add(row[0], None, [(uuid, row[1])])
        if opened:
            return
        for row in self.site.fetch(
            "select command_id from inboxd.commands where batch_id = $1", id_
        ):
            self.model.add(row[0], id_)
        group.size = size
        if not size:  # it succeeded at once, and its edges are gone
            self._sent_empty(group, uuid)

    def _sent_empty(self, group: Group, uuid: UUID) -> None:
        rows = self.site.fetch(
            "select command_id, status from inboxd.commands where causation_id = $1 union all "
            "select command_id, status from inboxd.commands_history where causation_id = $1",
            uuid,
        )
        for row in rows:
            if row[0] not in self.model.members:
                self.model.add(row[0], None)
                self.model.members[row[0]].status = row[1]
                assert row[1] in ("pending", "cancelled")
        self.model.fold(group)
        assert group.status == "succeeded"

    def send_workflow(self, graph: Sequence[Sequence[tuple[int, str]]]) -> None:
        """Send a graph of steps."""
        edges = [  # at most one edge between two steps
            {before % number: condition for before, condition in after} if number else {}
            for number, after in enumerate(graph)
        ]
        steps = [
            {
                **_COMMAND,
                "name": f"s{number}",
                "after": [{"step": f"s{n}", "when": c} for n, c in after.items()],
            }
            for number, after in enumerate(edges)
        ]
        [(id_, uuid)] = self.site.fetch(
            "select * from inboxd.send_workflow('w', $1)", orjson.dumps(steps).decode()
        )
        self.model.groups[id_] = Group(id_, uuid, size=len(steps))
        names = self.site.fetch("select name, member from inboxd.steps where batch_id = $1", id_)
        uuids = {int(name[1:]): member for name, member in names}
        for number, after in enumerate(edges):
            self.model.add(uuids[number], id_, [(uuids[n], c) for n, c in after.items()])

    def _open(self) -> list[Group]:
        return [g for g in self.model.groups.values() if not g.closed and not g.ending]

    def append(self, pick: int, size: int) -> None:
        """Add members to an open batch."""
        if not self._open():
            return
        group = _one(self._open(), pick)
        known = set(self.model.members)
        self.site.fetch("select inboxd.add_to_batch($1, $2)", group.uuid, _page(size))
        group.news["size"] += size
        for row in self.site.fetch(
            "select command_id from inboxd.commands where batch_id = $1", group.id
        ):
            if row[0] not in known:
                self.model.add(row[0], group.id)

    def close(self, pick: int) -> None:
        if self._open():
            self._close(_one(self._open(), pick))

    def _close(self, group: Group) -> None:
        if group.closed:
            return
        self.site.fetch("select inboxd.close_batch($1)", group.uuid)
        group.closed = True
        self.model.fold(group)

    # ----------------------------------------------------------------------------------- workers

    def claim(self, pick: int) -> None:
        """Let a worker claim; it must get no waiting or paused commands."""
        rows = self.site.run(controls.read(self.site.session))
        nobody = Breakers(make_registry({}, {}), Metrics("0"), on_change=lambda: None)
        known = Controls(lambda: None, nobody)
        known.paused = frozenset((row["kind"], row["name"]) for row in rows)
        assert known.allow("queue", str(_LANE[0]), str(_LANE[1])) == (not self.paused)
        if self.paused:
            return
        lane = Lane(_LANE)
        claim = commands.claim(
            self.site.session, self.worker, {"default": pick + 1}, [lane], pick + 1
        )
        leased = self.site.run(claim)
        ready = {member.uuid for member in self.model.some("pending")}
        assert len(leased) == min(pick + 1, len(ready))
        for row in leased:
            assert row["command_id"] in ready
            self.model.members[row["command_id"]].status = "running"
            self.fences[row["command_id"]] = (row["id"], row["fence"])

    def end(self, pick: int, how: str) -> None:
        if running := self.model.some("running"):
            self._end(_one(running, pick), how)

    def _end(self, member: Member, how: str) -> None:
        id_, fence = self.fences[member.uuid]
        how = "cancelled" if member.asked and how != "failed" else how
        if how == "failed":
            dead = Requeue(id_, "failed", 1, error='{"error": "as told"}', fence=fence)
            write = commands.requeue(self.site.session, self.worker, [dead])
        elif how == "cancelled" and not member.asked:
            return
        else:
            ended = Settlement(id_, fence, how, 0.1, None)
            write = commands.settle(self.site.session, self.worker, [ended])
        assert self.site.run(write) == {id_}
        self.model.move(member, how)

    def die(self) -> None:
        """Declare the worker dead; its commands return, or are dead letters."""
        self.site.fetch(SQL["declare_dead"], self.worker)
        returned = self.site.fetch(SQL["reap_commands"], self.worker, 1000)
        assert len(returned) == len(self.model.some("running"))
        # Suspects are claimed by another statement, so this makes them ordinary commands.
        self.site.fetch("update inboxd.commands set crashes = 0")
        for member in self.model.some("running"):
            member.status = "pending"
        self.worker = self.site.run(join(self.site.session))

    def fold(self, pick: int) -> None:
        """Fold a batch, whether it has news or not."""
        if self.model.groups:
            self._fold(_one(self.model.groups.values(), pick))

    def _fold(self, group: Group) -> None:
        more = True
        while more:  # folds that end members do not yet release others
            [(more,)] = self.site.fetch("select more from inboxd.fold_batch($1)", group.id)
        self.model.fold(group)

    # --------------------------------------------------------------------------------- operators

    def pause(self) -> None:
        """Pause or resume the queue; running commands end nevertheless."""
        act = operations.resume if self.paused else operations.pause
        waits = len(self.model.some("pending"))
        told = self.site.run(act(self.operator, "queue", str(_LANE[0]), actor="me"))
        assert told == waits
        self.paused = not self.paused

    def run_again(self, pick: int) -> None:
        """Replay a dead letter: a new row takes its place."""
        if failed := self.model.some("failed"):
            member = _one(failed, pick)
            replay = operations.act(self.operator, "commands", "replay", [member.uuid], actor="me")
            if member.batch is not None and self.model.groups[member.batch].ending:
                with pytest.raises(Conflict, match="its batch was cancelled"):
                    self.site.run(replay)
                return
            (new_id,) = self.site.run(replay).new_ids
            [(uuid,)] = self.site.fetch(
                "select command_id from inboxd.commands where id = $1", new_id
            )
            self.model.replace(member, uuid)

    def dismiss(self, pick: int) -> None:
        """Dismiss a dead letter: it will not succeed."""
        if failed := self.model.some("failed"):
            member = _one(failed, pick)
            dismiss = operations.act(
                self.operator, "commands", "dismiss", [member.uuid], actor="me"
            )
            assert len(self.site.run(dismiss)) == 1
            self.model.move(member, "dismissed")

    def cancel(self, pick: int) -> None:
        """Cancel a command: at once, or by a request to its worker."""
        found = self.model.some(*UNSETTLED)
        if not found:
            return
        member = _one(found, pick)
        [(id_,)] = self.site.fetch(
            "select id from inboxd.commands where command_id = $1", member.uuid
        )
        at_once = self.site.fetch(SQL["cancel_commands"], [id_])
        asked = self.site.fetch(SQL["request_cancel"], [id_])
        assert (len(at_once), len(asked)) == ((0, 1) if member.status == "running" else (1, 0))
        member.asked = True
        if at_once:
            member.edges.clear()
            self.model.move(member, "cancelled")

    def cancel_batch(self, pick: int) -> None:
        """Cancel a whole batch, which its folds carry out."""
        found = [g for g in self.model.groups.values() if g.status in UNSETTLED and not g.ending]
        if not found:
            return
        group = _one(found, pick)
        self.site.fetch(
            "update inboxd.batches set ending = 'cancelled', "
            "closed_at = coalesce(closed_at, now()) where id = $1",
            group.id,
        )
        group.ending = group.closed = True


_CONDITIONS = ("succeeded", "failed", "finished")


def _one(items: Any, number: int) -> Any:
    found = list(items)
    return found[-1 - number % len(found)]


def _page(size: int) -> str:
    return orjson.dumps([_COMMAND] * size).decode()


@pytest.fixture
def site(database: Database) -> Iterator[Site]:
    """One database for all examples of a test."""
    settings = Settings.model_validate({"dsn": database.dsn, "lock_timeout": "2s"})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        session = runner.run(connect(settings, "test"))
        try:
            yield Site(runner, session)
        finally:
            session.connection.terminate()


def _run(site: Site, examples: int, steps: int) -> None:
    how = settings(
        print_blob=True,
        suppress_health_check=list(HealthCheck),
        max_examples=examples,
        stateful_step_count=steps,
    )
    machine: Any = partial(Machine, site)
    run_state_machine_as_test(machine, settings=how)


@pytest.mark.timeout(600)  # a failure is shrunk before it is reported
def test_the_model_and_the_database_agree_on_groups(site: Site) -> None:
    _run(site, examples=50, steps=25)


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_model_and_the_database_agree_on_groups_for_long(site: Site) -> None:
    _run(site, examples=1000, steps=50)
