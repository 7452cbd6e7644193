"""The drawing of a workflow's steps: in layers, folded if there are many.

An arrow leads downwards, from the step that is waited for. A drawing has at most `MOST` nodes and
`MOST_ARROWS` arrows, and states how many are left out; it also ends for steps in a circle. Known
limit: arrows that cross a layer may pass behind its nodes.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any, Final

MOST: Final = 300
MOST_ARROWS: Final = 1_500
# Nodes in a line: a layer with more continues in the next line.
ACROSS: Final = 5
_SWEEPS: Final = 4

_Key = Hashable


@dataclass(frozen=True, slots=True)
class StepNode:
    """line, place: position; place may be a half. first, last: layers. type None: they differ."""

    line: int
    place: float
    first: int
    last: int
    status: str | None
    type: str | None
    count: int
    alone: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class StepArrow:
    """An arrow between nodes, by their numbers. condition: of the edge, or `mixed`."""

    source: int
    target: int
    condition: str


@dataclass(frozen=True, slots=True)
class StepGraph:
    """across: nodes in its widest line. known: all edges are known. left_out: arrows not drawn."""

    nodes: tuple[StepNode, ...]
    arrows: tuple[StepArrow, ...]
    across: int
    lines: int
    layers: int
    known: bool
    left_out: int

    @property
    def folded(self) -> bool:
        return any(node.alone is None for node in self.nodes)


def edges_of(steps: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Prerequisites with conditions; if edges were not kept, only those still waited for."""
    names = {step["name"] for step in steps}
    found: dict[str, dict[str, str]] = {}
    for step in steps:
        after = step["after"] if step["after"] is not None else step["waits"]
        told = (each.rpartition(" ") for each in after)
        found[step["name"]] = {
            needed: condition
            for needed, _, condition in told
            if needed in names and needed != step["name"]
        }
    return found


def layers_of(edges: Mapping[str, Mapping[str, str]]) -> dict[str, int]:
    """The layer of each step: its longest chain of prerequisites; circles come below all others."""
    left = {name: len(needed) for name, needed in edges.items()}
    following = defaultdict[str, list[str]](list)
    for name, needed in edges.items():
        for each in needed:
            following[each].append(name)
    layers = {name: 0 for name, waits in left.items() if not waits}
    order = list(layers)
    for name in order:  # the list grows
        for next_ in following[name]:
            layers[next_] = max(layers.get(next_, 0), layers[name] + 1)
            left[next_] -= 1
            if not left[next_]:
                order.append(next_)
    done, below = set(order), max((layers[name] for name in order), default=-1) + 1
    return {name: layers[name] if name in done else below for name in edges}


def draw(steps: Sequence[Mapping[str, Any]], most: int = MOST) -> StepGraph:
    edges = edges_of(steps)
    layers = layers_of(edges)
    keys = _folded(steps, layers, most)
    groups = defaultdict[_Key, list[Mapping[str, Any]]](list)
    for step in steps:
        groups[keys[step["name"]]].append(step)
    arrows = _arrows(edges, layers, keys)
    bands = _bands(groups, layers)
    ordered = _ordered(bands, arrows)
    nodes: list[StepNode] = []
    numbers: dict[_Key, int] = {}
    line = across = 0
    for band in ordered:
        for begin in range(0, len(band), ACROSS):
            part = band[begin : begin + ACROSS]
            for place, key in enumerate(part):
                numbers[key] = len(nodes)
                nodes.append(_node(groups[key], layers, line, place - len(part) / 2))
            across, line = max(across, len(part)), line + 1
    shown = sorted((numbers[a], numbers[b], condition) for (a, b), condition in arrows.items())
    return StepGraph(
        tuple(nodes),
        tuple(StepArrow(*each) for each in shown[:MOST_ARROWS]),
        across,
        line,
        len(set(layers.values())),
        all(step["after"] is not None for step in steps),
        max(len(shown) - MOST_ARROWS, 0),
    )


def _folded(
    steps: Sequence[Mapping[str, Any]], layers: Mapping[str, int], most: int
) -> dict[str, _Key]:
    """Steps share a node by layer, status, type; then without type; then with adjacent layers."""
    if len(steps) <= most:
        return {step["name"]: step["name"] for step in steps}
    for power in count():
        for by_type in (True, False):
            keys: dict[str, _Key] = {
                step["name"]: (
                    layers[step["name"]] >> power,
                    step["status"],
                    step["type"] if by_type else None,
                )
                for step in steps
            }
            if len(set(keys.values())) <= most or 2**power > len(steps):
                return keys
    raise AssertionError


def _arrows(
    edges: Mapping[str, Mapping[str, str]], layers: Mapping[str, int], keys: Mapping[str, _Key]
) -> dict[tuple[_Key, _Key], str]:
    """The arrows between nodes, downwards; arrows with the same ends are merged."""
    found: dict[tuple[_Key, _Key], str] = {}
    for name, needed in edges.items():
        for each, condition in needed.items():
            ends = keys[each], keys[name]
            if ends[0] != ends[1] and layers[each] < layers[name]:
                before = found.setdefault(ends, condition)
                found[ends] = condition if before == condition else "mixed"
    return found


def _bands(
    groups: Mapping[_Key, Sequence[Mapping[str, Any]]], layers: Mapping[str, int]
) -> list[list[_Key]]:
    found = defaultdict[int, list[_Key]](list)
    for key, steps in groups.items():
        # Folded layers share the number in their keys.
        band = key[0] if isinstance(key, tuple) else layers[steps[0]["name"]]
        found[band].append(key)
    return [found[band] for band in sorted(found)]


def _ordered(bands: list[list[_Key]], arrows: Mapping[tuple[_Key, _Key], str]) -> list[list[_Key]]:
    """Order each band so that connected nodes stand above and below each other."""
    above, below = defaultdict[_Key, list[_Key]](list), defaultdict[_Key, list[_Key]](list)
    for source, target in arrows:
        above[target].append(source)
        below[source].append(target)
    places = {key: (n + 0.5) / len(band) for band in bands for n, key in enumerate(band)}
    found = [list(band) for band in bands]
    for sweep in range(_SWEEPS):
        towards, order = (below, reversed(found)) if sweep % 2 else (above, iter(found))
        for band in order:
            middle = {
                key: sum(places[each] for each in towards[key]) / len(towards[key])
                if towards[key]
                else places[key]
                for key in band
            }
            band.sort(key=middle.__getitem__)
            places.update({key: (n + 0.5) / len(band) for n, key in enumerate(band)})
    return found


def _node(
    steps: Sequence[Mapping[str, Any]], layers: Mapping[str, int], line: int, place: float
) -> StepNode:
    of = [layers[step["name"]] for step in steps]
    types = Counter(step["type"] for step in steps)
    return StepNode(
        *(line, place, min(of), max(of), steps[0]["status"]),
        next(iter(types)) if len(types) == 1 else None,
        len(steps),
        steps[0] if len(steps) == 1 else None,
    )
