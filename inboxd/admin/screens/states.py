"""The states of an event or a command as SVG, with the one that a row is in.

Promises: each legal move is an arrow; the row's state has a word and a thicker line; the page lists
the next moves, too.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Final

from markupsafe import Markup

from inboxd.model.lifecycle import Status, is_legal

_WIDTH: Final = 122
_HEIGHT: Final = 44
_BESIDE: Final = 54
_BELOW: Final = 34
_EDGE: Final = 6
# Half the distance of two arrows between the same states.
_APART: Final = 7

Move = tuple[Status, Status]
Place = tuple[int, int]
Say = Callable[..., str]


@dataclass(frozen=True, slots=True)
class RowState:
    """in_line: it waits in the line of a key; is_settled: nothing follows."""

    kind: str
    status: Status
    in_line: bool = False
    is_settled: bool = False

    @property
    def places(self) -> Mapping[Status, Place]:
        """Column and line. A row in a line waits instead of being pending."""
        first = 0 if self.in_line else 1
        waits = {Status.WAITING: (0, 1)}
        if not self.in_line:
            waits[Status.PENDING] = (first, 1)
        runs: dict[Status, Place] = {}
        if self.kind == "command":
            runs[Status.RUNNING] = (first + 1, 1)
        last = first + 1 + len(runs)
        return {
            Status.CANCELLED: (first, 0),
            **waits,
            **runs,
            Status.SUCCEEDED: (last, 1),
            Status.FAILED: (first, 2),
            Status.DISMISSED: (last, 2),
        }

    @property
    def moves(self) -> frozenset[Move]:
        return frozenset(
            (old, new)
            for old, new in product(self.places, repeat=2)
            if old is not new and self._is_move(old, new)
        )

    def _is_move(self, old: Status, new: Status) -> bool:
        if self.kind == "command" and new is Status.SUCCEEDED and old is not Status.RUNNING:
            return False  # events alone succeed without having been `running`
        if self.in_line:  # a waiting row of a line moves like a pending one
            old, new = (Status.PENDING if each is Status.WAITING else each for each in (old, new))
        return is_legal(old, new)

    @property
    def nexts(self) -> list[Status]:
        if self.is_settled:
            return []
        return [new for new in Status if (self.status, new) in self.moves]


def state_of(kind: str, status: str, *, in_line: bool, is_settled: bool) -> RowState:
    """A row of a line that is pending, as others are, has left the line."""
    found = Status(status)
    return RowState(kind, found, in_line and found is not Status.PENDING, is_settled)


def drawing(state: RowState, say: Say) -> Markup:
    places, nexts = state.places, state.nexts
    moves = sorted(state.moves, key=lambda move: move[0] is state.status)  # the marked ones on top
    arrows = Markup().join(
        _arrow(places[old], places[new], is_next=old is state.status and new in nexts)
        for old, new in moves
    )
    nodes = Markup().join(_node(each, place, state, say) for each, place in places.items())
    columns, lines = (1 + max(axis) for axis in zip(*places.values(), strict=True))
    width = columns * (_WIDTH + _BESIDE) - _BESIDE + 2 * _EDGE
    height = lines * (_HEIGHT + _BELOW) - _BELOW + 2 * _EDGE
    # Screen readers read the list beside the picture.
    return Markup(
        '<svg class="graph states" width="{w}" height="{h}" viewBox="0 0 {w} {h}" '
        'aria-hidden="true">{arrows}{nodes}</svg>'
    ).format(w=width, h=height, arrows=arrows, nodes=nodes)


def why(old: Status, new: Status, say: Say) -> str:
    match old, new:
        case _, Status.RUNNING:
            told = say("a worker starts it")
        case _, Status.SUCCEEDED:
            told = say("its handler succeeds")
        case _, Status.FAILED:
            told = say("no attempt is left, or none would help")
        case _, Status.CANCELLED:
            told = say("an operator cancels it, or it is not needed any more")
        case _, Status.DISMISSED:
            told = say("an operator dismisses it")
        case Status.FAILED, _:
            told = say("an operator replays it")
        case Status.RUNNING, _:
            told = say("it is to be tried again, or its worker stops or dies")
        case Status.WAITING, _:
            told = say("nothing blocks it any more")
        case _:
            told = say("another row blocks it")
    return told


def _corner(place: Place) -> tuple[int, int]:
    return _EDGE + place[0] * (_WIDTH + _BESIDE), _EDGE + place[1] * (_HEIGHT + _BELOW)


def _arrow(old: Place, new: Place, *, is_next: bool) -> Markup:
    """A straight arrow within a row or column, else a curve: first up or down, then sideways.

    Two arrows between the same states are drawn apart, and so are arrows at one side of a state.
    """
    (x0, y0), (x1, y1) = _corner(old), _corner(new)
    right, down = x1 > x0, y1 > y0
    half, middle = _WIDTH // 2, _HEIGHT // 2
    if y0 == y1:
        y = y0 + middle + (_APART if right else -_APART)
        begin, end = (x0 + _WIDTH, x1) if right else (x0, x1 + _WIDTH)
        line, head = f"M{begin},{y}H{end}", "m-6,-4l6,4l-6,4" if right else "m6,-4l-6,4l6,4"
    elif x0 == x1:
        x = x0 + half + (-_APART if down else _APART)
        begin, end = (y0 + _HEIGHT, y1) if down else (y0, y1 + _HEIGHT)
        line, head = f"M{x},{begin}V{end}", "m-4,-6l4,6l4,-6" if down else "m-4,6l4,-6l4,6"
    else:
        x, y = x0 + half, y1 + middle - (0 if right else _APART)
        end = x1 if right else x1 + _WIDTH
        line = f"M{x},{y0 + _HEIGHT if down else y0}Q{x},{y} {end},{y}"
        head = "m-6,-4l6,4l-6,4" if right else "m6,-4l-6,4l6,4"
    return Markup('<path class="arrow{}" d="{}{}"/>').format(" next" if is_next else "", line, head)


def _node(status: Status, place: Place, state: RowState, say: Say) -> Markup:
    x, y = _corner(place)
    is_here = status is state.status
    here = Markup('<text class="state" x="30" y="35">{}</text>').format(say("now here"))
    return Markup(
        '<svg x="{x}" y="{y}" width="{w}" height="{h}"><g class="node {status}{mark}">'
        '<rect x="2" y="2" width="{iw}" height="{ih}" rx="8"/>'
        '<use href="#icon-{status}" x="11" y="{icon}" width="14" height="14"/>'
        '<text x="30" y="{text}">{word}</text>{here}</g></svg>'
    ).format(
        x=x,
        y=y,
        w=_WIDTH,
        h=_HEIGHT,
        iw=_WIDTH - 4,
        ih=_HEIGHT - 4,
        status=status,
        mark=" here" if is_here else "",
        icon=7 if is_here else 15,
        text=18 if is_here else 26,
        word=say(status),
        here=here if is_here else "",
    )
