"""The steps of a workflow: their layout, and how many steps are folded."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from inboxd.model.step_graph import (
    ACROSS,
    MOST,
    MOST_ARROWS,
    StepGraph,
    draw,
    edges_of,
    layers_of,
)

Steps = Sequence[Mapping[str, Any]]


def step(
    name: str, *after: str, status: str = "waiting", type_: str = "ship", **other: Any
) -> Mapping[str, Any]:
    """`after`: names of steps, or names with a condition after a space."""
    told = [each if " " in each else f"{each} succeeded" for each in after]
    given = {"name": name, "status": status, "type": type_, "id": 1, "kind": "command"}
    return {**given, "after": told, "waits": [], **other}


def diamond() -> Steps:
    return [step("a"), step("b", "a"), step("c", "a failed"), step("d", "b", "c finished")]


def chain(length: int) -> Steps:
    return [step(f"s{n}", *([f"s{n - 1}"] if n else [])) for n in range(length)]


def wide(length: int) -> Steps:
    """One step, then layers of ten, of three types."""
    steps = [step("s0")]
    for n in range(1, length):
        above = [f"s{max(n - 10 - extra, 0)}" for extra in range(2)]
        steps.append(step(f"s{n}", *dict.fromkeys(above), type_=f"type {n % 3}"))
    return steps


def named(graph: StepGraph) -> dict[str, int]:
    """The line of each node that stands for one step."""
    return {node.alone["name"]: node.line for node in graph.nodes if node.alone is not None}


def check(graph: StepGraph, steps: Steps) -> None:
    """The rules that each drawing keeps."""
    assert sum(node.count for node in graph.nodes) == len(steps)
    assert len(graph.nodes) <= MOST
    assert len(graph.arrows) <= MOST_ARROWS
    places = [(node.line, node.place) for node in graph.nodes]
    assert len(set(places)) == len(places), "each node has its own place"
    assert max(Counter(node.line for node in graph.nodes).values()) == graph.across <= ACROSS
    for arrow in graph.arrows:
        assert graph.nodes[arrow.source].line < graph.nodes[arrow.target].line


def test_a_diamond_has_three_layers() -> None:
    graph = draw(diamond())
    check(graph, diamond())
    assert named(graph) == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert (graph.across, graph.lines, graph.layers) == (2, 3, 3)
    names = [node.alone["name"] for node in graph.nodes if node.alone is not None]
    arrows = {(names[a.source], names[a.target]): a.condition for a in graph.arrows}
    assert arrows == {
        ("a", "b"): "succeeded",
        ("a", "c"): "failed",
        ("b", "d"): "succeeded",
        ("c", "d"): "finished",
    }
    assert not graph.folded


def test_chain_is_drawn_downwards() -> None:
    graph = draw(chain(7))
    check(graph, chain(7))
    assert named(graph) == {f"s{n}": n for n in range(7)}
    assert {node.place for node in graph.nodes} == {-0.5}


def test_a_step_stands_below_all_that_it_waits_for() -> None:
    steps = [step("late", "c"), step("a"), step("b", "a"), step("c", "a", "b"), step("other")]
    assert layers_of(edges_of(steps)) == {"late": 3, "a": 0, "b": 1, "c": 2, "other": 0}


def test_arrows_avoid_crossings() -> None:
    steps = [step(name) for name in "abcd"] + [step(f"{name}{name}", name) for name in "dbca"]
    graph = draw(steps)
    upper = [n.alone["name"] for n in graph.nodes if n.alone and n.line == 0]
    lower = [n.alone["name"] for n in graph.nodes if n.alone and n.line == 1]
    assert lower == [name * 2 for name in upper]


@pytest.mark.parametrize("steps", [wide(300), chain(300)], ids=["wide", "chain"])
def test_three_hundred_steps_are_each_a_node(steps: Steps) -> None:
    graph = draw(steps)
    check(graph, steps)
    assert len(graph.nodes) == 300
    assert not graph.folded


@pytest.mark.parametrize(
    "steps",
    [
        wide(301),
        wide(1000),
        chain(301),
        chain(1000),
        [step(f"s{n}", status=("pending", "failed")[n % 2]) for n in range(1000)],
        [step(f"s{n}", type_=f"type {n}") for n in range(1000)],
        [step("s0"), *(step(f"s{n}", "s0", type_=f"type {n}") for n in range(1, 1000))],
    ],
    ids=["301", "wide", "chain of 301", "chain", "alike", "each another type", "fan of types"],
)
def test_more_than_the_maximum_are_folded(steps: Steps) -> None:
    graph = draw(steps)
    check(graph, steps)
    assert graph.folded


def test_folded_steps_share_layer_status_and_type_if_that_suffices() -> None:
    steps = wide(1000)
    layers = layers_of(edges_of(steps))
    alike = Counter((layers[each["name"]], each["status"], each["type"]) for each in steps)
    assert len(alike) > MOST, "more groups than nodes: layers are merged"
    graph = draw(steps[:800])
    assert {node.last - node.first for node in graph.nodes} == {0}
    assert all(node.type is not None for node in graph.nodes)
    failed = [{**each, "status": "failed"} if each["name"] == "s55" else each for each in steps]
    (alone,) = [node for node in draw(failed).nodes if node.status == "failed"]
    assert alone.alone is not None
    assert alone.alone["name"] == "s55", "a dead letter is not folded"


def test_steps_without_kept_edges_show_their_remaining_ones() -> None:
    steps = [
        step("a", after=None, status="running"),
        step("b", after=None, waits=["a succeeded", "8d3a-not-a-step succeeded"]),
    ]
    graph = draw(steps)
    assert (graph.known, len(graph.arrows)) == (False, 1)
    assert draw(diamond()).known


def test_names_with_spaces_and_names_that_are_conditions() -> None:
    steps = [step("a b"), step("failed", "a b succeeded"), step("x", "failed failed")]
    assert edges_of(steps) == {
        "a b": {},
        "failed": {"a b": "succeeded"},
        "x": {"failed": "failed"},
    }


def test_circle_ends_the_layout() -> None:
    steps = [step("a"), step("b", "a", "d"), step("c", "b"), step("d", "c"), step("e", "e")]
    graph = draw(steps)
    check(graph, steps)
    assert layers_of(edges_of(steps)) == {"a": 0, "e": 0, "b": 1, "c": 1, "d": 1}


def test_many_arrows_are_cut_and_counted() -> None:
    steps = [step(f"a{n}") for n in range(60)]
    steps += [step(f"b{n}", *(f"a{each}" for each in range(60))) for n in range(60)]
    graph = draw(steps)
    check(graph, steps)
    assert graph.left_out == 3600 - MOST_ARROWS


def test_cost_grows_linearly_with_steps_and_arrows() -> None:
    """A thousand steps take a few hundredths of a second; quadratic growth took minutes."""
    began = time.process_time()
    for steps in (chain(1000), wide(1000)):
        draw(steps)
    assert time.process_time() - began < 5
