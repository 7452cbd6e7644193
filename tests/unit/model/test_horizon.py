"""The horizon: ids are taken in their order, whatever producers do."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inboxd.model.arrivals import Arrivals
from inboxd.model.horizon import ANY_TOPIC, Holding, Horizon, HorizonReading

TOPICS, BUCKETS = ("t", "u"), 2
PLACES = [(topic, bucket) for topic in TOPICS for bucket in range(BUCKETS)]
Place = tuple[str, int]


class Site:
    """A sequence, producers that hold locks while they write, and a worker that follows them."""

    def __init__(self) -> None:
        self.drawn = 0
        self.begun = 0
        # The places that each open producer has locked, with the ids that it wrote there.
        self.open: dict[str, dict[Place, list[int]]] = {}
        # Declared topics: the server does not tell the names of others.
        self.declared = set(TOPICS)
        self.visible: dict[Place, set[int]] = {place: set() for place in PLACES}
        self.newest: int | None = None
        self.horizon = Horizon()
        self.arrivals = Arrivals()
        self.taken: dict[Place, list[int]] = {place: [] for place in PLACES}

    def begin(self) -> None:
        self.begun += 1
        self.open[f"1/{self.begun}"] = {}

    def lock(self, who: str, place: Place) -> None:
        self.open[who].setdefault(place, [])

    def draw(self, who: str, place: Place) -> None:
        """Lock, then draw: other producers may act between the two."""
        self.lock(who, place)
        self.drawn += 1
        self.open[who][place].append(self.drawn)

    def end(self, who: str, *, commits: bool) -> None:
        for place, ids in self.open.pop(who).items():
            self.visible[place].update(ids if commits else ())

    def declare(self, topic: str) -> None:
        """Declare a topic, or withdraw its declaration."""
        self.declared ^= {topic}

    def read_newest(self) -> None:
        self.newest = self.drawn

    def read_holders(self) -> None:
        if self.newest is None:
            return
        holders = dict[str, Holding]()
        for who, held in self.open.items():
            topics = frozenset(topic for topic, _ in held)
            known = topics if topics <= self.declared else frozenset({ANY_TOPIC})
            holders[who] = Holding(frozenset(bucket for _, bucket in held), known)
        self.horizon.take(HorizonReading("server", self.newest, holders))
        self.newest = None

    def survey(self) -> None:
        """Look for rows from the beginning."""
        complete = self.horizon.bounds()
        left = {place: self.visible[place] - set(self.taken[place]) for place in PLACES}
        self.arrivals.survey([(place, min(ids)) for place, ids in left.items() if ids], complete)

    def claim(self) -> None:
        """Take visible rows from the cursor up to the bound, in the order of ids."""
        for lane in self.arrivals.pick(self.bound, len(PLACES)):
            after, bound = self.arrivals.after[lane], self.bound(lane)
            ready = {id_ for id_ in self.visible[lane] if after < id_ <= bound}
            fresh = sorted(ready - set(self.taken[lane]))
            self.taken[lane] += fresh
            self.arrivals.taken(lane, fresh[-1] if fresh else 0)
            self.arrivals.empty(lane)

    def bound(self, place: Place) -> int:
        return self.horizon.bound(place[1], place[0])

    def follow(self) -> None:
        """All steps of a worker, one after the other."""
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
                "declare",
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
        st.sampled_from(PLACES),
        st.booleans(),
    ),
    min_size=20,
    max_size=120,
)


def _play(site: Site, step: tuple[str, int, Place, bool]) -> None:
    what, n, place, commits = step
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
    elif what == "declare":
        site.declare(place[0])
    elif producers:
        who = producers[n % len(producers)]
        if what == "lock":
            site.lock(who, place)
        elif what == "draw":
            site.draw(who, place)
        else:
            site.end(who, commits=commits)


@settings(max_examples=300)
@given(_STEPS)
def test_no_id_is_taken_before_a_lower_one_that_commits_later(
    steps: list[tuple[str, int, Place, bool]],
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
    assert sum(len(ids) for ids in site.taken.values()) == visible, (
        "all visible rows are taken in the end"
    )


def test_survey_that_saw_a_later_id_first_misses_nothing() -> None:
    site = Site()
    site.begin()
    site.begin()
    site.draw("1/1", ("t", 0))
    site.draw("1/2", ("t", 0))
    site.end("1/2", commits=True)
    site.survey()
    site.end("1/1", commits=True)
    site.read_newest()
    site.read_holders()
    site.claim()
    assert site.taken["t", 0] == [1, 2]


def _reading(server: str, newest: int, *holders: str, topic: str = "t") -> HorizonReading:
    """The holders hold bucket 1 of the topic."""
    has = Holding(frozenset({1}), frozenset({topic}))
    return HorizonReading(server, newest, dict.fromkeys(holders, has))


def test_producer_of_another_topic_does_not_hold_up_a_topic() -> None:
    """An idle transaction once stopped every topic that shared its bucket."""
    horizon = Horizon()
    for n in range(5, 100):
        horizon.take(_reading("s", n, "1/1", topic="u"))
    assert (horizon.bound(1, "t"), horizon.bound(1, "u")) == (99, 0)
    horizon.take(_reading("s", 100, "1/2", topic=ANY_TOPIC))
    assert horizon.bound(1, "t") == 99, "an unknown topic may be any of the topics"


def test_a_topic_whose_name_becomes_known_is_held_as_before() -> None:
    """Also if a known name becomes unknown: a holder holds it until its transaction ends."""
    for names in (("t", ANY_TOPIC), (ANY_TOPIC, "t")):
        horizon = Horizon()
        horizon.take(_reading("s", 5))
        horizon.take(_reading("s", 10, "1/1", topic=names[0]))
        horizon.take(_reading("s", 20, "1/1", topic=names[1]))
        horizon.take(_reading("s", 30, "1/1", topic=names[1]))
        assert horizon.bound(1, "t") == 5, names
        horizon.take(_reading("s", 40))
        assert horizon.bound(1, "t") == 40, names


def test_bucket_without_holders_is_complete_at_once() -> None:
    horizon = Horizon()
    horizon.take(_reading("s", 10, "1/1"))
    assert (horizon.bound(0, "t"), horizon.bound(1, "t")) == (10, 0)


def test_bound_advances_under_successive_producers() -> None:
    horizon = Horizon()
    for n in range(1, 100):
        # The bucket always has a holder, but none stays for more than two readings.
        horizon.take(_reading("s", 10 * n, f"1/{n}", f"1/{n + 1}"))
    assert horizon.bound(1, "t") >= 960


def test_open_producer_holds_up_only_its_bucket() -> None:
    horizon = Horizon()
    horizon.take(HorizonReading("s", 5, {}))
    for n in range(6, 100):
        horizon.take(_reading("s", n, "1/1", f"2/{n}"))
    assert (horizon.bound(0, "t"), horizon.bound(1, "t")) == (99, 5)
    horizon.take(_reading("s", 100, "2/100"))
    assert horizon.bound(1, "t") == 6, "the newest id when 1/1 was first seen"


@pytest.mark.parametrize("reading", [HorizonReading("other", 100, {}), HorizonReading("s", 49, {})])
def test_another_server_and_a_rewound_sequence_forget_everything(reading: HorizonReading) -> None:
    horizon = Horizon()
    horizon.take(HorizonReading("s", 50, {}))
    assert not horizon.take(_reading(reading.server, reading.newest, "1/1"))
    assert horizon.bound(1, "t") == 0
    assert horizon.bound(0, "t") == reading.newest


def test_buckets_take_turns_and_are_read_until_empty() -> None:
    arrivals = Arrivals()
    arrivals.survey([(("t", 0), 10), (("t", 1), 11), (("t", 2), 99)], [50] * 64)
    assert arrivals.pick(lambda _: 50, 9) == [("t", 0), ("t", 1)], (
        "bucket 2 begins beyond the bound"
    )
    arrivals.hold([("t", 0)])
    assert arrivals.pick(lambda _: 50, 9) == [("t", 1)], "bucket 0 is held by a page of this worker"
    arrivals.taken(("t", 0), 20)
    arrivals.release([("t", 0)])
    assert arrivals.after["t", 0] == 20
    assert arrivals.pick(lambda _: 50, 1) == [("t", 1)], "the bucket that was read last comes last"
    arrivals.empty(("t", 1))
    assert arrivals.pick(lambda _: 50, 9) == [("t", 0)]
    arrivals.look([(("t", 1), 30), (("unknown", 1), 5)])
    assert arrivals.pick(lambda _: 50, 9) == [("t", 0), ("t", 1)]


def test_survey_moves_cursors_back() -> None:
    arrivals = Arrivals()
    arrivals.survey([(("t", 0), 10)], [20])
    arrivals.taken(("t", 0), 20)
    arrivals.survey([(("t", 0), 7)], [20])
    assert arrivals.after["t", 0] == 6
    arrivals.survey([(("t", 0), 7)], [4])
    assert arrivals.after["t", 0] == 4, "rows 5 and 6 may still be committed"
