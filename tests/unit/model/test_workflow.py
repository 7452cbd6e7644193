"""The graph of a workflow: counted edges, and graphs that are refused."""

import timeit
from itertools import pairwise
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inboxd.errors import UsageError
from inboxd.model.workflow import Condition, Edge, Graph


def graph(**after: list[str]) -> Graph:
    made = Graph()
    for name, needed in after.items():
        made.add(name, [Edge(each) for each in needed])
    return made


def test_edges_are_counted_at_both_ends() -> None:
    seed = graph(basic=[], users=["basic"], classes=["basic"], enrolments=["users", "classes"])
    seed.check()
    assert [len(edges) for edges in seed.edges.values()] == [0, 1, 1, 2]
    assert seed.order() == ["basic", "users", "classes", "enrolments"]


@pytest.mark.parametrize("name", ["", "a\0b"])
def test_a_step_needs_a_name_that_can_be_stored(name: str) -> None:
    with pytest.raises(UsageError, match="is not a valid step name"):
        Graph().add(name)


def test_a_name_is_given_once() -> None:
    with pytest.raises(UsageError, match="a step 'a' already"):
        graph(a=[]).add("a")


def test_a_step_does_not_wait_for_itself() -> None:
    steps = graph(a=[])
    with pytest.raises(UsageError, match="'b' waits for itself"):
        steps.add("b", [Edge("a"), Edge("b")])
    assert "b" not in steps


def test_an_unknown_step_is_named() -> None:
    with pytest.raises(UsageError, match="'b' waits for 'users', which is not a step"):
        graph(a=[], b=["a", "users"]).check()


def test_a_cycle_is_named_all_the_way_round() -> None:
    with pytest.raises(UsageError, match=r"'b' -> 'c' -> 'd' -> 'b'|'c' -> 'd' -> 'b' -> 'c'"):
        graph(a=[], b=["a", "d"], c=["b"], d=["c"], e=["d"]).check()


def test_a_long_cycle_is_named_in_short() -> None:
    ring = graph(**{f"s{i}": [f"s{(i - 1) % 1000}"] for i in range(1000)})
    with pytest.raises(UsageError, match="… 989 more …") as refused:
        ring.check()
    assert len(str(refused.value)) < 250


def test_two_conditions_on_one_step_become_one() -> None:
    steps = graph(a=[])
    steps.add(
        "b",
        [Edge("a", Condition.FINISHED), Edge("a", Condition.FAILED), Edge("a", Condition.FAILED)],
    )
    assert steps.edges["b"] == {"a": Condition.FAILED}
    steps.add("c", [Edge("a"), Edge("a", Condition.FINISHED)])
    assert steps.edges["c"] == {"a": Condition.SUCCEEDED}


def test_conditions_that_exclude_each_other_are_refused() -> None:
    steps = graph(a=[])
    with pytest.raises(UsageError, match="'b' waits for 'a' to succeed and to fail"):
        steps.add("b", [Edge("a"), Edge("a", Condition.FAILED)])


def test_ten_thousand_steps_are_checked_at_once() -> None:
    def check() -> None:
        steps = Graph()
        for i in range(10_000):
            steps.add(f"s{i}", [Edge(f"s{j}") for j in range(max(0, i - 3), i)])
        steps.check()

    # It takes 0.03 s; CI machines are shared. `Timer` switches the garbage collector off.
    assert min(timeit.Timer(check, timer=process_time).repeat(number=1, repeat=3)) < 0.5


@given(st.lists(st.sets(st.integers(0, 7)), min_size=1, max_size=8))
def test_a_graph_is_refused_just_when_no_order_of_its_steps_exists(needs: list[set[int]]) -> None:
    steps = Graph()
    edges = {i: {n for n in needed if n < len(needs) and n != i} for i, needed in enumerate(needs)}
    for i, needed in edges.items():
        steps.add(str(i), [Edge(str(n)) for n in needed])
    done: set[int] = set()
    while ready := {i for i, needed in edges.items() if i not in done and needed <= done}:
        done |= ready
    if len(done) == len(edges):
        steps.check()
        return
    with pytest.raises(UsageError) as refused:
        steps.check()
    way = str(refused.value).partition(": ")[2].rstrip(".").replace("'", "").split(" -> ")
    assert way[0] == way[-1]
    assert all(int(one) in edges[int(other)] for one, other in pairwise(way))
