"""The steps of a workflow as SVG: nodes with their state, and arrows for their conditions.

Promises that the page has the steps as a table, and that no name is wider than its node.
"""

from collections.abc import Callable
from typing import Final

from markupsafe import Markup

from inboxd.model.step_graph import StepArrow, StepGraph, StepNode

_WIDTH: Final = 170
_HEIGHT: Final = 46
_BESIDE: Final = 18
_BELOW: Final = 34
_EDGE: Final = 8
_LONGEST: Final = 21


def drawing(graph: StepGraph, href: Callable[[StepNode], str], say: Callable[..., str]) -> Markup:
    """href: gives the address of a node; a folded node has that of its list."""
    width = graph.across * (_WIDTH + _BESIDE) - _BESIDE + 2 * _EDGE
    height = graph.lines * (_HEIGHT + _BELOW) - _BELOW + 2 * _EDGE
    corners = [_corner(node, width) for node in graph.nodes]
    arrows = Markup().join(_arrow(each, corners) for each in graph.arrows)
    nodes = Markup().join(
        _node(node, corner, href(node), say)
        for node, corner in zip(graph.nodes, corners, strict=True)
    )
    # Links for the pointer alone: keyboards and screen readers use those of the table.
    return Markup(
        '<svg class="graph" width="{w}" height="{h}" viewBox="0 0 {w} {h}" aria-hidden="true">'
        "{arrows}{nodes}</svg>"
    ).format(w=width, h=height, arrows=arrows, nodes=nodes)


def _corner(node: StepNode, width: int) -> tuple[int, int]:
    left = width / 2 + node.place * (_WIDTH + _BESIDE) + _BESIDE / 2
    return round(left), _EDGE + node.line * (_HEIGHT + _BELOW)


def _arrow(arrow: StepArrow, corners: list[tuple[int, int]]) -> Markup:
    (x0, y0), (x1, y1) = corners[arrow.source], corners[arrow.target]
    x0, y0, x1 = x0 + _WIDTH // 2, y0 + _HEIGHT, x1 + _WIDTH // 2
    bend = min(max((y1 - y0) // 2, _BELOW // 2), 3 * _BELOW)
    return Markup('<path class="arrow {}" d="M{},{}C{},{} {},{} {},{}m-4,-6l4,6l4,-6"/>').format(
        arrow.condition, x0, y0, x0, y0 + bend, x1, y1 - bend, x1, y1
    )


def _node(node: StepNode, corner: tuple[int, int], href: str, say: Callable[..., str]) -> Markup:
    status = node.status or "unknown"
    if node.alone is not None:
        name, title = node.alone["name"], node.alone["name"]
        told = say(status)
        if node.type is not None:
            title = f"{title} ({node.type})"
    else:
        name = f"{node.count:,} \N{MULTIPLICATION SIGN} {node.type or say('steps')}"
        title, told = name, say(status)
    drawn = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in name)
    short = drawn if len(drawn) <= _LONGEST else f"{drawn[: _LONGEST - 1]}…"
    icon = Markup('<use href="#icon-{}" x="10" y="25" width="13" height="13"/>').format(status)
    return Markup(
        '<svg x="{x}" y="{y}" width="{w}" height="{h}"><a class="node {look} {many}" href="{href}" '
        'tabindex="-1"><title>{title}: {told}</title>{stack}<rect x="1" y="1" width="{iw}" '
        'height="{ih}" rx="8"/><text x="11" y="18">{short}</text>{icon}'
        '<text class="state" x="{tx}" y="36">{told}</text></a></svg>'
    ).format(
        x=corner[0],
        y=corner[1],
        w=_WIDTH,
        h=_HEIGHT,
        iw=_WIDTH - (6 if node.alone is None else 2),
        ih=_HEIGHT - (6 if node.alone is None else 2),
        look=status,
        many="" if node.alone is not None else "many",
        href=href,
        title=title,
        told=told,
        short=short,
        icon=icon if node.status else "",
        tx=28 if node.status else 11,
        stack=Markup('<rect x="5" y="5" width="{}" height="{}" rx="8"/>').format(
            _WIDTH - 6, _HEIGHT - 6
        )
        if node.alone is None
        else "",
    )
