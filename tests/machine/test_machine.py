"""A state machine over the real database: in any order of events, the model agrees.

Hypothesis draws the steps: producers insert; workers claim, run, settle, fail, defer, release,
crash, are declared dead while they live, and settle leases that they have lost; operators replay,
cancel, and ask why a row is not running; the clock steps. After each step no row differs from the
model, and no claim has returned a forbidden row (tests/machine/model.py). Known limit: steps follow
one another; the races of two concurrent statements are in tests/store/test_claims.py and
test_settlements.py.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import UUID, uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import rule, run_state_machine_as_test

from inboxd.api.drafts import CommandDraft
from inboxd.engine.outcomes import requeue
from inboxd.errors import Defer, LeaseLost, Reject
from inboxd.model.backoff import Fixed
from inboxd.model.lineage import Lineage
from inboxd.model.outcome import Succeeded, decide
from inboxd.store import commands, events
from inboxd.store.rows import ClaimedCommand, ClaimedEvent, ClaimedRow
from inboxd.store.settlements import Parent, Requeue, Settlement
from inboxd.store.workers import WorkerIdentity
from tests.machine.asking import Asking
from tests.machine.model import ATTEMPTS, CRASHES, HOUR, Item, Model
from tests.machine.site import Claim, Site, Worker, open_site, query_of
from tests.machine.world import (
    acts,
    count,
    few,
    hours,
    lives,
    one,
    pick,
    place,
    priority,
    producing_ways,
    type_,
)
from tests.support import Database
from tests.support.verdicts import safety

POLICY = Fixed(attempts=ATTEMPTS, base="1h")

rarely = st.sampled_from([False, False, False, True])
ways_to_settle = st.sampled_from(
    ["gathered", "gathered", "own", "requeue", "requeue", "requeue", "release"]
)
picks = st.lists(pick, min_size=1, max_size=3)
ends = st.lists(
    st.sampled_from(["succeed", "send", "fail", "defer", "defer until", "reject", "release"]),
    min_size=1,
    max_size=3,
)


def _step(name: str, /, **draws: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[str, Any]]:
    return st.tuples(st.just(name), st.fixed_dictionaries(draws))


_PAGE = _step("page", pick=pick, rows=few, ends=ends, sweep=rarely, careful=rarely, lost=rarely)
_LEASE = _step(
    "lease", pick=pick, rows=few, rooms=st.tuples(few, few), sweep=rarely, slow=rarely, lost=rarely
)
_SETTLE = _step("settle", how=ways_to_settle, picks=picks, ends=ends)
_LIVE = _step("live", what=lives, pick=pick)
_ASK = _step("ask", name=place, pick=pick)
_ACT = _step("act", what=acts, name=place, pick=pick)
_PRODUCE = _step(
    "produce", how=producing_ways, count=count, type_=type_, hours=hours, priority=priority
)


class Machine(Asking):
    """Adds workers, which claim and settle, to the producers and operators of its base class.

    There is one rule for all steps: of several, Hypothesis leaves out half in each example, and a
    stale settlement needs most of them. It has no precondition: the result of a claim may depend on
    a few milliseconds, and Hypothesis needs the same draws whenever it repeats an example.
    """

    @rule(
        step=st.one_of(
            _PRODUCE,
            _LIVE,
            _ACT,
            _ACT,
            _ASK,
            _PAGE,
            _PAGE,
            _PAGE,
            _LEASE,
            _LEASE,
            _SETTLE,
            _SETTLE,
            _SETTLE,
        )
    )
    @safety()
    def step(self, step: tuple[str, dict[str, Any]]) -> None:
        """Take a step; every answer must be the model's."""
        name, draws = step
        getattr(self, name)(**draws)

    # --------------------------------------------------------------------------------- surveys

    def _sweep(self, worker: Worker) -> None:
        """Check the survey of every lane, and that lanes with due rows are known afterwards."""
        seen = self.site.run(self.site.sweep(worker))
        for name, lanes in (("events", worker.event_lanes), ("commands", worker.command_lanes)):
            expected = self.model.sightings(self.table(name))
            assert {
                s.key: (s.oldest is not None, s.next is not None) for s in seen[name]
            } == expected
            known = {lane.key: (lane.after_at, lane.after_id) for lane in lanes.ordered()}
            for s in seen[name]:
                if s.oldest is not None and None not in s.key:
                    assert known[s.key] < (s.run_at, s.id), (
                        "the cursor is rewound to before the lane's first row"
                    )

    # -------------------------------------------------------------------------- pages of events

    def page(
        self, pick: int, rows: int, ends: Sequence[str], sweep: bool, careful: bool, lost: bool
    ) -> None:
        """Let a worker do the next thing that a processor of events does."""
        worker = self.somebody(pick)
        if sweep or not worker.event_lanes.ordered():
            self._sweep(worker)
        if worker.page is not None:
            self._end_page(worker, ends, lost=lost)
        elif worker.alone is not None:
            self._run_alone(worker, worker.alone, ends)
        elif careful:
            self._mark_alone(worker)
        else:
            self._take_page(worker, rows)

    def _take_page(self, worker: Worker, rows: int) -> None:
        """Begin a page: its transaction holds the claimed rows."""
        self.site.run(worker.pages.connection.execute("BEGIN"))
        worker.page = self._take(worker, rows)

    def _take(self, worker: Worker, most: int) -> list[ClaimedEvent]:
        worker.page_lanes = worker.event_lanes.ordered()
        rows = self.site.run(events.claim(worker.pages, worker.page_lanes, most))
        offered = self.model.pending(self.model.events)
        query = query_of(worker.page_lanes, most)
        self.model.judge(offered, query, [row["id"] for row in rows])
        for row in rows:
            self._agree(row, self.model.events[row["id"]])
            self.model.events[row["id"]].held = True
        return rows

    def _agree(self, row: ClaimedRow, item: Item) -> None:
        assert (row["attempts"], row["crashes"]) == (item.attempts, item.crashes)

    def _end_page(self, worker: Worker, ends: Sequence[str], *, lost: bool) -> None:
        """Commit a page with each event's end, or roll all of it back."""
        rows, worker.page = worker.page or [], None
        sent = self._write_events(worker, rows, ends, lost=lost)
        self.site.run(worker.pages.connection.execute("ROLLBACK" if lost else "COMMIT"))
        self.let_go("events", rows)
        if lost:
            worker.event_lanes.forget()
            return
        self._count_children(sent)
        for row in rows:
            worker.page_lanes[row["lane"] - 1].advance(row["run_at"], row["id"])
        for position in {row["lane"] for row in rows}:
            worker.event_lanes.took(worker.page_lanes[position - 1])

    def _write_events(
        self,
        worker: Worker,
        rows: Sequence[ClaimedEvent],
        ends: Sequence[str],
        *,
        lost: bool = False,
    ) -> list[CommandDraft]:
        """Write the ends of events as a page does; return the commands that they sent."""
        done, requeues, children = [], [], []
        for number, row in enumerate(rows):
            end, item = ends[number % len(ends)], self.model.events[row["id"]]
            if end in ("succeed", "send"):
                done.append((row["id"], 0.1))
                if end == "send":
                    parent = Parent("event", row["id"], Lineage(None, None, None))
                    children.append((CommandDraft(uuid4(), "a", "{}", queue="qa"), parent))
                if not lost:
                    self.model.settle(item, "succeeded", worker.id)
            else:
                requeues.append(_as_requeue(row, worker.id, end, self.model.now))
                if not lost:
                    _expect(self.model, item, end)
                    item.crashes = 0
        self.site.run(commands.insert(worker.pages, children))
        self.site.run(events.settle(worker.pages, done, worker.id))
        self.site.run(events.requeue(worker.pages, requeues))
        return [draft for draft, _ in children]

    def _count_children(self, sent: Sequence[CommandDraft]) -> None:
        find = "select id from inboxd.commands where command_id = any($1)"
        rows = self.site.run(
            self.site.work.connection.fetch(find, [draft.command_id for draft in sent])
        )
        assert len(rows) == len(sent)
        for row in rows:
            self.wrote("commands", row["id"], ("qa", "a", 0))

    # ------------------------------------------------------------- events alone, after a death

    def _mark_alone(self, worker: Worker) -> None:
        """Count a crash of one event before it runs, or convict it at the limit."""
        self.site.run(worker.pages.connection.execute("BEGIN"))
        rows = self._take(worker, 1)
        for row in rows:
            item = self.model.events[row["id"]]
            if item.crashes >= CRASHES:
                blame = Requeue(item.id, "failed", spent=1, error="{}", crashes=item.crashes)
                self.site.run(events.requeue(worker.pages, [blame]))
                self.model.reject(item)
            else:
                self.site.run(events.mark_crash(worker.pages, item.id, HOUR))
                item.crashes += 1
                item.due_in(self.model.now, 1)
                worker.alone = row
        self.site.run(worker.pages.connection.execute("COMMIT"))
        self.let_go("events", rows)

    def _run_alone(self, worker: Worker, marked: ClaimedEvent, ends: Sequence[str]) -> None:
        """Run it, unless another worker has had it: its own worker was frozen for long."""
        item = self.model.events[marked["id"]]
        if item.held:
            return  # it would wait for the other page
        self.site.run(worker.pages.connection.execute("BEGIN"))
        row = self.site.run(events.claim_one(worker.pages, item.id))
        assert (row is not None) == (item.status == "pending" and not item.settled)
        sent = self._write_events(worker, [] if row is None else [row], ends)
        self.site.run(worker.pages.connection.execute("COMMIT"))
        self._count_children(sent)
        worker.alone = None

    # ------------------------------------------------------------------------ leases of commands

    def lease(
        self, pick: int, rows: int, rooms: tuple[int, int], sweep: bool, slow: bool, lost: bool
    ) -> None:
        """Claim commands, suspects first; the claim commits at once, or stays open for a while."""
        worker, at_once = self.somebody(pick), not slow
        if sweep or not worker.command_lanes.ordered():
            self._sweep(worker)
        if worker.leasing is not None:
            self._end_claim(worker, "ROLLBACK" if lost else "COMMIT")
        elif sweep or not self._claim_suspects(worker, pick, rows, at_once=at_once):
            self._claim_page(worker, rows, rooms, at_once=at_once)

    def _claim_page(
        self, worker: Worker, rows: int, rooms: tuple[int, int], *, at_once: bool
    ) -> None:
        room = dict(zip(("qa", "qb"), rooms, strict=True))
        lanes = sorted(worker.command_lanes.ordered(), key=lambda lane: int(lane.key[2] or 0))
        self.site.run(worker.claims.connection.execute("BEGIN"))
        found = self.site.run(commands.claim(worker.claims, worker.id, room, lanes, rows))
        if self.model.workers[worker.id] == "running":
            offered = [i for i in self.model.pending(self.model.commands) if i.group is None]
            self.model.judge(offered, query_of(lanes, rows, room), [row["id"] for row in found])
        else:
            assert found == [], "a claim of a worker that has ended"
        for row in found:
            lane = lanes[row["lane"] - 1]
            lane.advance(row["run_at"], row["id"])
            worker.command_lanes.took(lane)
        self._leasing(worker, found, at_once=at_once)

    def _claim_suspects(self, worker: Worker, pick: int, rows: int, *, at_once: bool) -> bool:
        """Claim commands of one group of suspects. Returns False if no group is due."""
        found = self.site.run(commands.find_suspects(worker.claims))
        waiting = {i.group for i in self.model.pending(self.model.commands)} - {None}
        assert {part.group for part in found} == waiting
        due = [part for part in found if part.oldest is not None]
        if not due:
            return False
        part = due[pick % len(due)]
        self.site.run(worker.claims.connection.execute("BEGIN"))
        taken = self.site.run(
            commands.claim_suspects(
                *(worker.claims, worker.id, part.group, ["a", "b"], {"qa": 9, "qb": 9}),
                rows=rows,
                alone=part.alone,
            )
        )
        expected = self.model.suspects(part.group)[:rows]
        if self.model.workers[worker.id] != "running":
            expected = []
        assert [row["id"] for row in taken] == [item.id for item in expected]
        if not taken:
            self.site.run(worker.claims.connection.execute("COMMIT"))
            return False
        self._leasing(worker, taken, at_once=at_once, alone=part.alone)
        return True

    def _leasing(
        self, worker: Worker, rows: Sequence[ClaimedCommand], *, at_once: bool, alone: bool = False
    ) -> None:
        worker.leasing, worker.by_itself = rows, alone
        for row in rows:
            item = self.model.commands[row["id"]]
            self._agree(row, item)
            assert row["fence"] == item.fence + 1
            item.held = True
        if at_once or self.model.workers[worker.id] != "running":
            self._end_claim(worker, "COMMIT")

    def _end_claim(self, worker: Worker, how: str) -> None:
        """End an open claim; until then its worker cannot be declared dead."""
        self.site.run(worker.claims.connection.execute(how))
        rows = worker.leasing or []
        self.let_go("commands", rows)
        if how == "COMMIT":
            assert not rows or self.model.lives(worker.id), "a dead worker's claim committed"
            ids = [row["id"] for row in rows]
            self.model.lease(ids, worker.id, alone=worker.by_itself)
            self.claims += [Claim(row, worker.id) for row in rows]
        worker.leasing = None

    # ----------------------------------------------------------------- outcomes, stale or not

    def _some(self, picks: Sequence[int]) -> list[Claim]:
        """Claims of one worker, each command once.

        Current claims come first, then stale ones whose commands run again.
        """
        chosen = [one(self.claims, number, first=self._interest) for number in picks]
        by_id = {claim.row["id"]: claim for claim in chosen if claim.worker == chosen[0].worker}
        return list(by_id.values())

    def _holds(self, claim: Claim) -> bool:
        return self.model.commands[claim.row["id"]].is_held_by(claim.row["fence"], claim.worker)

    def _interest(self, claim: Claim) -> int:
        item = self.model.commands[claim.row["id"]]
        return (item.status == "running") + self._holds(claim)

    def settle(self, how: str, picks: Sequence[int], ends: Sequence[str]) -> None:
        """Settle commands, with current or stale claims."""
        if not self.claims:
            return
        if how == "gathered":
            self._settle(self._some(picks))
        elif how == "own":
            result = None if ends[0] == "succeed" else '{"n": 1}'
            self._settle_own(self._some(picks[:1])[0], result)
        elif how == "requeue":
            self._requeue_commands(self._some(picks), ends)
        else:
            self._release(self._some(picks))

    def _settle(self, chosen: Sequence[Claim]) -> None:
        """Settle gathered: commands with current claims go to history, others stay unchanged."""
        ended = []
        for claim in chosen:
            asked = self.model.commands[claim.row["id"]].cancel_requested
            status = "cancelled" if asked else "succeeded"
            ended.append(Settlement(claim.row["id"], claim.row["fence"], status, 0.1, None))
        written = self.site.run(commands.settle(self.site.work, chosen[0].worker, ended))
        assert written == {claim.row["id"] for claim in chosen if self._holds(claim)}
        for settlement in ended:
            if settlement.id in written:
                item = self.model.commands[settlement.id]
                self.model.settle(item, settlement.status, chosen[0].worker)

    def _settle_own(self, claim: Claim, result: str | None) -> None:
        """Settle in the command's own transaction: its effect commits with it, or not at all."""
        id_, fence = claim.row["id"], claim.row["fence"]
        self.site.run(self.site.work.connection.execute("BEGIN"))
        write = "insert into ledger values ($1, $2) on conflict do nothing"
        self.site.run(self.site.work.connection.execute(write, id_, fence))
        ended = Settlement(id_, fence, "succeeded", 0.1, result)
        expected = self._holds(claim)
        try:
            own = commands.settle_own(self.site.work, claim.worker, ended, "COMMIT")
            self.site.run(own)
        except LeaseLost:
            self.site.run(self.site.work.connection.execute("ROLLBACK"))
            assert not expected
        else:
            assert expected, "a stale worker's effects were committed"
            self.model.settle(self.model.commands[id_], "succeeded", claim.worker)
            self.model.effects.add((id_, fence))

    def _requeue_commands(self, chosen: Sequence[Claim], ends: Sequence[str]) -> None:
        """Requeue for retries, deferrals, releases and dead letters, if the claims are current."""
        held = {claim.row["id"] for claim in chosen if self._holds(claim)}
        requeues = []
        for number, claim in enumerate(chosen):
            end = ends[number % len(ends)]
            fence = claim.row["fence"]
            requeues.append(_as_requeue(claim.row, claim.worker, end, self.model.now, fence))
            if claim.row["id"] in held:
                _expect(self.model, self.model.commands[claim.row["id"]], end)
        written = self.site.run(commands.requeue(self.site.work, chosen[0].worker, requeues))
        assert written == held

    def _release(self, known: Sequence[Claim]) -> None:
        """Release a worker's commands, except some that it knows."""
        worker, but = known[0].worker, [claim.row["id"] for claim in known[1:]]
        given = self.site.run(commands.release(self.site.work, worker, but))
        assert given == len(self.model.release(worker, but))


# ------------------------------------------------------------------------------------- outcomes


def _as_requeue(row: ClaimedRow, worker: UUID, end: str, now: datetime, fence: int = 0) -> Requeue:
    """The product's own decision for this end."""
    errors: dict[str, Exception] = {
        "fail": RuntimeError("as told"),
        "defer": Defer(after="2h"),
        "defer until": Defer(until=now + 3 * HOUR),
        "reject": Reject("as told"),
    }
    if end not in errors:
        return Requeue(row["id"], "pending", fence=fence)
    outcome = decide(errors[end], POLICY, row["attempts"], timedelta(0))
    assert not isinstance(outcome, Succeeded)
    return requeue(
        outcome, row, WorkerIdentity(worker, "test", "host", 1, "0", (), (), (), ""), fence
    )


def _expect(model: Model, item: Item, end: str) -> None:
    """The model's decision for this end."""
    match end:
        case "fail":
            model.retry(item, hours=1)
        case "defer":
            model.give_back(item, hours=2)
        case "defer until":
            model.give_back(item, hours=3)
        case "reject":
            model.reject(item)
        case _:
            model.give_back(item)


@pytest.fixture
def site(database: Database) -> Iterator[Site]:
    """One database for all examples of a test."""
    with open_site(database) as site:
        yield site


_EXAMPLES = settings(
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)


def _run(site: Site, examples: int, steps: int) -> None:
    """Run a machine for each example; a failure prints its steps and its blob."""
    how = settings(_EXAMPLES, max_examples=examples, stateful_step_count=steps)
    machine: Any = partial(Machine, site)
    run_state_machine_as_test(machine, settings=how)


@pytest.mark.timeout(600)  # a failure is shrunk before it is reported
def test_the_model_and_the_database_agree(site: Site) -> None:
    _run(site, examples=60, steps=40)


@pytest.mark.long
@pytest.mark.soak
@pytest.mark.timeout(1200)
def test_the_model_and_the_database_agree_for_long(site: Site) -> None:
    _run(site, examples=1000, steps=60)
