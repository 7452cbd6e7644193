"""The horizon: whatever producers do, nothing is taken before what comes before it."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inboxd.model.arrivals import Arrivals
from inboxd.model.horizon import Horizon, HorizonReading

BUCKETS = 2


class Site:
    """A sequence, producers that hold locks while they write, and a worker that follows them."""

    def __init__(self) -> None:
        self.drawn = 0
        self.begun = 0
        # What each open producer holds, and has written there.
        self.open: dict[str, dict[int, list[int]]] = {}
        self.visible: dict[int, set[int]] = {bucket: set() for bucket in range(BUCKETS)}
        self.newest: int | None = None
        self.horizon = Horizon()
        self.arrivals = Arrivals()
        self.taken: dict[int, list[int]] = {bucket: [] for bucket in range(BUCKETS)}

    def begin(self) -> None:
        self.begun += 1
        self.open[f"1/{self.begun}"] = {}

    def lock(self, who: str, bucket: int) -> None:
        self.open[who].setdefault(bucket, [])

    def draw(self, who: str, bucket: int) -> None:
        """A producer locks, then draws; between the two, others may act."""
        self.lock(who, bucket)
        self.drawn += 1
        self.open[who][bucket].append(self.drawn)

    def end(self, who: str, *, commits: bool) -> None:
        for bucket, ids in self.open.pop(who).items():
            self.visible[bucket].update(ids if commits else ())

    def read_newest(self) -> None:
        self.newest = self.drawn

    def read_holders(self) -> None:
        if self.newest is None:
            return
        holders: dict[int, set[str]] = {}
        for who, held in self.open.items():
            for bucket in held:
                holders.setdefault(bucket, set()).add(who)
        frozen = {bucket: frozenset(them) for bucket, them in holders.items()}
        self.horizon.take(HorizonReading("server", self.newest, frozen))
        self.newest = None

    def survey(self) -> None:
        """Look what is there, from the beginning."""
        complete = [self.horizon.bound(bucket) for bucket in range(BUCKETS)]
        left = {b: self.visible[b] - set(self.taken[b]) for b in range(BUCKETS)}
        self.arrivals.survey([(("t", b), min(ids)) for b, ids in left.items() if ids], complete)

    def claim(self) -> None:
        """Take what is visible from the cursor up to the bound, in the order of ids."""
        for lane in self.arrivals.pick(lambda lane: self.horizon.bound(lane[1]), BUCKETS):
            bucket, after = lane[1], self.arrivals.after[lane]
            bound = self.horizon.bound(bucket)
            ready = {id_ for id_ in self.visible[bucket] if after < id_ <= bound}
            fresh = sorted(ready - set(self.taken[bucket]))
            self.taken[bucket] += fresh
            self.arrivals.taken(lane, fresh[-1] if fresh else 0)
            self.arrivals.empty(lane)

    def follow(self) -> None:
        """All that a worker does in turn."""
        self.survey()
        self.read_newest()
        self.read_holders()
        self.claim()

    def check(self) -> None:
        for ids in self.taken.values():
            assert ids == sorted(ids)


_STEPS = st.lists(
    st.tuples(
        st.sampled_from(
            [
                "begin",
                "draw",
                "draw",
                "draw",
                "lock",
                "end",
                "follow",
                "follow",
                "newest",
                "holders",
                "survey",
                "claim",
            ]
        ),
        st.integers(0, 7),
        st.integers(0, BUCKETS - 1),
        st.booleans(),
    ),
    min_size=20,
    max_size=120,
)


def _play(site: Site, step: tuple[str, int, int, bool]) -> None:
    what, n, bucket, commits = step
    producers = sorted(site.open)
    acts: dict[str, Callable[[], None]] = {
        "begin": site.begin,
        "newest": site.read_newest,
        "holders": site.read_holders,
        "claim": site.claim,
        "follow": site.follow,
        "survey": site.survey,
    }
    if what in acts:
        acts[what]()
    elif producers:
        who = producers[n % len(producers)]
        if what == "lock":
            site.lock(who, bucket)
        elif what == "draw":
            site.draw(who, bucket)
        else:
            site.end(who, commits=commits)


@settings(max_examples=300)
@given(_STEPS)
def test_no_id_is_taken_before_a_lower_one_that_commits_later(
    steps: list[tuple[str, int, int, bool]],
) -> None:
    site = Site()
    for step in steps:
        _play(site, step)
    for who in sorted(site.open):
        site.end(who, commits=True)
    for _ in range(2):
        site.read_newest()
        site.read_holders()
    site.survey()
    site.claim()
    site.check()
    visible = sum(len(ids) for ids in site.visible.values())
    assert sum(len(ids) for ids in site.taken.values()) == visible, "in the end all are taken"


def test_a_survey_that_saw_the_later_id_first_passes_by_nothing() -> None:
    site = Site()
    site.begin()
    site.begin()
    site.draw("1/1", 0)
    site.draw("1/2", 0)
    site.end("1/2", commits=True)
    site.survey()
    site.end("1/1", commits=True)
    site.read_newest()
    site.read_holders()
    site.claim()
    assert site.taken[0] == [1, 2]


def test_a_bucket_that_nobody_holds_is_complete_at_once() -> None:
    horizon = Horizon()
    horizon.take(HorizonReading("s", 10, {1: frozenset({"1/1"})}))
    assert (horizon.bound(0), horizon.bound(1)) == (10, 0)


def test_producers_that_follow_each_other_closely_do_not_hold_it_up() -> None:
    horizon = Horizon()
    for n in range(1, 100):
        # Somebody always holds the bucket, nobody for longer than two readings.
        horizon.take(HorizonReading("s", 10 * n, {1: frozenset({f"1/{n}", f"1/{n + 1}"})}))
    assert horizon.bound(1) >= 960


def test_a_producer_that_stays_holds_up_its_bucket_alone() -> None:
    horizon = Horizon()
    horizon.take(HorizonReading("s", 5, {}))
    for n in range(6, 100):
        horizon.take(HorizonReading("s", n, {1: frozenset({"1/1", f"2/{n}"})}))
    assert (horizon.bound(0), horizon.bound(1)) == (99, 5)
    horizon.take(HorizonReading("s", 100, {1: frozenset({"2/100"})}))
    assert horizon.bound(1) == 6, "what was drawn when it was first seen is complete, no more yet"


@pytest.mark.parametrize("reading", [HorizonReading("other", 100, {}), HorizonReading("s", 49, {})])
def test_another_server_and_a_rewound_sequence_forget_everything(reading: HorizonReading) -> None:
    horizon = Horizon()
    horizon.take(HorizonReading("s", 50, {}))
    held = HorizonReading(reading.server, reading.newest, {1: frozenset({"1/1"})})
    assert not horizon.take(held)
    assert horizon.bound(1) == 0
    assert horizon.bound(0) == reading.newest


def test_lanes_take_turns_and_are_asked_until_they_are_empty() -> None:
    arrivals = Arrivals()
    arrivals.survey([(("t", 0), 10), (("t", 1), 11), (("t", 2), 99)], [50] * 64)
    assert arrivals.pick(lambda _: 50, 9) == [("t", 0), ("t", 1)], "not what is beyond the bound"
    arrivals.hold([("t", 0)])
    assert arrivals.pick(lambda _: 50, 9) == [("t", 1)], "a page of ours has the other"
    arrivals.taken(("t", 0), 20)
    arrivals.release([("t", 0)])
    assert arrivals.after["t", 0] == 20
    assert arrivals.pick(lambda _: 50, 1) == [("t", 1)], "the one asked last comes last"
    arrivals.empty(("t", 1))
    assert arrivals.pick(lambda _: 50, 9) == [("t", 0)]
    arrivals.look([(("t", 1), 30), (("unknown", 1), 5)])
    assert arrivals.pick(lambda _: 50, 9) == [("t", 0), ("t", 1)]


def test_a_survey_takes_cursors_back() -> None:
    arrivals = Arrivals()
    arrivals.survey([(("t", 0), 10)], [20])
    arrivals.taken(("t", 0), 20)
    arrivals.survey([(("t", 0), 7)], [20])
    assert arrivals.after["t", 0] == 6
    arrivals.survey([(("t", 0), 7)], [4])
    assert arrivals.after["t", 0] == 4, "5 and 6 may still be committed"
